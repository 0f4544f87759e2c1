"""Configurations of tests: only what each action needs, and files that Volcano installs or documents."""

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

# The configuration that Volcano's Helm chart installs.
HELM = """
actions: "enqueue, allocate, backfill"
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

HELM_PREEMPT = HELM.replace("allocate,", "allocate, preempt,")
HELM_RECLAIM = HELM.replace("allocate,", "allocate, reclaim,")

# The configuration of Volcano's guide to the capacity plugin.
CAPACITY_GUIDE = HELM_RECLAIM.replace("proportion", "capacity")
# The same with queues in a tree.
CAPACITY_TREE = CAPACITY_GUIDE.replace("name: capacity", "name: capacity\n    enableHierarchy: true")
