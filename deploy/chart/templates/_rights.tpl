{{/*
The rights of Maar, by family of kinds. tests/chart/test_rights.py compares them with the table in maar.kube.kinds, for
every switch of `kinds`.
*/}}

{{- define "maar.readingRules" -}}
- apiGroups: [""]
  resources: [nodes, pods, namespaces, services, resourcequotas, persistentvolumeclaims, persistentvolumes]
  verbs: [get, list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes, csidrivers, csistoragecapacities]
  verbs: [get, list, watch]
{{- if .Values.kinds.metrics }}
# The real load of nodes, for the plugin `usage`; the metrics API cannot be watched.
- apiGroups: [metrics.k8s.io]
  resources: [nodes]
  verbs: [get, list]
- apiGroups: [custom.metrics.k8s.io]
  resources: [nodes/node_cpu_usage_avg, nodes/node_memory_usage_avg]
  verbs: [get]
{{- end }}
- apiGroups: [scheduling.k8s.io]
  resources: [{{ if .Values.kinds.podgroups }}priorityclasses, podgroups{{ else }}priorityclasses{{ end }}]
  verbs: [get, list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups, queues]
  verbs: [get, list, watch]
{{- if index .Values.kinds "scheduler-plugins" }}
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.shards }}
- apiGroups: [maar.dev]
  resources: [shardmaps, shards]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.jobs }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.volcano }}
- apiGroups: [batch.volcano.sh]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.jobset }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.kubeflow }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs, tfjobs, mpijobs, xgboostjobs, paddlejobs, jaxjobs]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.trainer }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.ray }}
- apiGroups: [ray.io]
  resources: [rayclusters, rayjobs]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.leaderworkerset }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.kinds.autoscaler }}
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{- define "maar.writingRules" -}}
- apiGroups: [""]
  resources: [pods/binding, pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [pods, pods/status]    # reasons, nominations, the gate of a queue
  verbs: [patch]
{{- if or .Values.evictions.deleteVictims .Values.evictions.allowDelete }}
- apiGroups: [""]                   # for `maar run --delete-victims` and `tenants: untrusted`
  resources: [pods]
  verbs: [delete]
{{- else }}
# - apiGroups: [""]                 # only for `maar run --delete-victims` and `tenants: untrusted`
#   resources: [pods]
#   verbs: [delete]
{{- end }}
- apiGroups: [""]
  resources: [nodes]                # the annotations that lock a node for a job; what plugins remember of a node
  verbs: [patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims, persistentvolumes]  # the node for a new volume; the claim of a free one
  verbs: [patch]
{{- if .Values.kinds.autoscaler }}
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests] # only with `autoscaling.provisioning-class` in the configuration
  verbs: [create, delete]
- apiGroups: [""]
  resources: [podtemplates]         # the pods that a ProvisioningRequest is for
  verbs: [create, delete]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]         # whose token a training sends with its measurements; nothing is stored
  verbs: [create]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]            # the status too: Volcano's PodGroup has no subresource for it
  verbs: [patch]
- apiGroups: [scheduling.volcano.sh]
  resources: [queues]               # creates the queue `default` if it is missing; what plugins remember of a queue
  verbs: [create, patch]
- apiGroups: [scheduling.volcano.sh]
  resources: [queues/status]        # what each queue uses
  verbs: [patch]
{{- if .Values.kinds.podgroups }}
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups, podgroups/status]
  verbs: [patch]
{{- end }}
{{- if index .Values.kinds "scheduler-plugins" }}
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups, podgroups/status]
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.jobs }}
- apiGroups: [batch]
  resources: [jobs]                 # sizes and suspension of elastic jobs, and notes for their owners
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.volcano }}
- apiGroups: [batch.volcano.sh]
  resources: [jobs]                 # the same
  verbs: [patch]
- apiGroups: [bus.volcano.sh]
  resources: [commands]             # pause and resume a Volcano Job
  verbs: [create]
{{- end }}
{{- if .Values.kinds.jobset }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]              # suspension
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.trainer }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]            # suspension
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.leaderworkerset }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]     # notes for their owners
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.ray }}
- apiGroups: [ray.io]
  resources: [rayclusters, rayjobs] # size and suspension of a cluster, suspension of a job
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.kubeflow }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs, tfjobs, mpijobs, xgboostjobs, paddlejobs, jaxjobs]
  verbs: [patch]
{{- end }}
{{- if .Values.kinds.shards }}
- apiGroups: [maar.dev]
  resources: [shardmaps, shards]    # only with `--shards`
  verbs: [create, update]
{{- end }}
{{- end -}}

{{/* The Leases of one scheduler name: one for each shard, of which there are at most 64. */}}
{{- define "maar.leases" -}}
{{- $names := list -}}
{{- range .Values.schedulerNames -}}
{{- $base := ternary "maar" (printf "maar-%s" .) (eq . "maar") -}}
{{- $names = append $names $base -}}
{{- if $.Values.kinds.shards -}}
{{- range untilStep 1 64 1 -}}{{- $names = append $names (printf "%s-shard-%d" $base .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- join ", " $names | wrapWith 110 "\n" -}}
{{- end -}}
