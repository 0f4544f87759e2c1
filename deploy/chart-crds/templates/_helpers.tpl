{{/*
Whether this release defines a kind: `ours`, `off` by the values, or `foreign` if the cluster has it from elsewhere. What
Volcano made of a definition of ours is Volcano's: its generator leaves an annotation.
*/}}
{{- define "maar.crd" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .crd.metadata.name -}}
{{- $annotations := ($found.metadata | default dict).annotations | default dict -}}
{{- if and (eq .crd.spec.group "scheduling.volcano.sh") (not .root.Values.podGroupsAndQueues) -}}
off
{{- else if not $found -}}
ours
{{- else if or (ne (index $annotations "meta.helm.sh/release-name" | default "") .root.Release.Name) (ne (index $annotations "meta.helm.sh/release-namespace" | default "") .root.Release.Namespace) (hasKey $annotations "controller-gen.kubebuilder.io/version") -}}
foreign
{{- else -}}
ours
{{- end -}}
{{- end -}}
