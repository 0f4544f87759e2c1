"""Configurations of Volcano's users, as they write them, with `reclaim`."""

HELM_WITH_RECLAIM = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The file that Volcano's Helm chart installs, with `reclaim` added."""

CAPACITY_GUIDE = """
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: capacity
  - name: nodeorder
  - name: binpack
"""
"""The file in Volcano's guide to the capacity plugin."""

CAPACITY_TREE = CAPACITY_GUIDE.replace("name: capacity", "name: capacity\n    enableHierarchy: true")
"""The same with queues in a tree."""
