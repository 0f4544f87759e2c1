"""Making room by eviction: possible `victims`, `openings` on nodes, the one `cost`, and the search (`making_room`).

Gangs that leave whole are compared as columns (`gang_table`, `alone`), all other victims one by one.

Imports the session and `resizing.workers`; actions, `resizing.waiting_gangs` and plugins import it.
"""
