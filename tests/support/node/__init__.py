"""A real node on this machine: kubelet, containerd, kube-proxy and a real control plane. `node.RealNode` starts it.

`needs` says what the machine lacks. `walls` runs a program in namespaces of its own, so that nothing is left: no
process, mount, network interface, firewall rule or cgroup. `commands` has the programs' flags and files, `images` makes
and loads images, `chart` installs Maar, `jobs`, `training` and `sleepers` submit work, `users` asks about it. `enter`
is the way in. Only tests/node and bench/learning_node import it.
"""
