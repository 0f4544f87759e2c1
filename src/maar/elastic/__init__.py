"""How many workers each elastic job gets: algorithms, a file each, over columns of jobs; the speed-up model.

Between the model and the session in the house: pure, without a cluster, a clock or a memory. What comes before is who
describes the jobs (the `resize` action, the simulator, `maar allocate`); what comes after is who turns a size for each
job into decisions. `jobs` has the columns, `speedup` what more workers bring, `allocate` runs an algorithm and refuses
an answer that is not valid for the jobs it was asked for.
"""
