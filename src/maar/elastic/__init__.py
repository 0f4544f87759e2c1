"""How many workers each elastic job gets: algorithms (one file each) over columns of jobs, and the speed-up model.

`jobs` has the columns, `order` the code that algorithms share, `speedup` the gain of more workers, `damping` the
changes that are worth a restart, `placement` the nodes of workers. `allocate` runs an algorithm and checks its answer.
Pure: no cluster, clock or memory. Imports `config` and `model`; `session`, `sim`, `cli` and the layers between import
it, and `history` imports only the speed-up model.
"""
