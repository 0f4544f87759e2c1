"""Configurations of the live tests: only what each action needs."""

ALLOCATE = """
actions: "allocate"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: predicates}
"""

PREEMPT = """
actions: "allocate, preempt"
tiers:
- plugins:
  - {name: priority}
  - name: gang
    arguments: {gang.eviction: whole}
  - {name: conformance}
  - {name: pdb}
  - {name: predicates}
"""

SURPLUS_ONLY = PREEMPT.replace("whole", "surplus")

RECLAIM = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - {name: priority}
  - name: gang
    arguments: {gang.eviction: whole}
  - {name: conformance}
- plugins:
  - {name: predicates}
  - {name: proportion}
"""

BACKFILL = ALLOCATE.replace('"allocate"', '"allocate, backfill"')

RESERVE = """
actions: "elect, allocate, reserve"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: reservation}
  - {name: predicates}
"""
