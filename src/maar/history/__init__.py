"""What jobs did: measurements of epochs and accounting, in SQL, and the speed-up model made of them.

Below the line: it talks to a database, in a thread of its own. Scheduling works without it: if the database fails, only
estimates get worse. Imports `model` and `elastic.speedup`; `controller`, `web` and `cli` import from here.
"""
