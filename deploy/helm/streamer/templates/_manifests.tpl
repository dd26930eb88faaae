{{/* How the chart reads deploy/kubernetes: a kustomization's files, labels and ConfigMaps. */}}

{{/* The manifests of the kustomization .folder as a list in YAML. */}}
{{- define "streamer.manifests" -}}
{{- $root := .root }}
{{- $folder := printf "files/%s" .folder }}
{{- $kustomization := include "streamer.yaml" (dict "root" $root "file" (printf "%s/kustomization.yaml" $folder)) | fromYaml }}
{{- $manifests := list }}
{{- range $file := $kustomization.resources }}
{{- range $text := include "streamer.file" (dict "root" $root "file" (printf "%s/%s" $folder $file)) | splitList "\n---\n" }}
{{- $manifests = append $manifests (include "streamer.parsed" (dict "text" $text "file" $file) | fromYaml) }}
{{- end }}
{{- end }}
{{- range $kustomization.configMapGenerator }}
{{- $data := dict }}
{{- range $file := .envs }}
{{- $lines := include "streamer.file" (dict "root" $root "file" (printf "%s/%s" $folder $file)) | splitList "\n" }}
{{- range $line := $lines }}
{{- if and (contains "=" $line) (not (hasPrefix "#" $line)) }}
{{- $pair := splitn "=" 2 $line }}
{{- $_ := set $data $pair._0 $pair._1 }}
{{- end }}
{{- end }}
{{- end }}
{{- range $file := .files }}
{{- $_ := set $data (base $file) (include "streamer.file" (dict "root" $root "file" (printf "%s/%s" $folder $file))) }}
{{- end }}
{{- $metadata := merge (dict "name" .name) (pick (.options | default dict) "labels" "annotations") }}
{{- $manifests = append $manifests (dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data) }}
{{- end }}
{{- range $manifest := $manifests }}
{{- range $kustomization.labels }}
{{- $_ := set $manifest.metadata "labels" (merge (deepCopy .pairs) ($manifest.metadata.labels | default dict)) }}
{{- end }}
{{- end }}
{{- toYaml $manifests }}
{{- end }}

{{/* The text of .file, which must be there. */}}
{{- define "streamer.file" -}}
{{- .root.Files.Get .file | required (printf "The chart lacks %s." .file) }}
{{- end }}

{{/* The YAML of .file, one document. */}}
{{- define "streamer.yaml" -}}
{{- include "streamer.parsed" (dict "text" (include "streamer.file" .) "file" .file) }}
{{- end }}

{{/* One document of YAML, without its comments. */}}
{{- define "streamer.parsed" -}}
{{- $parsed := fromYaml .text }}
{{- if not $parsed.kind }}{{ fail (printf "%s is no manifest: %v" .file ($parsed.Error | default "it has no kind")) }}{{ end }}
{{- toYaml $parsed }}
{{- end }}
