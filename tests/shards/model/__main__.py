"""Explore the shard protocol, and show what each rule prevents.

python -m tests.shards.model                      all small clusters
python -m tests.shards.model --large              the large ones too: about three minutes
python -m tests.shards.model --broken             a shortest counterexample for each broken rule
python -m tests.shards.model --broken taker_lists
"""

from __future__ import annotations

import argparse
import sys

from tests.shards.model.broken import BROKEN
from tests.shards.model.explore import explore
from tests.shards.model.rules import Rules
from tests.shards.model.setting import Setting
from tests.shards.model.settings import LARGE, SMALL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shards.model")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--broken", nargs="*", choices=Rules.names(), default=None, metavar="RULE")
    options = parser.parse_args()
    if options.broken is not None:
        for name in options.broken or Rules.names():
            case = BROKEN[name]
            for harm in (False, True) if case.harm != case.danger else (False,):
                found = explore(case.setting, Rules().without(name), effects_only=harm)
                print(f"\nwithout {name}, in `{case.setting.name}` ({found.states:,} states)\n{found.counterexample}")
        return 0
    return _whole(SMALL + LARGE if options.large else SMALL)


def _whole(settings: tuple[Setting, ...]) -> int:
    states, bad = 0, 0
    print(f"{'setting':24} {'states':>9} {'steps':>10} {'depth':>6} {'seconds':>8}")
    for setting in settings:
        found = explore(setting)
        states += found.states
        print(f"{setting.name:24} {found.states:9,} {found.steps:10,} {found.depth:6} {found.seconds:8.1f}", flush=True)
        if found.counterexample is not None:
            bad += 1
            print(found.counterexample)
    print(f"{states:,} states, {bad} counterexamples")
    return bad


if __name__ == "__main__":
    sys.exit(main())
