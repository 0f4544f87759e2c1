"""A training that reports to Maar how long its epochs take.

    MAAR_URL=http://maar.maar-system:8080 MAAR_JOB=team/resnet python train_with_reports.py --epochs 3

In a pod of a PyTorchJob or an MPIJob, MAAR_URL is enough: the reporter finds job, namespace, rank and number of workers.
Without an address it reports nothing, and nothing else changes. The training here is simulated; replace it by yours.
"""

import argparse
import time

from maar.report import Reporter  # or `from report import Reporter`, with a copy of the file beside this one


def train_one_epoch(epoch: int) -> None:
    """Your training goes here: for batch in loader: loss = ...; loss.backward(); optimizer.step()."""
    time.sleep(0.05)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=3)
    epochs = arguments.parse_args().epochs

    reporter = Reporter(total_epochs=epochs, local_batch_size=32)
    for epoch in reporter.epochs(epochs):
        train_one_epoch(epoch)

    # Keras:    model.fit(..., callbacks=[reporter.keras()])
    # Horovod:  reporter = Reporter(total_epochs=epochs).horovod(hvd)
    print(f"trained {epochs} epochs")


if __name__ == "__main__":
    main()
