"""The processes that answer expensive questions of `maar web`: what-if, why a job waits, and reading what is submitted.

What a user sends is read and computed here, never in the process that serves: a worker has a memory ceiling, and is
ended with its question when the client has gone. `pool` is the side of `maar web`, `work` that of the worker, and
`tasks` lists what can be asked.
"""
