"""What Maar shows over HTTP: health, metrics."""
