"""How many workers each elastic job gets: algorithms (one file each) over columns of jobs, and the speed-up model.

`jobs` has the columns, `order` what algorithms share, `speedup` what more workers bring, `damping` which changes are
worth a restart, `placement` which nodes workers go to. `allocate` runs an algorithm and refuses an invalid answer.
Pure: no cluster, clock or memory. Imports `config` and `model`; `session`, `sim`, `cli` and the layers between import
from here, and `history` the speed-up model only.
"""
