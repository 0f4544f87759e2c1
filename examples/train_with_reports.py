"""A training that tells Maar how long its epochs take.

    MAAR_URL=http://maar.maar-system:8080 MAAR_JOB=team/resnet python train_with_reports.py --epochs 3

In a pod of a PyTorchJob or an MPIJob MAAR_URL is enough: job, namespace, rank and number of workers are found. Without
an address nothing is reported and nothing else changes. The training here is pretended; put your own in its place.
"""

import argparse
import time

from maar.report import Reporter  # or `from report import Reporter`, with a copy of the file beside this one


def train_one_epoch(epoch: int) -> None:
    """Where your training goes: for batch in loader: loss = ...; loss.backward(); optimizer.step()."""
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
