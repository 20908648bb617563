{{- define "cmesh.labels" -}}
app.kubernetes.io/name: cmesh
app.kubernetes.io/part-of: cmesh
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "cmesh.selector" -}}
app.kubernetes.io/name: cmesh
app.kubernetes.io/component: manager
{{- end -}}

{{- define "cmesh.prefix" -}}
{{- .Values.labels.prefix | default "ctrlmesh.kusionstack.io" -}}
{{- end -}}

{{- /* The key of a control label: [name below the prefix or whole key, the default, .] */ -}}
{{- define "cmesh.key" -}}
{{- $name := index . 0 | default (index . 1) -}}
{{- contains "/" $name | ternary $name (printf "%s/%s" (include "cmesh.prefix" (index . 2)) $name) -}}
{{- end -}}

{{- /* IMAGE and the chart: [image, .] */ -}}
{{- define "cmesh.image" -}}
{{- $image := index . 0 -}}
{{- printf "%s:%s" $image.repository ($image.tag | default (index . 1).Chart.AppVersion) -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- /* Flags of the manager, as CMESH_FLAG: VALUE. */ -}}
{{- define "cmesh.settings" -}}
CMESH_SIDECAR_IMAGE: {{ include "cmesh.image" (list .Values.proxy.image .) | quote }}
CMESH_NAT_IMAGE: {{ include "cmesh.image" (list .Values.proxy.natImage .) | quote }}
{{- with .Values.proxy.image.pullPolicy }}
CMESH_SIDECAR_PULL_POLICY: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.resources }}
{{- with (.requests | default dict).cpu }}
CMESH_PROXY_CPU: {{ . | quote }}
{{- end }}
{{- with (.requests | default dict).memory }}
CMESH_PROXY_MEMORY: {{ . | quote }}
{{- end }}
{{- with (.limits | default dict).memory }}
CMESH_PROXY_MEMORY_LIMIT: {{ . | quote }}
{{- end }}
{{- with (.limits | default dict).cpu }}
CMESH_PROXY_CPU_LIMIT: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.proxy.rulesyncResources }}
{{- with (.requests | default dict).cpu }}
CMESH_RULESYNC_CPU: {{ . | quote }}
{{- end }}
{{- with (.requests | default dict).memory }}
CMESH_RULESYNC_MEMORY: {{ . | quote }}
{{- end }}
{{- with (.limits | default dict).cpu }}
CMESH_RULESYNC_CPU_LIMIT: {{ . | quote }}
{{- end }}
{{- with (.limits | default dict).memory }}
CMESH_RULESYNC_MEMORY_LIMIT: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.proxy.pullSecrets }}
CMESH_SIDECAR_PULL_SECRET: {{ join "," . | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.proxy.runAsUser) }}
CMESH_SIDECAR_USER: {{ int64 .Values.proxy.runAsUser | quote }}
{{- end }}
{{- with .Values.proxy.rulesLease }}
CMESH_RULES_LEASE: {{ int64 . | quote }}
{{- end }}
{{- with .Values.labels.prefix }}
CMESH_LABEL_PREFIX: {{ . | quote }}
{{- end }}
{{- with .Values.labels.namespace }}
CMESH_LABEL_NAMESPACE: {{ . | quote }}
{{- end }}
{{- with .Values.labels.shardHash }}
CMESH_LABEL_SHARD_HASH: {{ . | quote }}
{{- end }}
{{- with .Values.labels.control }}
CMESH_LABEL_CONTROL: {{ . | quote }}
{{- end }}
{{- with .Values.labels.foreign }}
CMESH_LABEL_FOREIGN: {{ . | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.labels.qps) }}
CMESH_LABEL_QPS: {{ int64 .Values.labels.qps | quote }}
{{- end }}
{{- with .Values.manager.logLevel }}
CMESH_LOG_LEVEL: {{ . | quote }}
{{- end }}
{{- with .Values.manager.logFormat }}
CMESH_LOG_FORMAT: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "cmesh.shardingResources" -}}
sharding-resources.yaml: |
  {{- toYaml .Values.shardingResources | nindent 2 }}
{{- end -}}
