"""Reads traces from files: one module per format, listed in `formats`; two more are in `maar.sim.papers`.

A format gets a `source`, reads tables with `rows`, which reports all errors, and returns a `maar.sim.trace.Trace`.
Traces are written only in Maar's own format (`own`). Nothing here runs a trace. `cli` and
`maar.sim.generate` import from here.
"""
