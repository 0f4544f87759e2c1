"""The loop: events in, cycles, plans out."""
