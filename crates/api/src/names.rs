//! Every name that a user types or sees, in one place: annotations, labels, conditions, reasons, events.

/// The API group of all kinds of this project.
pub const GROUP: &str = "ordereddeployment.io";
/// The version of the API.
pub const VERSION: &str = "v1alpha1";
/// The name under which the controller signs its requests, its events and its leases.
pub const CONTROLLER: &str = "ordered-controller-manager";

/// Annotation keys.
pub mod annotation {
    /// Delete priority of a pod: an int32, the larger goes first (rule 0 of the order).
    pub const DELETE_PRIORITY: &str = "ordereddeployment.io/delete-priority";
    /// Alias of [`DELETE_PRIORITY`], read where that one is absent or malformed.
    pub const DELETE_PRIORITY_ALIAS: &str = "controller.alpha.kubernetes.io/delete-priority";
    /// A pause point: `before` or `after`; `true` means `before`.
    pub const PAUSE_POINT: &str = "ordereddeployment.io/pause-point";
    /// How long the pause lasts, in Go's syntax (`10m`); absent: until it is resumed.
    pub const PAUSE_DURATION: &str = "ordereddeployment.io/pause-duration";
    /// Kubernetes' own pod deletion cost (KEP-2255; rule 4 of the order): the lower goes first.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// The revision of a set: a decimal number that grows with every rollout.
    pub const REVISION: &str = "ordereddeployment.io/revision";
    /// The object takes over from these others: `deployments/web,replicasets/web-5d9c`, of its own namespace. Until all of
    /// them are gone, its controller takes orphans in and neither creates nor deletes anything.
    pub const ADOPTING: &str = "ordereddeployment.io/adopting";
    /// Which state of the Deployment an object that takes over was made of.
    pub const ADOPTED_GENERATION: &str = "ordereddeployment.io/adopted-generation";
    /// The object's pods are being given to a Deployment, in that step (any text): its controller does nothing while this
    /// is there, and says so with that text.
    pub const HANDING_BACK: &str = "ordereddeployment.io/handing-back";
    /// The deletion cost that the controller `nodecosts` wrote on a pod of a plain Deployment: how it knows its own value.
    pub const NODE_COST: &str = "ordereddeployment.io/node-cost";
    /// On a set: hashes of templates that the API server found equal to the set's own, though they are spelled differently. The
    /// newest comes first; see [`crate::equality_hash`].
    pub const EQUAL_TEMPLATES: &str = "ordereddeployment.io/equal-templates";
    /// Why a revision was made: copied from the `OrderedDeployment` to its newest set, shown by the history.
    pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
}

/// Label keys.
pub mod label {
    /// The hash of the pod template, on sets and pods, as a Deployment labels its own.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// On a Deployment that is being made of an `OrderedDeployment`: `true`. A label, since the Deployment controller copies
    /// annotations to its `ReplicaSets`.
    pub const HANDING_BACK: &str = "ordereddeployment.io/handing-back";
}

/// Condition types of an `OrderedDeployment`.
pub mod condition {
    /// At least `replicas − maxUnavailable` pods are available.
    pub const AVAILABLE: &str = "Available";
    /// The rollout goes on or is done; `False` once the progress deadline has passed.
    pub const PROGRESSING: &str = "Progressing";
    /// A pod could not be created or deleted; the message says why.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// The rollout is held at a pause point; the message names it and says how to go on.
    pub const HELD: &str = "Held";
    /// Every pod is of the current template and available, and none is left over.
    pub const COMPLETE: &str = "Complete";
    /// Nothing goes on until somebody changes the spec or the cluster; the message says what. A rollout past its progress
    /// deadline is stalled too (kstatus: failed).
    pub const STALLED: &str = "Stalled";
    /// The pods are not yet what the spec says, and nothing keeps them from getting there but time, a hold or a pause
    /// (kstatus: in progress). Never `True` beside [`STALLED`].
    pub const RECONCILING: &str = "Reconciling";
    /// Those that every object has once it was acted on, so that `kubectl wait` finds them.
    pub const ALWAYS: [&str; 6] = [AVAILABLE, PROGRESSING, HELD, COMPLETE, STALLED, RECONCILING];
}

/// Reasons of conditions and of events.
pub mod reason {
    /// Progressing: a new set was made.
    pub const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
    /// Progressing: an older set is the current one again.
    pub const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
    /// Progressing: pods come and go.
    pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    /// Progressing: the rollout is done.
    pub const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    /// Progressing and Stalled: no progress within `progressDeadlineSeconds`.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Progressing and Reconciling: `spec.paused` is set.
    pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// Progressing: `spec.paused` was taken away.
    pub const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    /// Progressing, Held and Reconciling: the rollout is held at a pause point.
    pub const ROLLOUT_HELD: &str = "RolloutHeld";
    /// Progressing: the rollout was resumed.
    pub const ROLLOUT_RESUMED: &str = "RolloutResumed";
    /// Available: enough pods are available.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Available: too few pods are available.
    pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// Held: no pause point holds the rollout.
    pub const NOT_HELD: &str = "NotHeld";
    /// Complete and Reconciling: the rollout still goes on.
    pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
    /// Complete and Reconciling: every pod is updated and available.
    pub const ROLLOUT_COMPLETE: &str = "RolloutComplete";
    /// Stalled and all conditions that it makes void: the spec breaks a rule that the API server did not check.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Stalled: the API server refuses pods of this template.
    pub const TEMPLATE_REFUSED: &str = "TemplateRefused";
    /// Progressing, Complete, Reconciling, and Stalled and event after 30 seconds: the API server does not answer whether the
    /// template differs from those of the sets.
    pub const TEMPLATE_NOT_COMPARED: &str = "TemplateNotCompared";
    /// Event: the API server refuses the requests that compare templates; they are compared as they are written.
    pub const COMPARED_AS_WRITTEN: &str = "TemplateComparedAsWritten";
    /// Stalled: unavailable pods wait for their turn (`unavailablePods: InOrder`).
    pub const WAITING_IN_ORDER: &str = "WaitingInOrder";
    /// ReplicaFailure and event: a PodDisruptionBudget refuses the eviction of the next pod; the message names it.
    pub const EVICTION_REFUSED: &str = "EvictionRefused";
    /// ReplicaFailure, Stalled and event: several PodDisruptionBudgets select the next pod, which no server evicts then; the
    /// message names them.
    pub const SEVERAL_BUDGETS: &str = "SeveralDisruptionBudgets";
    /// Progressing and Complete: what the object takes over from is not gone yet.
    pub const ADOPTING: &str = "Adopting";
    /// Progressing and Complete: the pods are being given to a Deployment.
    pub const HANDING_BACK: &str = "HandingBack";
    /// Stalled: only unavailable pods at or behind the pause point could go; the message names them and the point.
    pub const BLOCKED: &str = "Blocked";
    /// Stalled: a pod that should have ended does not, and creates wait for it.
    pub const POD_STUCK_TERMINATING: &str = "PodStuckTerminating";
    /// ReplicaFailure: pods fail on their nodes again and again, and the next ones wait.
    pub const PODS_FAILED: &str = "PodsFailed";
    /// Stalled: nothing stands in the way.
    pub const NOT_STALLED: &str = "NotStalled";
    /// ReplicaFailure and event: the API server refused or failed a create.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// ReplicaFailure and event: the API server refused or failed a delete.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// ReplicaFailure and event: a pod or set that matches could not be adopted, or one that does not match any more could not be
    /// released. Until it can, no pod is created and none deleted.
    pub const FAILED_CLAIM: &str = "FailedClaim";
    /// Stalled and event: the API server does not store fields of the status. The CRDs are older than the controller.
    pub const STATUS_NOT_STORED: &str = "StatusNotStored";
    /// Event: a pod was created.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// Event: a pod was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// Event: a set was made or its size changed.
    pub const SCALING_REPLICA_SET: &str = "ScalingReplicaSet";
    /// Event: a rollout starts; tells how many pause points lie ahead.
    pub const ROLLOUT_STARTED: &str = "RolloutStarted";
    /// Event: the rollout reached a pause point and is held.
    pub const PAUSE_POINT_REACHED: &str = "PausePointReached";
    /// Event: the hold ended; the message says by what.
    pub const PAUSE_POINT_RESUMED: &str = "PausePointResumed";
    /// Event: a pod went away with a pause point that the rollout had not reached.
    pub const PAUSE_POINT_LOST: &str = "PausePointLost";
    /// Event: a `resumeRequested` that names no current hold was dropped.
    pub const RESUME_IGNORED: &str = "ResumeIgnored";
    /// Event on a ConfigMap: its rules for deletion costs are malformed, and those before stay in force.
    pub const MALFORMED_RULES: &str = "MalformedRules";
    /// Event: an annotation is malformed and counts as absent.
    pub const MALFORMED_ANNOTATION: &str = "MalformedAnnotation";
    /// Event: under Recreate a hold leaves fewer pods than wanted.
    pub const HOLD_BELOW_REPLICAS: &str = "HoldBelowReplicas";
    /// ReplicaFailure and event: the dry run that would prove the template got no answer, or could not decide. Without an answer
    /// no pod is deleted for the template.
    pub const TEMPLATE_UNPROVEN: &str = "TemplateUnproven";
}

/// Values of [`annotation::PAUSE_POINT`].
pub mod pause_point {
    /// Halt before the pod is deleted.
    pub const BEFORE: &str = "before";
    /// Halt after the pod was deleted.
    pub const AFTER: &str = "after";
    /// Short for [`BEFORE`].
    pub const TRUE: &str = "true";
}

/// Stands for every pause point in `status.passed` and, as `*@revision`, in `status.resumeRequested`.
pub const ALL_POINTS: &str = "*";
