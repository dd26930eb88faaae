{{/* What the values change in a manifest. Each of these alters .manifest in place, and prints nothing. */}}

{{- define "streamer.patch" -}}
{{- $kind := .manifest.kind }}
{{- include "streamer.patchMetadata" . }}
{{- if eq $kind "StatefulSet" }}
{{- include "streamer.patchIndex" . }}
{{- else if eq $kind "Deployment" }}
{{- include "streamer.patchSign" . }}
{{- else if eq $kind "NetworkPolicy" }}
{{- include "streamer.patchNetwork" . }}
{{- else if eq $kind "ConfigMap" }}
{{- if eq .manifest.metadata.name "streamer-settings" }}
{{- $_ := set .manifest "data" (include "streamer.settings" .root | fromYaml) }}
{{- end }}
{{- if eq .manifest.metadata.name "streamer-dashboard" }}
{{- with .root.Values.monitoring.dashboard.namespace }}{{ $_ := set $.manifest.metadata "namespace" . }}{{ end }}
{{- include "streamer.addLabels" (dict "manifest" .manifest "labels" .root.Values.monitoring.dashboard.labels) }}
{{- end }}
{{- else if eq $kind "PodMonitor" }}
{{- include "streamer.addLabels" (dict "manifest" .manifest "labels" .root.Values.monitoring.podMonitor.labels) }}
{{- else if eq $kind "PrometheusRule" }}
{{- include "streamer.addLabels" (dict "manifest" .manifest "labels" .root.Values.monitoring.prometheusRule.labels) }}
{{- else if eq $kind "ScaledObject" }}
{{- include "streamer.patchScaledObject" . }}
{{- else if eq $kind "TriggerAuthentication" }}
{{- include "streamer.patchTriggerAuthentication" . }}
{{- end }}
{{- end }}

{{/* Where an object belongs, and who made it. Pods and selectors keep their labels: no upgrade may change those. */}}
{{- define "streamer.patchMetadata" -}}
{{- $metadata := .manifest.metadata }}
{{- $_ := set $metadata "namespace" .root.Release.Namespace }}
{{- $_ := set $metadata "labels" (merge ($metadata.labels | default dict) (include "streamer.labels" .root | fromYaml)) }}
{{- end }}

{{- define "streamer.addLabels" -}}
{{- $_ := set .manifest.metadata "labels" (merge (deepCopy .labels) .manifest.metadata.labels) }}
{{- end }}

{{- define "streamer.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "streamer.patchIndex" -}}
{{- $index := .root.Values.index }}
{{- $spec := .manifest.spec }}
{{- include "streamer.patchPod" (dict "root" .root "manifest" .manifest "values" $index) }}
{{- $pods := int64 $index.pods }}
{{- if and (gt $pods 1) (ne (include "streamer.perPartition" .root) "true") }}
{{- fail (printf "index.pods is %d, and one index has one pod. Set settings.STREAMER_PER_PARTITION." $pods) }}
{{- end }}
{{- $_ := set $spec "replicas" $pods }}
{{- range $variable := (index $spec.template.spec.containers 0).env }}
{{- if eq $variable.name "STREAMER_OWN_SHARDS" }}
{{- $_ := set $variable "value" (printf "$(POD_INDEX)/%d" $pods) }}
{{- end }}
{{- end }}
{{- with .root.Values.snapshots.secret }}
{{- $source := dict "secretRef" (dict "name" .) }}
{{- $_ := set (index $spec.template.spec.containers 0) "envFrom" (append ((index $spec.template.spec.containers 0).envFrom | default list) $source) }}
{{- end }}
{{- $claim := (index $spec.volumeClaimTemplates 0).spec }}
{{- with $index.disk.size }}{{ $_ := set $claim.resources.requests "storage" . }}{{ end }}
{{- with $index.disk.storageClass }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- end }}

{{- define "streamer.patchSign" -}}
{{- $sign := .root.Values.sign }}
{{- include "streamer.patchPod" (dict "root" .root "manifest" .manifest "values" $sign) }}
{{- with $sign.replicas }}{{ $_ := set $.manifest.spec "replicas" (int64 .) }}{{ end }}
{{- if .root.Values.keda.enabled }}
{{- $_ := unset .manifest.spec "replicas" }}{{/* else each upgrade would undo what KEDA has done */}}
{{- end }}
{{- end }}

{{/* What the two workloads have in common: .values is index or sign. */}}
{{- define "streamer.patchPod" -}}
{{- $values := .root.Values }}
{{- $template := .manifest.spec.template }}
{{- $pod := $template.spec }}
{{- $worker := index $pod.containers 0 }}
{{- $_ := set $worker "image" (include "streamer.image" (dict "root" .root "image" $worker.image)) }}
{{- with $values.image.pullPolicy }}{{ $_ := set $worker "imagePullPolicy" . }}{{ end }}
{{- with $values.preset }}{{ $_ := set $worker "args" (concat $worker.args (list "--preset" .)) }}{{ end }}
{{- with $values.fields }}{{ $_ := set $worker "args" (concat $worker.args (list "--fields" .)) }}{{ end }}
{{- $own := include "streamer.ownEnvironment" (dict "root" .root "manifest" .manifest) | fromYamlArray }}
{{- $_ := set $worker "env" (concat $worker.env $own) }}
{{- $_ := set $worker "resources" (mergeOverwrite $worker.resources (deepCopy .values.resources)) }}
{{- with $values.image.pullSecrets }}
{{- $names := list }}
{{- range . }}{{ $names = append $names (dict "name" .) }}{{ end }}
{{- $_ := set $pod "imagePullSecrets" $names }}
{{- end }}
{{- range $volume := $pod.volumes }}
{{- if $volume.secret }}{{ $_ := set $volume.secret "secretName" $values.secret }}{{ end }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with get $.values $name }}{{ $_ := set $pod $name . }}{{ end }}
{{- end }}
{{- /* A changed setting restarts the pods. */}}
{{- $checksum := dict "checksum/settings" (include "streamer.settings" .root | sha256sum) }}
{{- $_ := set $template.metadata "annotations" (merge $checksum .values.podAnnotations) }}
{{- end }}

{{/* What the component kafka-users adds to the environment of a workload, as a list in YAML; none if it is off. */}}
{{- define "streamer.ownEnvironment" -}}
{{- $added := list }}
{{- if .root.Values.kafkaUsers.enabled }}
{{- $file := "files/components/kafka-users/kustomization.yaml" }}
{{- range $patch := (include "streamer.yaml" (dict "root" .root "file" $file) | fromYaml).patches }}
{{- range $step := fromYamlArray $patch.patch }}
{{- if or (ne $step.op "add") (ne $step.path "/spec/template/spec/containers/0/env/-") }}
{{- fail (printf "%s has a patch that the chart does not know: %s %s" $file $step.op $step.path) }}
{{- end }}
{{- if and (eq $patch.target.kind $.manifest.kind) (eq $patch.target.name $.manifest.metadata.name) }}
{{- $added = append $added $step.value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $added }}
{{- end }}

{{/* The image's name, from that of the manifest (.image) and the values. */}}
{{- define "streamer.image" -}}
{{- $image := .root.Values.image }}
{{- $parts := splitn ":" 2 .image }}
{{- $name := $image.repository | default $parts._0 }}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}{{ else }}{{ $name }}:{{ $image.tag | default $parts._1 }}{{ end }}
{{- end }}

{{/* All settings in YAML: those of the base, and those of the values over them. */}}
{{- define "streamer.settings" -}}
{{- $settings := dict }}
{{- range $manifest := include "streamer.manifests" (dict "root" . "folder" "base") | fromYamlArray }}
{{- if and (eq $manifest.kind "ConfigMap") (eq $manifest.metadata.name "streamer-settings") }}
{{- $settings = $manifest.data }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- /* YAML's numbers arrive as floats, which would be written as 1e+06. */}}
{{- $_ := set $settings $name (kindIs "float64" $value | ternary (toJson $value) (toString $value)) }}
{{- end }}
{{- range $name, $value := $settings }}
{{- $protocol := $settings.STREAMER_SECURITY_PROTOCOL }}
{{- $tls := hasPrefix "STREAMER_SSL_" $name | and (not (contains "SSL" $protocol)) }}
{{- $sasl := hasPrefix "STREAMER_SASL_" $name | and (not (contains "SASL" $protocol)) }}
{{- $login := has $name (list "STREAMER_SASL_USERNAME" "STREAMER_SASL_PASSWORD_FILE") | and (eq ($settings.STREAMER_SASL_MECHANISM | default "") "OAUTHBEARER") }}
{{- if or $tls $sasl $login (eq $value "") }}{{ $_ := unset $settings $name }}{{ end }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{/* "true" where each partition of the pages has an index of its own. */}}
{{- define "streamer.perPartition" -}}
{{- (include "streamer.settings" . | fromYaml).STREAMER_PER_PARTITION }}
{{- end }}

{{- define "streamer.patchNetwork" -}}
{{- $network := .root.Values.network }}
{{- $name := .manifest.metadata.name }}
{{- if eq $name "streamer-kafka" }}
{{- $rule := index .manifest.spec.egress 0 }}
{{- with $network.kafka.to }}{{ $_ := set $rule "to" . }}{{ end }}
{{- with $network.kafka.port }}{{ $_ := set (index $rule.ports 0) "port" (int64 .) }}{{ end }}
{{- with $network.objectStore.to }}
{{- $port := dict "protocol" "TCP" "port" (int64 $network.objectStore.port) }}
{{- $_ := set $.manifest.spec "egress" (append $.manifest.spec.egress (dict "to" . "ports" (list $port))) }}
{{- end }}
{{- else if eq $name "streamer-dns" }}
{{- with $network.dns.to }}{{ $_ := set (index $.manifest.spec.egress 0) "to" . }}{{ end }}
{{- else if eq $name "streamer-metrics" }}
{{- with $network.metrics.from }}{{ $_ := set (index $.manifest.spec.ingress 0) "from" . }}{{ end }}
{{- end }}
{{- end }}

{{/* What KEDA asks the brokers for, and as whom, is what the settings of the signers say. */}}
{{- define "streamer.patchScaledObject" -}}
{{- $keda := .root.Values.keda }}
{{- $spec := .manifest.spec }}
{{- $trigger := index $spec.triggers 0 }}
{{- $settings := include "streamer.settings" .root | fromYaml }}
{{- $protocol := $settings.STREAMER_SECURITY_PROTOCOL }}
{{- $_ := set $trigger.metadata "bootstrapServers" $settings.STREAMER_BROKERS }}
{{- $_ := set $trigger.metadata "topic" $settings.STREAMER_INPUT_TOPIC }}
{{- $_ := set $trigger.metadata "consumerGroup" (printf "%s.sign" $settings.STREAMER_INDEX_NAME) }}
{{- $_ := set $trigger.metadata "tls" (contains "SSL" $protocol | ternary "enable" "disable") }}
{{- if eq ($settings.STREAMER_SASL_MECHANISM | default "") "OAUTHBEARER" }}
{{- fail "KEDA cannot run STREAMER_SASL_TOKEN_COMMAND. Leave keda.enabled out, and set sign.replicas." }}
{{- end }}
{{- $mechanisms := dict "PLAIN" "plaintext" "SCRAM-SHA-256" "scram_sha256" "SCRAM-SHA-512" "scram_sha512" }}
{{- $_ := set $trigger.metadata "sasl" (get $mechanisms ($settings.STREAMER_SASL_MECHANISM | default "") | default "none") }}
{{- if eq $protocol "PLAINTEXT" }}{{ $_ := unset $trigger "authenticationRef" }}{{ end }}
{{- with $keda.lagThreshold }}{{ $_ := set $trigger.metadata "lagThreshold" (int64 . | toString) }}{{ end }}
{{- with $keda.minReplicas }}
{{- $_ := set $spec "minReplicaCount" (int64 .) }}
{{- $_ := set $spec.fallback "replicas" (int64 .) }}
{{- end }}
{{- with $keda.maxReplicas }}{{ $_ := set $spec "maxReplicaCount" (int64 .) }}{{ end }}
{{- if gt (int64 $spec.minReplicaCount) (int64 $spec.maxReplicaCount) }}
{{- fail (printf "keda.minReplicas (%d) is more than keda.maxReplicas (%d)." (int64 $spec.minReplicaCount) (int64 $spec.maxReplicaCount)) }}
{{- end }}
{{- end }}

{{/* A file of the Secret is named in a setting by its path; KEDA wants its key. */}}
{{- define "streamer.patchTriggerAuthentication" -}}
{{- $settings := include "streamer.settings" .root | fromYaml }}
{{- $signer := dict "kind" "Deployment" "metadata" (dict "name" "streamer-sign") }}
{{- range include "streamer.ownEnvironment" (dict "root" .root "manifest" $signer) | fromYamlArray }}
{{- $_ := set $settings .name .value }}
{{- end }}
{{- $files := list }}
{{- range $pair := list (list "password" "SASL_PASSWORD_FILE") (list "ca" "SSL_CAFILE") (list "cert" "SSL_CERTFILE") (list "key" "SSL_KEYFILE") }}
{{- with get $settings (printf "STREAMER_%s" (last $pair)) }}
{{- $files = append $files (dict "parameter" (first $pair) "name" $.root.Values.secret "key" (base .)) }}
{{- end }}
{{- end }}
{{- $_ := set .manifest.spec "secretTargetRef" $files }}
{{- if not $settings.STREAMER_SASL_USERNAME }}{{ $_ := unset .manifest.spec "env" }}{{ end }}
{{- end }}

{{/* The name that a topic, a group or the beginning of one has with these settings: .name is for streamer and pages. */}}
{{- define "streamer.kafkaName" -}}
{{- if hasPrefix "streamer." .name }}
{{- printf "%s.%s" .settings.STREAMER_INDEX_NAME (trimPrefix "streamer." .name) }}
{{- else if regexMatch "^pages(-dlt)?$" .name }}
{{- printf "%s%s" .settings.STREAMER_INPUT_TOPIC (trimPrefix "pages" .name) }}
{{- else }}
{{- .name }}
{{- end }}
{{- end }}
