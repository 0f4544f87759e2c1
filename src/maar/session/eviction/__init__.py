"""Making room by eviction: possible `victims`, `openings` on nodes, the one `cost`, and the search (`making_room`).

Imports the session and `resizing.workers`; actions, `resizing.waiting_gangs` and plugins import it.
"""
