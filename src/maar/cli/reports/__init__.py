"""The results of commands as text and as JSON: plans, simulations, traces, the history.

Only commands import from here.
"""
