"""Why and what if: edits of a cluster, the plan before and after them, and the changes that start a waiting job.

The modules of edits say what can be changed, `answer` compares two plans, `place` says which jobs go first and why, and
`unblock` searches for changes. Everything here is pure and asks `maar.decide`. Processes and commands import it; no
module below does.
"""
