"""Between the running Maar and the history (`maar.history`): accounts of jobs go in, knowledge for decisions comes out.

Imports the loop, `snapshots` and `writing`; only the scheduler imports it.
"""
