"""The stem of a job's name: the name without what differs between runs of the same training."""

from __future__ import annotations

import re

_RUN = re.compile(
    r"""[-_.](?:
        [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}     # a UUID
      | \d{8}t?\d{4,6}z?                                # a time: 20261101t100000z
      | \d+                                             # a number, a date, seconds since 1970
      | (?=[0-9a-f]*\d)[0-9a-f]{7,64}                   # a hash, in hexadecimal: with a digit, so that words stay
      | [bcdfghjklmnpqrstvwxz2456789]{5}                # what Kubernetes appends to a generateName
    )$""",
    re.VERBOSE,
)


def stem_of(name: str) -> str:
    """The name without numbers, times, hashes and generated suffixes at its end.

    >>> stem_of("resnet-20261101-100000"), stem_of("bert-7f9c2a1"), stem_of("b-x7k2p"), stem_of("vgg16"), stem_of("12")
    ('resnet', 'bert', 'b', 'vgg16', '12')
    """
    stem = name
    while (end := _RUN.search(stem)) and end.start():
        stem = stem[: end.start()]
    return stem
