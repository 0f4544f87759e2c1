"""Forecasts of a live cluster: a process that makes them, when it works, and what is kept and shown of them.

`python -m maar.web.forecasting` is the process: it gets a snapshot, rolls it forward at the lowest priority, and ends.
`keeper` decides when, in `maar web`. Only `web` and `cli` import it.
"""
