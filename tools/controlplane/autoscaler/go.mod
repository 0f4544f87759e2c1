// The CRD of ProvisioningRequest, by its version.
module maar/controlplane/autoscaler

go 1.26.0

require k8s.io/autoscaler/cluster-autoscaler/apis v0.0.0-20240813092541-aec7b75bb683
