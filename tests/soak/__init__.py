"""The soak: all faults at random for half an hour or longer, with one witness. `make soak` runs it."""
