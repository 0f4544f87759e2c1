"""Traces from files: each format a small module, all of them in one table (`formats`).

`source` is what a format is given, `rows` reads tables and names what is wrong in them; what comes out is a
`maar.sim.trace.Trace`. Writing is in Maar's own format only (`own`). Nothing here knows how a trace is played.
"""
