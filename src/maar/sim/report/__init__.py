"""The report of a comparison: one HTML page with plots, without scripts or requests, and the plots as SVG files.

Start at `page`. `completion`, `usage` and `bars` draw one figure each, and `table` has the numbers. `svg` and `scales`
know nothing about simulations. The report only reads the results of runs. Only `cli` imports from here.
"""
