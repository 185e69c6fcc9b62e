{{/* Name of the objects: the release's, with the chart's where that does not hold it. */}}
{{- define "longpole.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "longpole.selectorLabels" -}}
app.kubernetes.io/name: longpole
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "longpole.labels" -}}
{{ include "longpole.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: without versions, so that a newer chart alone restarts nothing. */}}
{{- define "longpole.podLabels" -}}
{{ include "longpole.selectorLabels" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "longpole.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "longpole.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* An image of ours: dict "root" "image" (a key of `images`). */}}
{{- define "longpole.image" -}}
{{- $image := index .root.Values.images .image -}}
{{- $name := $image.repository -}}
{{- with .root.Values.images.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "longpole.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What no container of ours needs. */}}
{{- define "longpole.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The server's own token as a file; nothing where there is none. */}}
{{- define "longpole.tokenEnv" -}}
{{- if .Values.auth.existingSecret }}
- name: LONGPOLE_TOKEN_FILE
  value: /run/secrets/longpole/token
{{- end }}
{{- end -}}

{{- define "longpole.tokenMount" -}}
{{- if .Values.auth.existingSecret }}
- name: token
  mountPath: /run/secrets/longpole
  readOnly: true
{{- end }}
{{- end -}}

{{- define "longpole.tokenVolume" -}}
{{- if .Values.auth.existingSecret }}
- name: token
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.auth.tokenKey | quote }}, path: token}
{{- end }}
{{- end -}}

{{/* Secret and key of the token that programs of the cluster send. */}}
{{- define "longpole.agentSecret" -}}
{{- .Values.auth.agentSecret | default .Values.auth.existingSecret -}}
{{- end -}}

{{- define "longpole.agentTokenKey" -}}
{{- ternary .Values.auth.agentTokenKey .Values.auth.tokenKey (ne .Values.auth.agentSecret "") -}}
{{- end -}}

{{- define "longpole.serverScheme" -}}
{{- ternary "https" "http" (ne .Values.server.tls.existingSecret "") -}}
{{- end -}}

{{- define "longpole.clickhouseName" -}}
{{- printf "%s-clickhouse" (include "longpole.fullname" .) -}}
{{- end -}}

{{- define "longpole.clickhouseUrl" -}}
{{- if eq .Values.store.mode "bundled" -}}
{{- printf "http://%s:8123" (include "longpole.clickhouseName" .) -}}
{{- else -}}
{{- .Values.store.clickhouse.url -}}
{{- end -}}
{{- end -}}

{{- define "longpole.serverUrl" -}}
{{- if .Values.agent.serverUrl -}}
{{- .Values.agent.serverUrl -}}
{{- else -}}
{{- printf "%s://%s-server.%s.svc:%v" (include "longpole.serverScheme" .) (include "longpole.fullname" .) .Release.Namespace .Values.server.service.port -}}
{{- end -}}
{{- end -}}

{{/* How a token that may only send is made, where this release has a server with a file of its own. */}}
{{- define "longpole.createToken" -}}
{{- if .Values.auth.accessSecret -}}
longpole access --access-file FILE create-token trainers, with a copy of what the Secret {{ .Values.auth.accessSecret }} holds
{{- else if .Values.server.enabled -}}
kubectl -n {{ .Release.Namespace }} exec {{ include "longpole.fullname" . }}-server-0 -- longpole access --data-dir /data create-token trainers
{{- else -}}
longpole access create-token trainers, where the server runs
{{- end -}}
{{- end -}}

{{/* Environment of a trainer's pod that sends to the server itself, for the notes. */}}
{{- define "longpole.directEnv" -}}
env:
  - {name: LONGPOLE_ENDPOINT, value: "{{ include "longpole.serverUrl" . }}"}
  - {name: LONGPOLE_HOST_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- if .Values.auth.agentSecret }}
  - {name: LONGPOLE_TOKEN, valueFrom: {secretKeyRef: {name: {{ .Values.auth.agentSecret }}, key: {{ .Values.auth.agentTokenKey | quote }}}}}  # a Secret of the pod's namespace
{{- else if not .Values.auth.insecure }}
  # A Secret of the pod's namespace with a token that may only send (auth.existingSecret may change and read everything):
  #   {{ include "longpole.createToken" . }}
  - {name: LONGPOLE_TOKEN, valueFrom: {secretKeyRef: {name: NAME, key: token}}}
{{- end }}
{{- with .Values.agent.caSecret }}
  - {name: OTEL_EXPORTER_OTLP_CERTIFICATE, value: /PATH/ca.crt}  # where the pod mounts the Secret {{ . }}
{{- end }}
{{- end -}}

{{- define "longpole.publicUrl" -}}
{{- if .Values.server.publicUrl -}}
{{- .Values.server.publicUrl -}}
{{- else if .Values.server.ingress.enabled -}}
{{- printf "%s://%s" (ternary "https" "http" (ne .Values.server.ingress.tlsSecret "")) .Values.server.ingress.host -}}
{{- end -}}
{{- end -}}

{{/* Combinations that the schema cannot refuse in words that help. */}}
{{- define "longpole.check" -}}
{{- $v := .Values -}}
{{- if and (not $v.server.enabled) (not $v.agent.enabled) -}}
{{- fail "server.enabled and agent.enabled are both false: there is nothing to install" -}}
{{- end -}}
{{- if and $v.auth.accessSecret $v.auth.insecure -}}
{{- fail "auth.accessSecret and auth.insecure=true contradict each other: choose one" -}}
{{- end -}}
{{- if and $v.auth.accessSecret $v.agent.enabled (not $v.auth.existingSecret) (not $v.auth.agentSecret) -}}
{{- fail "auth.accessSecret: agents need a token of that file, so name by auth.agentSecret the Secret that holds it" -}}
{{- end -}}
{{- if and $v.auth.agentSecret $v.server.enabled (not $v.auth.existingSecret) (not $v.auth.accessSecret) -}}
{{- fail "auth.agentSecret alone lets nobody else in: name the server's own token by auth.existingSecret, or users by auth.accessSecret" -}}
{{- end -}}
{{- if and (not $v.auth.existingSecret) (not $v.auth.accessSecret) (not $v.auth.agentSecret) (not $v.auth.insecure) -}}
{{- fail "auth.existingSecret is empty: name a Secret that holds the token (kubectl create secret generic longpole-token --from-literal=token=$(openssl rand -hex 32)), or set auth.insecure=true to let everyone in" -}}
{{- end -}}
{{- if and $v.auth.existingSecret $v.auth.insecure -}}
{{- fail "auth.existingSecret and auth.insecure=true contradict each other: choose one" -}}
{{- end -}}
{{- if and $v.server.proxy.userHeader (not $v.server.proxy.addresses) -}}
{{- fail "server.proxy.userHeader: anybody could name a user in it, so say by server.proxy.addresses whose header counts" -}}
{{- end -}}
{{- if and $v.server.proxy.secret (not $v.server.proxy.userHeader) -}}
{{- fail "server.proxy.secret is for naming users: say by server.proxy.userHeader in which header the proxy does" -}}
{{- end -}}
{{- if and (not $v.server.enabled) (not $v.agent.serverUrl) -}}
{{- fail "server.enabled is false: say by agent.serverUrl where agents send to" -}}
{{- end -}}
{{- if and (ne $v.store.mode "embedded") (not $v.server.enabled) -}}
{{- fail "store.mode is the server's: with server.enabled=false leave it at embedded" -}}
{{- end -}}
{{- if and (eq $v.store.mode "external") (not $v.store.clickhouse.url) -}}
{{- fail "store.mode is external: say by store.clickhouse.url where ClickHouse is, such as https://clickhouse:8443" -}}
{{- end -}}
{{- if and (ne $v.store.mode "external") $v.store.clickhouse.url -}}
{{- fail (printf "store.clickhouse.url is set, but store.mode is %s: set store.mode=external" $v.store.mode) -}}
{{- end -}}
{{- if and (eq $v.store.mode "bundled") (not $v.store.clickhouse.existingSecret) -}}
{{- fail "store.mode is bundled: name by store.clickhouse.existingSecret a Secret with the password that ClickHouse and Longpole share" -}}
{{- end -}}
{{- if and $v.server.standby (eq $v.store.mode "embedded") -}}
{{- fail "server.standby needs a database that two servers reach: the embedded store has one process. Set store.mode to external or bundled" -}}
{{- end -}}
{{- if and $v.server.standby $v.server.persistence.existingClaim -}}
{{- fail "server.standby: each server needs a volume of its own, so server.persistence.existingClaim must be empty" -}}
{{- end -}}
{{- if and $v.web.replicas (not $v.server.enabled) -}}
{{- fail "web.replicas: these servers show what this release's server writes, so server.enabled must be true" -}}
{{- end -}}
{{- if and $v.web.replicas (eq $v.store.mode "embedded") -}}
{{- fail "web.replicas needs a database that several servers reach: the embedded store has one process. Set store.mode to external or bundled" -}}
{{- end -}}
{{- if and $v.web.replicas (not $v.auth.sessionSecret) (not $v.auth.insecure) -}}
{{- fail "web.replicas: all servers sign sessions with one key, so name by auth.sessionSecret a Secret that holds it (kubectl create secret generic longpole-session --from-literal=key=$(openssl rand -hex 32))" -}}
{{- end -}}
{{- if and $v.server.enabled $v.server.snapshots.enabled (ne $v.store.mode "embedded") -}}
{{- fail "server.snapshots are of the embedded store: back up your ClickHouse with its own BACKUP" -}}
{{- end -}}
{{- if and $v.server.snapshots.enabled (not $v.server.persistence.enabled) -}}
{{- fail "server.snapshots: with server.persistence.enabled=false there is no volume to snapshot" -}}
{{- end -}}
{{- if and $v.server.ingress.enabled (not $v.server.ingress.host) -}}
{{- fail "server.ingress.enabled is true: name the host by server.ingress.host" -}}
{{- end -}}
{{- if and $v.agent.enabled $v.agent.runAsNonRoot -}}
{{- if $v.agent.podResources.enabled -}}
{{- fail "agent.runAsNonRoot: the kubelet's socket belongs to root, so set agent.podResources.enabled=false" -}}
{{- end -}}
{{- if eq $v.agent.spool.type "hostPath" -}}
{{- fail "agent.runAsNonRoot: a directory of the node belongs to root, so set agent.spool.type=emptyDir" -}}
{{- end -}}
{{- end -}}
{{- if and $v.agent.enabled $v.agent.podMonitor.enabled (eq $v.agent.otlp.exposure "hostNetwork") -}}
{{- fail "agent.podMonitor: with agent.otlp.exposure=hostNetwork agents listen on loopback, where Prometheus does not reach them" -}}
{{- end -}}
{{- if and $v.agent.enabled $v.server.enabled $v.networkPolicy.enabled $v.networkPolicy.webFrom (eq $v.agent.otlp.exposure "hostNetwork") (not $v.networkPolicy.nodeCidrs) -}}
{{- fail "networkPolicy.webFrom is set and agents are on the hosts' network: name the nodes' addresses by networkPolicy.nodeCidrs, or agents do not reach the server" -}}
{{- end -}}
{{- end -}}

{{/* DNS, as an egress rule: policies see the pods' ports, which is 5353 on OpenShift. */}}
{{- define "longpole.dnsEgress" -}}
- ports:
    {{- range list 53 5353 }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end -}}

{{/* The port of an address, or its scheme's own. */}}
{{- define "longpole.portOf" -}}
{{- $address := urlParse . -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $address.host) -}}
{{- $port | default (ternary "443" "80" (eq $address.scheme "https")) | int -}}
{{- end -}}
