"""Faults on a real cluster, and the one witness that judges all of them. Tests and the soak (`tests/soak`) import it.

`writes` reads every write from etcd, `witness` judges them, `users` create and end jobs, `replicas` runs Maar,
`stage` puts them together, and `troubles` has the faults.
"""
