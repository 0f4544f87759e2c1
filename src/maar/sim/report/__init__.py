"""What runs look like: one page with plots that needs nothing but a browser, and the plots as files of their own.

`page` is the entrance; `completion`, `usage` and `bars` draw one figure each, `table` has the numbers. `svg` and
`scales` know nothing of simulations. Comes after the runs; decides nothing.
"""
