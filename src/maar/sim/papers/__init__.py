"""What reproduces published results: the models of two papers, and the readers of their traces.

`muri` is the simulator of Muri (SIGCOMM 2022), `muri_trace` its CSV. `rates` is that of Pollux (OSDI 2021), with the
placement of `packing` and the speeds of `applications`; `pollux_trace` reads its workloads. The tables of
`maar.sim.models` and `maar.sim.traces` list them. To read the simulator, begin elsewhere.
"""
