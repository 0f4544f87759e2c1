"""The history of jobs in SQL: epoch measurements, accounting events, and the speed-up model computed from them.

Not part of the pure half: it talks to a database, in its own thread. Scheduling works without it: if the database
fails, only estimates get worse. Imports `model` and `elastic.speedup`; `controller`, `web` and `cli` import from here.
"""
