{{/* Arguments of every server, whatever its role. */}}
{{- define "longpole.sharedArgs" -}}
{{- $server := .Values.server }}
{{- $clickhouse := .Values.store.clickhouse }}
{{- $external := ne .Values.store.mode "embedded" }}
{{- if .Values.auth.insecure }}
- --insecure
{{- end }}
{{- if .Values.auth.accessSecret }}
- --access-file=/run/secrets/access/access.json
{{- end }}
- --session-days={{ .Values.auth.sessionDays }}
{{- if $server.tls.existingSecret }}
- --tls-certificate-file=/run/secrets/tls/tls.crt
- --tls-key-file=/run/secrets/tls/tls.key
{{- end }}
{{- with $server.proxy.addresses }}
- {{ printf "--proxy-addresses=%s" (join "," .) | quote }}
{{- end }}
{{- with $server.proxy.userHeader }}
- --proxy-user-header={{ . }}
- --proxy-role={{ $server.proxy.role }}
{{- end }}
{{- with include "longpole.publicUrl" . }}
- --public-url={{ . }}
{{- end }}
- --log-format={{ $server.log.format }}
- --lost-after-s={{ $server.lostAfterS }}
- --max-import-bytes={{ $server.maxImportBytes }}
{{- if $server.retention }}
{{- $pairs := list }}
{{- range $table, $span := $server.retention }}
{{- $pairs = append $pairs (printf "%s=%s" $table $span) }}
{{- end }}
- --retention={{ join "," $pairs }}
{{- end }}
{{- if $server.sqlDoor.enabled }}
- --sql-max-s={{ $server.sqlDoor.maxS }}
- --sql-max-memory-bytes={{ $server.sqlDoor.maxMemoryBytes }}
- --sql-max-rows={{ int64 $server.sqlDoor.maxRows }}
{{- else }}
- --no-sql-door
{{- end }}
{{- if $external }}
- --clickhouse-url={{ include "longpole.clickhouseUrl" . }}
- --clickhouse-database={{ $clickhouse.database }}
{{- with $clickhouse.user }}
- --clickhouse-user={{ . }}
{{- end }}
{{- with $clickhouse.cluster }}
- --clickhouse-cluster={{ . }}
{{- end }}
{{- if $clickhouse.caSecret }}
- --clickhouse-ca-file=/run/secrets/clickhouse-ca/ca.crt
{{- end }}
{{- if $clickhouse.clientCertificateSecret }}
- --clickhouse-certificate-file=/run/secrets/clickhouse-client/tls.crt
- --clickhouse-key-file=/run/secrets/clickhouse-client/tls.key
{{- end }}
{{- if $clickhouse.noVerify }}
- --clickhouse-no-verify
{{- end }}
{{- end }}
{{- end -}}

{{/* Environment of every server. */}}
{{- define "longpole.sharedEnv" -}}
{{- $server := .Values.server }}
{{- $clickhouse := .Values.store.clickhouse }}
{{- $external := ne .Values.store.mode "embedded" }}
# What libraries would write into a home goes where the pod may write.
- name: HOME
  value: /tmp
{{- include "longpole.tokenEnv" . | nindent 0 }}
{{- if $server.proxy.secret }}
- name: LONGPOLE_PROXY_SECRET_FILE
  value: /run/secrets/proxy/secret
{{- end }}
{{- if .Values.auth.sessionSecret }}
- name: LONGPOLE_SESSION_KEY_FILE
  value: /run/secrets/session/key
{{- end }}
{{- if and $external $clickhouse.existingSecret }}
- name: LONGPOLE_CLICKHOUSE_PASSWORD_FILE
  value: /run/secrets/clickhouse/password
{{- end }}
{{- end -}}

{{/* What every server is given to read. */}}
{{- define "longpole.sharedMounts" -}}
{{- $server := .Values.server }}
{{- $clickhouse := .Values.store.clickhouse }}
{{- $external := ne .Values.store.mode "embedded" }}
{{- include "longpole.tokenMount" . | nindent 0 }}
{{- if .Values.auth.accessSecret }}
- {name: access, mountPath: /run/secrets/access, readOnly: true}
{{- end }}
{{- if $server.proxy.secret }}
- {name: proxy, mountPath: /run/secrets/proxy, readOnly: true}
{{- end }}
{{- if .Values.auth.sessionSecret }}
- {name: session, mountPath: /run/secrets/session, readOnly: true}
{{- end }}
{{- if $server.tls.existingSecret }}
- {name: tls, mountPath: /run/secrets/tls, readOnly: true}
{{- end }}
{{- if and $external $clickhouse.existingSecret }}
- {name: clickhouse-password, mountPath: /run/secrets/clickhouse, readOnly: true}
{{- end }}
{{- if and $external $clickhouse.caSecret }}
- {name: clickhouse-ca, mountPath: /run/secrets/clickhouse-ca, readOnly: true}
{{- end }}
{{- if and $external $clickhouse.clientCertificateSecret }}
- {name: clickhouse-client, mountPath: /run/secrets/clickhouse-client, readOnly: true}
{{- end }}
{{- end -}}

{{/* And from where. */}}
{{- define "longpole.sharedVolumes" -}}
{{- $server := .Values.server }}
{{- $clickhouse := .Values.store.clickhouse }}
{{- $external := ne .Values.store.mode "embedded" }}
{{- include "longpole.tokenVolume" . | nindent 0 }}
{{- with .Values.auth.accessSecret }}
- name: access
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: {{ $.Values.auth.accessKey | quote }}, path: access.json}
{{- end }}
{{- with .Values.auth.sessionSecret }}
- name: session
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: {{ $.Values.auth.sessionKey | quote }}, path: key}
{{- end }}
{{- with $server.proxy.secret }}
- name: proxy
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: {{ $server.proxy.secretKey | quote }}, path: secret}
{{- end }}
{{- with $server.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- if and $external $clickhouse.existingSecret }}
- name: clickhouse-password
  secret:
    secretName: {{ $clickhouse.existingSecret }}
    defaultMode: 0440
    items:
      - {key: {{ $clickhouse.passwordKey | quote }}, path: password}
{{- end }}
{{- if and $external $clickhouse.caSecret }}
- name: clickhouse-ca
  secret:
    secretName: {{ $clickhouse.caSecret }}
    items:
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- if and $external $clickhouse.clientCertificateSecret }}
- name: clickhouse-client
  secret:
    secretName: {{ $clickhouse.clientCertificateSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}
