"""What jobs did: measurements of epochs and accounting, in SQL, and the speed-up model made of them.

Below the line: it talks to a database. It holds a better model if there is one, never a need: whatever happens to the
database, scheduling goes on.
"""
