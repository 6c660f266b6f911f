{{/* The specification of a Pod that calls one command and ends: dict with root, component, args, resources, settings (the
ConfigMap), account, and, where it needs them, keys, state and beside.
*/}}
{{- define "steelyard.commandPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "steelyard.selector" (dict "root" $root "component" .component) | nindent 4 }}
    {{- with $root.Values.pods.labels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $root.Values.pods.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: Never
  {{- with .account }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  {{- include "steelyard.placement" (dict "root" $root "component" .component "beside" .beside) | nindent 2 }}
  containers:
  - name: {{ .component }}
    image: {{ include "steelyard.image" (dict "root" $root "name" "platform" "key" "platform") }}
    imagePullPolicy: {{ $root.Values.images.pullPolicy }}
    args: {{ concat .args (list "--settings" "/etc/steelyard/steelyard.toml" "--state-dir" (.state | ternary "/var/lib/steelyard" "/tmp/state")) | toJson }}
    env:
    - {name: HOME, value: /tmp}
    - {name: TMPDIR, value: /tmp}
    {{- with $root.Values.certificateAuthorities.configMap }}
    - {name: SSL_CERT_FILE, value: /etc/steelyard-authorities/authorities.crt}
    {{- end }}
    {{- with $root.Values.engines.secret }}
    envFrom:
    - secretRef: {name: {{ . }}}
    {{- end }}
    resources: {{- toYaml .resources | nindent 6 }}
    securityContext: {{- include "steelyard.containerSecurity" $root | nindent 6 }}
    volumeMounts:
    - {name: settings, mountPath: /etc/steelyard, readOnly: true}
    - {name: tmp, mountPath: /tmp}
    {{- if .state }}
    - {name: state, mountPath: /var/lib/steelyard}
    {{- end }}
    {{- if .keys }}
    - {name: keys, mountPath: /etc/steelyard-keys, readOnly: true}
    {{- end }}
    {{- if $root.Values.certificateAuthorities.configMap }}
    - {name: authorities, mountPath: /etc/steelyard-authorities, readOnly: true}
    {{- end }}
  volumes:
  - name: settings
    configMap: {name: {{ .settings }}}
  - name: tmp
    emptyDir: {}
  {{- if .state }}
  - name: state
    persistentVolumeClaim: {claimName: {{ $root.Values.persistence.existingClaim | default (printf "%s-data" (include "steelyard.name" $root)) }}}
  {{- end }}
  {{- if .keys }}
  - name: keys
    secret: {secretName: {{ include "steelyard.keysSecret" $root }}}
  {{- end }}
  {{- with $root.Values.certificateAuthorities }}
  {{- if .configMap }}
  - name: authorities
    configMap: {name: {{ .configMap }}, items: [{key: {{ .key }}, path: authorities.crt}]}
  {{- end }}
  {{- end }}
{{- end }}
