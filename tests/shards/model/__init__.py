"""The shard protocol as an executable specification, and an explorer that visits every state of small clusters.

    rules.py       each rule of docs/shards-proof.md as a switch, so that a test can break one
    state.py       the state: objects in the API server, requests on their way, memory of processes
    setting.py     a small cluster: shards, nodes, queues, gangs, and how many faults may happen
    steps.py       everything that can happen next
      placing.py     what a process decides: placements, wants, lends, victims
    starving.py    endless runs in which a job is passed over again and again
    invariants.py  what must be true in every state
    explore.py     breadth first search with state hashing; shortest counterexamples; liveness
    settings.py    the clusters that are explored

`python -m tests.shards.model` explores all of them and prints how many states there are.
"""
