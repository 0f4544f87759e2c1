"""`python -m maar.web.front`: the HTTP process, with its setting as JSON in the first argument."""

import os
import sys

NICE = 10
"""Added to the niceness: the scheduler goes first whenever both want the CPU."""


def start() -> None:
    os.nice(NICE)
    from maar.web.front.main import main  # After `nice`: imports cost time too.

    main(sys.argv[1])


start()
