{{/*
The name of everything: that of the release, so that `helm install maar` makes `maar`. With `-web-aggregated` it must not be
longer than a Service's name may be: 63 characters.
*/}}
{{- define "maar.name" -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "maar.webName" -}}
{{- include "maar.name" . -}}-web
{{- end -}}

{{/* Labels by which pods are selected; they never change. */}}
{{- define "maar.selector" -}}
app.kubernetes.io/name: maar
app.kubernetes.io/instance: {{ include "maar.name" . }}
{{- end -}}

{{- define "maar.webSelector" -}}
app.kubernetes.io/name: maar-web
app.kubernetes.io/instance: {{ include "maar.name" . }}
{{- end -}}

{{- define "maar.labels" -}}
{{ include "maar.selector" . }}
app.kubernetes.io/part-of: maar
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "maar.webLabels" -}}
{{ include "maar.webSelector" . }}
app.kubernetes.io/part-of: maar
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "maar.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "maar.replicas" -}}
{{- if .Values.shadow -}}
1
{{- else if not (kindIs "invalid" .Values.replicas) -}}
{{ int .Values.replicas }}
{{- else if .Values.shards -}}
{{ add 1 (int .Values.shards) }}
{{- else -}}
2
{{- end -}}
{{- end -}}

{{/* The name of the class of Maar's own pods; empty for none. */}}
{{- define "maar.priorityClass" -}}
{{- if .Values.priorityClass.name -}}
{{ .Values.priorityClass.name }}
{{- else if .Values.priorityClass.create -}}
{{ include "maar.name" . }}
{{- end -}}
{{- end -}}

{{- define "maar.hasHistory" -}}
{{- if or .Values.history.url .Values.history.existingSecret -}}yes{{- end -}}
{{- end -}}

{{- define "maar.historySecret" -}}
{{- .Values.history.existingSecret | default (printf "%s-history" (include "maar.name" .)) -}}
{{- end -}}

{{/* The port of PostgreSQL, for the NetworkPolicy: that of the URL, if it has one. */}}
{{- define "maar.historyPort" -}}
{{- $address := regexFind "//[^/?]*" .Values.history.url -}}
{{- regexFind ":[0-9]+$" $address | trimPrefix ":" | default (toString (int .Values.history.port)) -}}
{{- end -}}

{{- define "maar.tlsSecret" -}}
{{- .Values.web.tls.secretName | default (include "maar.webName" .) -}}
{{- end -}}

{{/* The names for which the certificate of `maar web` must be. */}}
{{- define "maar.hosts" -}}
{{- $names := list -}}
{{- range list (include "maar.webName" .) (printf "%s-aggregated" (include "maar.webName" .)) -}}
{{- $names = concat $names (list (printf "%s.%s.svc" . $.Release.Namespace) (printf "%s.%s" . $.Release.Namespace) .) -}}
{{- end -}}
{{- concat $names (list "localhost") .Values.web.tls.hosts | toJson -}}
{{- end -}}

{{/* Options that `maar run` and `maar web` have in common, so that both see the same cluster. */}}
{{- define "maar.commonArgs" -}}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
- --config=/etc/maar/maar.yaml
- --brakes=/etc/maar/brakes.yaml
{{- if .Values.lenient }}
- --lenient
{{- end }}
{{- if .Values.nodes }}
{{- $pairs := list }}
{{- range $key, $value := .Values.nodes }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end }}
- --node-selector={{ join "," $pairs }}
{{- end }}
{{- range $family, $on := .Values.kinds }}
{{- if and (not $on) (ne $family "metrics") }}
- --without={{ $family }}
{{- end }}
{{- end }}
{{- if ne .Values.logFormat "text" }}
- --log-format={{ .Values.logFormat }}
{{- end }}
{{- end -}}

{{/* Where the history and the API server are. */}}
{{- define "maar.env" -}}
{{- if include "maar.hasHistory" . }}
- name: MAAR_HISTORY
  valueFrom:
    secretKeyRef:
      name: {{ include "maar.historySecret" . }}
      key: {{ ternary .Values.history.existingSecretKey "url" (ne .Values.history.existingSecret "") }}
{{- end }}
{{- with .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ $.Values.apiServer.port | quote }}
- name: KUBERNETES_SERVICE_PORT_HTTPS
  value: {{ $.Values.apiServer.port | quote }}
{{- end }}
{{- end -}}

{{/* Where Maar's own pods run. The argument has `selector`, the name of the template of their labels. */}}
{{- define "maar.placement" -}}
{{- $root := .root -}}
schedulerName: {{ $root.Values.schedulerName }}    # Maar cannot start itself
{{- with include "maar.priorityClass" $root }}
priorityClassName: {{ . }}
{{- end }}
enableServiceLinks: false    # the Service `maar` would set MAAR_PORT and others
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:                 # none for GPU nodes: their taints keep these pods away
{{ toYaml . }}
{{- end }}
{{- with $root.Values.gpuNodes }}
{{- if and (ne .avoid "no") .labels }}
affinity:
  nodeAffinity:
  {{- if eq .avoid "required" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        {{- range .labels }}
        - key: {{ . }}
          operator: DoesNotExist
        {{- end }}
  {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
        {{- range .labels }}
        - key: {{ . }}
          operator: DoesNotExist
        {{- end }}
  {{- end }}
{{- end }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: {{ $root.Values.spreadOver }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include .selector $root | nindent 6 }}
{{- end -}}

{{- define "maar.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "maar.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Values that contradict each other, which a schema cannot say well. */}}
{{- define "maar.check" -}}
{{- if and .Values.history.url .Values.history.existingSecret -}}
{{- fail "history: set either `url` or `existingSecret`, not both" -}}
{{- end -}}
{{- if and .Values.shards (not .Values.kinds.shards) -}}
{{- fail "shards: needs `kinds.shards: true`" -}}
{{- end -}}
{{- if and .Values.shards .Values.shadow -}}
{{- fail "shards: a shadow install decides as one Maar; remove `shards` or set `shadow: false`" -}}
{{- end -}}
{{- if and .Values.shards (not (kindIs "invalid" .Values.replicas)) (lt (int .Values.replicas) (int .Values.shards)) -}}
{{- fail (printf "replicas: %d replicas cannot hold %d shards; leave it out for %d" (int .Values.replicas) (int .Values.shards) (add 1 (int .Values.shards))) -}}
{{- end -}}
{{- $config := .Values.config | fromYaml -}}
{{- with $config.Error -}}
{{- fail (printf "config: not a YAML mapping: %s" .) -}}
{{- end -}}
{{- if and (eq "untrusted" (toString $config.tenants)) (not (or .Values.shadow .Values.evictions.allowDelete .Values.evictions.deleteVictims)) -}}
{{- fail "evictions.allowDelete: needed with `tenants: untrusted` in `config`" -}}
{{- end -}}
{{- if and (eq .Values.web.tls.source "cert-manager") (not .Values.web.tls.issuer.name) -}}
{{- fail "web.tls.issuer.name: needed with `source: cert-manager`" -}}
{{- end -}}
{{- if and .Values.web.aggregated.enabled (eq .Values.web.tls.source "secret") (not .Values.web.aggregated.caBundle) -}}
{{- fail "web.aggregated.caBundle: needed with a certificate of your own: the authority that signed it, base64 of PEM" -}}
{{- end -}}
{{- if and .Values.web.aggregated.enabled (not .Values.web.enabled) -}}
{{- fail "web.aggregated: needs `web.enabled: true`" -}}
{{- end -}}
{{- end -}}
