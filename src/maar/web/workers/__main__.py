"""`python -m maar.web.workers BYTES PARENT`: answers questions from standard input, one after the other.

Its memory is limited, and it ends with the process PARENT.
"""

import os

NICE = 10


def start() -> None:
    os.nice(NICE)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported: one core
    from maar.web.workers.work import main  # After `nice`: imports cost time too.

    main()


start()
