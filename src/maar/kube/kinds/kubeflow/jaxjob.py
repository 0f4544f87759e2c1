"""JAXJob `kubeflow.org/v1`: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.kubeflow.family import kind

KIND = kind("JAXJob", "jaxReplicaSpecs")
