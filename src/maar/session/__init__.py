"""One scheduling cycle: the session, and what actions and plugins do in it.

`session` is the view of one cycle. `state` and `journal` hold what changes and undo it; `statement` is a transaction.
Plugins register in `register` and `hooks`. Actions use `gangs`, `placement`, `view` and `turns`. `plan` and `explain`
read the result. Folders: `eviction` makes room, `resizing` decides sizes. This package imports `model`, `config` and
`elastic`; plugins, actions, `decide` and higher layers import it.
"""
