"""HTTP: health, metrics and measurements of `maar run`, and in `api` `maar web` with its page.

`server` runs in the scheduler's process: it starts the HTTP process (`front`), which talks to clients, and answers its
questions (`messages`). Imports `controller`, `kube` and `history`. `cli` passes `server.serving` to
`maar.controller.main.run`; no other package imports this one.
"""
