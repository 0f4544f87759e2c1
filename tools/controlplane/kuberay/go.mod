// The CRDs of RayCluster and RayJob, by the version of their operator.
module maar/controlplane/kuberay

go 1.26.0

require github.com/ray-project/kuberay/ray-operator v1.5.1
