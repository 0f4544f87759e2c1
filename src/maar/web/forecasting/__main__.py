"""`python -m maar.web.forecasting BYTES PARENT`: one forecast, from standard input to standard output.

Its memory is limited, and it ends with the process PARENT.
"""

import os

NICE = 19


def start() -> None:
    os.nice(NICE)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported: one core
    from maar.web.forecasting.work import main  # After `nice`: imports cost time too.

    main()


start()
