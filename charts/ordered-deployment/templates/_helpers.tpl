{{- define "ordered-deployment.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of everything in the release's namespace. Short enough for what is appended to it. */}}
{{- define "ordered-deployment.fullname" -}}
{{- $name := include "ordered-deployment.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
The name of what has no namespace. It follows from what is watched, not from the release: Helm refuses a second release that
watches the same.
*/}}
{{- define "ordered-deployment.clusterName" -}}
{{- if .Values.watchNamespace -}}
{{- printf "%s-in-%s" .Chart.Name .Values.watchNamespace -}}
{{- else -}}
{{- .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "ordered-deployment.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ordered-deployment.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ordered-deployment.labels" -}}
{{ include "ordered-deployment.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ordered-deployment.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ordered-deployment.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false and serviceAccount.name is empty: the controller's rights would go to the account `default`, which every other pod of the namespace has too. Set serviceAccount.name to an account that you made for it, or serviceAccount.create=true." .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ordered-deployment.subjects" -}}
- kind: ServiceAccount
  name: {{ include "ordered-deployment.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "ordered-deployment.image" -}}
{{- $repository := required "image.repository is empty. Set it to where you have pushed the controller's image, such as registry.example.com/ordered-controller-manager; best with image.digest=sha256:…, which names exactly one image." .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The newest version of admission policies that the server has; empty where it has none. */}}
{{- define "ordered-deployment.admissionPolicyVersion" -}}
{{- range list "v1" "v1beta1" -}}
{{- if $.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/%s/ValidatingAdmissionPolicy" .) -}}
{{- printf "admissionregistration.k8s.io/%s " . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Exactly what the controller does in the namespaces that it watches. Each rule says why.
*/}}
{{- define "ordered-deployment.controllerRules" -}}
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments]
  verbs: [get, list, watch]
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments/status]
  verbs: [patch]
# One set a revision, sized by patches and deleted by the history limit.
- apiGroups: [ordereddeployment.io]
  resources: [orderedreplicasets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [ordereddeployment.io]
  resources: [orderedreplicasets/status]
  verbs: [patch]
# Never asked for directly: where the admission plugin OwnerReferencesPermissionEnforcement is on, only who may set an
# owner's finalizers may let a dependent block its deletion. Sets block their deployment, pods their set.
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments/finalizers, orderedreplicasets/finalizers]
  verbs: [update]
# Patched only to adopt and to release.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Dry runs only: what the API server makes of two templates tells whether they are one, spelled differently.
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [create]
# spec.podDeletion: Evict
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# To name the budgets of a pod that has several, which no server evicts.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# Read only while an OrderedDeployment takes over from a Deployment: it waits until both are gone. (And by nodecosts, which finds
# a pod's Deployment through its ReplicaSet; what it patches are pods, as above.)
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [get{{ if .Values.nodeCosts.enabled }}, list, watch{{ end }}]
{{- end -}}

{{/* Pods run on nodes, and rules by node need their labels, taints and whether they are cordoned. */}}
{{- define "ordered-deployment.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end -}}
