"""The real load of nodes, gathered beside the loop: `sources` say where it is read, `gatherer` what reaches decisions.

Imports no other part of the controller; only the scheduler imports it.
"""
