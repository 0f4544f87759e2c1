"""One cycle of decisions: the session, and what actions and plugins do in it.

`session` is the view of one cycle; `state` and `journal` hold what changes and undo it; `statement` is a transaction;
`hooks` and `register` are where plugins speak; `placement`, `view` and `turns` serve actions; `plan` and `explain` read
the result off. Folders: `eviction` makes room, `resizing` decides sizes. Imports `model`, `config` and `elastic`;
plugins, actions, `decide` and what stands on them import from here.
"""
