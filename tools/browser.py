"""Install Chromium from the packages of the system, for the tests of the page in tests/web/page.

    python tools/browser.py

It does nothing if there is a Chromium already, or if MAAR_CHROMIUM names one. It installs only on Debian and Ubuntu and
only as root; else it says what to do, and the tests of the page fail with the same words. It uses only the standard
library, because it runs first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""The commands that tests.support.page.browser looks for."""
PACKAGES = ("chromium", "fonts-dejavu-core")


def main() -> None:
    if os.environ.get("MAAR_CHROMIUM") or any(map(shutil.which, NAMES)):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(
            "the tests of the page need Chromium: install the package `chromium`, or set MAAR_CHROMIUM", file=sys.stderr
        )
        return
    print("installing Chromium from the packages of the system (once, about a minute)", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "--quiet=2", *command], env=quiet, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"cannot install Chromium: apt-get {command[0]}: {(done.stderr or done.stdout).strip()}")


if __name__ == "__main__":
    main()
