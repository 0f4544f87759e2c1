// The CRD of JobSet, by its version.
module maar/controlplane/jobset

go 1.26.0

require sigs.k8s.io/jobset v0.11.0
