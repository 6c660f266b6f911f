{{- define "steelyard.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "steelyard.labels" -}}
app.kubernetes.io/name: steelyard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: steelyard
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels that choose the Pods of a part: dict with root and component. */}}
{{- define "steelyard.selector" -}}
app.kubernetes.io/name: steelyard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The name of an image: dict with root, name (the image's) and key (that of values.images.names). */}}
{{- define "steelyard.image" -}}
{{- $images := .root.Values.images -}}
{{- get $images.names .key | default (printf "%s/%s:%s" $images.registry .name ($images.tag | default .root.Chart.AppVersion)) -}}
{{- end }}

{{- define "steelyard.administratorSecret" -}}
{{ .Values.administrator.existingSecret | default (printf "%s-administrator" (include "steelyard.name" .)) }}
{{- end }}

{{- define "steelyard.keysSecret" -}}
{{ .Values.secretKeys.existingSecret | default (printf "%s-keys" (include "steelyard.name" .)) }}
{{- end }}

{{/* The account of a part that calls the Kubernetes API: dict with root and component. */}}
{{- define "steelyard.account" -}}
{{ .root.Values.serviceAccount.existing | default (printf "%s-%s" (include "steelyard.name" .root) .component) }}
{{- end }}

{{- define "steelyard.storageAddress" -}}
http://{{ include "steelyard.name" . }}-storage.{{ .Release.Namespace }}.svc:9000
{{- end }}

{{/* The further addresses that are not public, of one family: dict with root and colon. */}}
{{- define "steelyard.excepted" -}}
{{- $chosen := list -}}
{{- range .root.Values.work.exceptAddresses -}}{{- if eq (contains ":" .) $.colon -}}{{- $chosen = append $chosen . -}}{{- end -}}{{- end -}}
{{- toJson $chosen -}}
{{- end }}

{{/* Ports of the operator for Ray clusters, by name, as JSON: the settings' ones. */}}
{{- define "steelyard.rayPorts" -}}
{{- $ray := dig "operator" "ray" (dict) .Values.settings -}}
{{- $ports := dict "webhooks" (regexFind "[0-9]+$" (get $ray "listen" | default ":9443") | int) -}}
{{- with get $ray "login" -}}{{- $_ := set $ports "login" (regexFind "[0-9]+$" . | int) -}}{{- end -}}
{{- toJson $ports -}}
{{- end }}

{{/* What Pods of workflows may call: names, each other, the storage, and addresses outside. */}}
{{- define "steelyard.workEgress" -}}
# Names: 53, and 5353 where policies see the port of the DNS Pod, as on OpenShift.
- ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}, {protocol: UDP, port: 5353}, {protocol: TCP, port: 5353}]
- to: [{podSelector: {}}]
{{- if eq .Values.shape "standalone" }}
- ports: [{protocol: TCP, port: 9000}]
  to:
  - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace }}}}
    podSelector: {matchLabels: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: api}}
{{- end }}
{{- if .Values.work.publicAddresses }}
- to:
  - ipBlock: {cidr: 0.0.0.0/0, except: {{ concat (list "0.0.0.0/8" "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.0.0.0/24" "192.168.0.0/16" "198.18.0.0/15" "224.0.0.0/4" "240.0.0.0/4") (include "steelyard.excepted" (dict "root" . "colon" false) | fromJsonArray) | toJson }}}
  - ipBlock: {cidr: "::/0", except: {{ concat (list "64:ff9b::/96" "fc00::/7" "fe80::/10" "ff00::/8") (include "steelyard.excepted" (dict "root" . "colon" true) | fromJsonArray) | toJson }}}
{{- end }}
{{- with .Values.work.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where clients reach the API: the value, else the host of the Ingress or the route. */}}
{{- define "steelyard.publicUrl" -}}
{{- $ingress := .Values.api.ingress -}}
{{- $route := .Values.api.route -}}
{{- if .Values.api.publicUrl -}}{{ .Values.api.publicUrl }}
{{- else if and $ingress.enabled $ingress.host -}}{{ empty $ingress.tlsSecret | ternary "http" "https" }}://{{ $ingress.host }}
{{- else if and $route.enabled $route.host -}}https://{{ $route.host }}
{{- end -}}
{{- end }}

{{/* steelyard.toml of all parts: that of the chart, over which the values' settings are laid. */}}
{{- define "steelyard.settings" -}}
{{- $runners := dict "runner-sklearn" (include "steelyard.image" (dict "root" . "name" "runner-sklearn" "key" "runnerSklearn")) -}}
{{- $steps := include "steelyard.image" (dict "root" . "name" "steps" "key" "steps") -}}
{{- $operator := dict "images" (dict "steps" $steps "mock" $steps "runners" (merge (dict) .Values.images.runners $runners)) -}}
{{- if or (eq .Values.shape "standalone") .Values.engines.storageSecret -}}{{- $_ := set $operator "storage_secret" "steelyard-storage" -}}{{- end -}}
{{- if .Values.rights.ray -}}{{- $_ := set $operator "ray" (dict "service" (printf "%s/%s-ray" .Release.Namespace (include "steelyard.name" .))) -}}{{- end -}}
{{- $namespace := dict "kubernetes.io/metadata.name" .Release.Namespace -}}
{{- $orchestrator := dict "api_namespace" $namespace "namespace_labels" (merge (dict "pod-security.kubernetes.io/enforce" .Values.work.podSecurity) .Values.work.labels) -}}
{{- $service := printf "%s-api" (include "steelyard.name" .) -}}
{{- $hosts := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- range list .Values.api.ingress.host .Values.api.route.host -}}{{- if . -}}{{- $hosts = append $hosts . -}}{{- end -}}{{- end -}}
{{- $api := dict "hosts" $hosts "host" "0.0.0.0" "port" 8000 "public_url" (include "steelyard.publicUrl" .) "signed_urls" .Values.api.signedUrls -}}
{{- $made := dict "kubernetes" "in-cluster" "lease_namespace" .Release.Namespace "secret_keys" "/etc/steelyard-keys/secret-keys" "metrics" ":8080" "api" $api "operator" $operator "orchestrator" $orchestrator -}}
{{- if eq .Values.shape "standalone" -}}
{{- $_ := set $made "storage_server" (dict "listen" ":9000" "bucket" "steelyard") -}}
{{- $_ := set $operator "storage" "s3://steelyard" -}}
{{- range $name := list "backup" "mirror" -}}
{{- with get $.Values.engines $name -}}{{- $_ := set $made $name . -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- range $name := list "log" "accounts" "view" "storage" "backup" "mirror" -}}
{{- with get $.Values.engines $name -}}{{- $_ := set $made $name . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.images.pullSecrets -}}{{- $_ := set $made "pods" (dict "pull_secrets" .) -}}{{- end -}}
{{- $settings := mergeOverwrite $made (deepCopy .Values.settings) -}}
{{- $_ := set $settings.api "hosts" (concat $hosts ((.Values.settings.api | default dict).hosts | default list) | uniq) -}}
{{- toToml $settings -}}
{{- end }}

{{/* Environment of a part of the platform: secrets, by their names. */}}
{{- define "steelyard.platformEnvironment" -}}
- {name: HOME, value: /tmp}
- {name: TMPDIR, value: /tmp}
- name: STEELYARD_API__ADMINISTRATOR_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "steelyard.administratorSecret" . }}, key: token}}
{{- if eq .Values.shape "standalone" }}
{{- $secret := .Values.storageServer.existingSecret | default (printf "%s-storage" (include "steelyard.name" .)) }}
- name: STEELYARD_STORAGE_SERVER__ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: access-key}}
- name: STEELYARD_STORAGE_SERVER__SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: secret-key}}
- name: STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: credentials}}
{{- else if .Values.engines.storageSecret }}
- name: STEELYARD_ORCHESTRATOR__STORAGE_CREDENTIALS
  valueFrom: {secretKeyRef: {name: {{ .Values.engines.storageSecret }}, key: credentials}}
{{- end }}
{{- if .Values.work.bounded }}
- name: STEELYARD_ORCHESTRATOR__EGRESS
  # As JSON: in the settings its ports would become fractions.
  value: {{ include "steelyard.workEgress" . | fromYamlArray | toJson | quote }}
{{- end }}
{{- with .Values.certificateAuthorities.configMap }}
- {name: SSL_CERT_FILE, value: /etc/steelyard-authorities/authorities.crt}
{{- end }}
{{- end }}

{{- define "steelyard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What is said of the Pods of a part before its containers: dict with root, component and, for a Pod that uses the claim
of another, beside: the component of that one. */}}
{{- define "steelyard.placement" -}}
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.pods.securityContext | nindent 2 }}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .root.Values.pods.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pods.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.pods.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if .beside }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "steelyard.selector" (dict "root" .root "component" .beside) | fromYaml)) }}
{{- $node := get .root.Values.pods.affinity "nodeAffinity" }}
# The claim is mounted on one node.
affinity:
  podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{{ toJson $term }}]}
  {{- with $node }}
  nodeAffinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- else if .root.Values.pods.affinity }}
affinity: {{- toYaml .root.Values.pods.affinity | nindent 2 }}
{{- else }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "steelyard.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* A Deployment of one part: dict with root, component, role, image, key (of values.parts), service, account, http and
orchestrates: whether it makes the namespaces of accounts. */}}
{{- define "steelyard.deployment" -}}
{{- $root := .root -}}
{{- $part := get $root.Values.parts .key -}}
{{- $name := include "steelyard.name" $root -}}
{{- $standalone := eq $root.Values.shape "standalone" -}}
{{- $platform := ne .component "operator" -}}
{{- $pulls := and .orchestrates $root.Values.images.pullSecrets -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-{{ .component }}
  labels:
    {{- include "steelyard.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ if and $standalone $platform }}1{{ else }}{{ $part.replicas }}{{ end }}
  {{- if and $standalone $platform }}
  strategy: {type: Recreate}
  {{- end }}
  selector:
    matchLabels: {{- include "steelyard.selector" (dict "root" $root "component" .role) | nindent 6 }}
      steelyard/part: {{ .component }}
  template:
    metadata:
      labels:
        {{- include "steelyard.selector" (dict "root" $root "component" .role) | nindent 8 }}
        app.kubernetes.io/part-of: steelyard
        steelyard/part: {{ .component }}
        {{- with $root.Values.pods.labels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/settings: {{ include "steelyard.settings" $root | sha256sum }}
        {{- with $root.Values.pods.annotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      {{- if .account }}
      serviceAccountName: {{ include "steelyard.account" (dict "root" $root "component" .component) }}
      {{- else }}
      serviceAccountName: {{ include "steelyard.account" (dict "root" $root "component" "services") }}
      automountServiceAccountToken: false
      {{- end }}
      terminationGracePeriodSeconds: 60
      {{- include "steelyard.placement" (dict "root" $root "component" .role) | nindent 6 }}
      containers:
      - name: {{ .component }}
        image: {{ .image }}
        imagePullPolicy: {{ $root.Values.images.pullPolicy }}
        args: [service, {{ .service }}, --settings, /etc/steelyard/steelyard.toml{{ if and $standalone $platform }}, --state-dir, /var/lib/steelyard{{ end }}]
        env:
        {{- if $platform }}
        {{- include "steelyard.platformEnvironment" $root | nindent 8 }}
        {{- if $pulls }}
        - {name: STEELYARD_ORCHESTRATOR__PULL_SECRETS_FILE, value: /etc/steelyard-pull}
        {{- end }}
        {{- else }}
        - {name: HOME, value: /tmp}
        - {name: TMPDIR, value: /tmp}
        {{- end }}
        {{- with $root.Values.podMonitor.tokenSecret }}
        - name: STEELYARD_METRICS_TOKEN
          valueFrom: {secretKeyRef: {name: {{ . }}, key: token}}
        {{- end }}
        {{- with $part.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
        {{- if and $platform $root.Values.engines.secret }}
        envFrom:
        - secretRef: {name: {{ $root.Values.engines.secret }}}
        {{- end }}
        ports:
        {{- if .http }}
        - {name: http, containerPort: 8000}
        {{- end }}
        {{- if and $standalone $platform }}
        - {name: storage, containerPort: 9000}
        {{- end }}
        - {name: metrics, containerPort: 8080}
        startupProbe:
          httpGet: {path: /readyz, port: {{ .http | ternary "http" "metrics" }}}
          periodSeconds: 2
          failureThreshold: 150
        # The API answers for itself: what it needs, and whether it is being ended.
        readinessProbe:
          httpGet: {path: /readyz, port: {{ .http | ternary "http" "metrics" }}}
          periodSeconds: 5
          timeoutSeconds: 5
        livenessProbe:
          httpGet: {path: /healthz, port: metrics}
          periodSeconds: 20
          timeoutSeconds: 10
          failureThreshold: 6
        resources: {{- toYaml $part.resources | nindent 10 }}
        securityContext: {{- include "steelyard.containerSecurity" $root | nindent 10 }}
        volumeMounts:
        - {name: settings, mountPath: /etc/steelyard, readOnly: true}
        {{- if and $standalone $platform }}
        - {name: state, mountPath: /var/lib/steelyard}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
        {{- if $platform }}
        - {name: keys, mountPath: /etc/steelyard-keys, readOnly: true}
        {{- if $pulls }}
        - {name: pull, mountPath: /etc/steelyard-pull, readOnly: true}
        {{- end }}
        {{- if $root.Values.certificateAuthorities.configMap }}
        - {name: authorities, mountPath: /etc/steelyard-authorities, readOnly: true}
        {{- end }}
        {{- end }}
      volumes:
      - name: settings
        configMap: {name: {{ $name }}-settings}
      - name: tmp
        emptyDir: {}
      {{- if and $standalone $platform }}
      - name: state
        persistentVolumeClaim: {claimName: {{ $root.Values.persistence.existingClaim | default (printf "%s-data" $name) }}}
      {{- end }}
      {{- if $platform }}
      - name: keys
        secret: {secretName: {{ include "steelyard.keysSecret" $root }}}
      {{- if $pulls }}
      - name: pull
        projected:
          sources:
          {{- range $pulls }}
          - secret: {name: {{ . }}, items: [{key: .dockerconfigjson, path: {{ . }}}]}
          {{- end }}
      {{- end }}
      {{- with $root.Values.certificateAuthorities }}
      {{- if .configMap }}
      - name: authorities
        configMap: {name: {{ .configMap }}, items: [{key: {{ .key }}, path: authorities.crt}]}
      {{- end }}
      {{- end }}
      {{- end }}
{{- end }}
