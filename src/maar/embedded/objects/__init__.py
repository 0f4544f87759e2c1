"""What the server stores: the kinds, the rules for their objects, the store, and the verbs that change it (`api`).

No HTTP, no waiting: every verb happens in one step of the event loop. The other rooms import from here; this room
imports none of them.
"""
