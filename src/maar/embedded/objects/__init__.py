"""The state of the server: kinds, the rules for their objects, the store, and the verbs that change it (`api`).

No HTTP and no waiting: every verb is one step of the event loop. The other rooms import this one; it imports none of
them.
"""
