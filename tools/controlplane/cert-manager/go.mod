// The CRDs of cert-manager, by its version.
module maar/controlplane/cert-manager

go 1.26.0

require github.com/cert-manager/cert-manager v1.18.2
