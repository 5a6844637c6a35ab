{{- define "ordered-deployment.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects in the release's namespace. It is short enough for the suffixes that are appended to it. */}}
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
The name of cluster-wide objects. It depends on the watched namespace, not on the release: Helm refuses a second release with
the same watchNamespace.
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
{{- required "serviceAccount.create is false and serviceAccount.name is empty: the account `default`, which other pods of the namespace use too, would get the controller's permissions. Set serviceAccount.name to an account for the controller, or set serviceAccount.create=true." .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ordered-deployment.subjects" -}}
- kind: ServiceAccount
  name: {{ include "ordered-deployment.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The same account, as a FlowSchema names it. */}}
{{- define "ordered-deployment.flowSubjects" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "ordered-deployment.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Whether the server has flowcontrol.apiserver.k8s.io/v1. `helm template` asks no server: there the version tells. */}}
{{- define "ordered-deployment.hasFlowControl" -}}
{{- if or (.Capabilities.APIVersions.Has "flowcontrol.apiserver.k8s.io/v1/FlowSchema") (semverCompare ">=1.29-0" .Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end -}}

{{- define "ordered-deployment.image" -}}
{{- $repository := required "image.repository is empty. Set it to where you have pushed the controller's image, such as registry.example.com/ordered-controller-manager. Preferably also set image.digest=sha256:…, which names exactly one image." .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The newest version of admission policies that the server supports; empty if it supports none. */}}
{{- define "ordered-deployment.admissionPolicyVersion" -}}
{{- range list "v1" "v1beta1" -}}
{{- if $.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/%s/ValidatingAdmissionPolicy" .) -}}
{{- printf "admissionregistration.k8s.io/%s " . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Exactly the permissions that the controller uses in the watched namespaces. A comment explains each rule.
*/}}
{{- define "ordered-deployment.controllerRules" -}}
# Read only: the controller changes no spec.
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments]
  verbs: [get, list, watch]
# Progress, conditions, the pause point at which a rollout is paused.
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments/status]
  verbs: [patch]
# One set for each revision. Patches change its size; the history limit deletes it.
- apiGroups: [ordereddeployment.io]
  resources: [orderedreplicasets]
  verbs: [get, list, watch, create, patch, delete]
# The numbers of pods of each set.
- apiGroups: [ordereddeployment.io]
  resources: [orderedreplicasets/status]
  verbs: [patch]
# For the admission plugin OwnerReferencesPermissionEnforcement: sets block the deletion of their OrderedDeployment, and pods that of
# their set.
- apiGroups: [ordereddeployment.io]
  resources: [ordereddeployments/finalizers, orderedreplicasets/finalizers]
  verbs: [update]
# Patches adopt and release pods, and make disruption budgets count again.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Dry runs only: to compare templates that are written differently.
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [create]
# spec.podDeletion: Evict
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# To find the budgets that select a pod.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
# What happened, once for each cause.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if or .Values.nodeCosts.enabled .Values.replicaSets.enabled }}
# nodecosts finds the Deployment of a pod; replicaset reconciles ReplicaSets.
{{- else }}
# During the conversion of a Deployment, to wait until both are gone.
{{- end }}
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [get{{ if or .Values.nodeCosts.enabled .Values.replicaSets.enabled }}, list, watch{{ end }}]
{{- if .Values.replicaSets.enabled }}
# A pause point sets spec.paused of a plain Deployment.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [patch]
# The numbers of pods.
- apiGroups: [apps]
  resources: [replicasets/status]
  verbs: [patch]
# As for the sets.
- apiGroups: [apps]
  resources: [replicasets/finalizers]
  verbs: [update]
{{- end }}
{{- end -}}

{{- define "ordered-deployment.nodeRules" -}}
# For node rules.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end -}}
