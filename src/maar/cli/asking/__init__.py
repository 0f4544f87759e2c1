"""Questions of the commands `jobs`, `why`, `when`, `queues`, `nodes` and `what-if`, and their answers as text.

A `Source` answers with the structs of the HTTP API: `server` asks `maar web`, `here` reads the cluster with the rights
of the caller and decides in this process. `tables` and `detail` print either. Only the commands import it.
"""
