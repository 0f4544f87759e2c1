"""Forecasts: when waiting jobs start and end, from `decide` rolled forward on a virtual cluster.

`runtimes` says how long jobs run, from finished jobs. `rollout` plays one possible future and `forecast` makes
quantiles of many. `calibrate` judges old forecasts and widens new ones. Pure: no network, no clock, draws from a seed.
Imports `decide` and the virtual cluster of `sim`; `web` and `cli` import it.
"""
