//! Every name that a user types or sees, in one place: annotations, labels, conditions, reasons, events.

/// The API group of all kinds of this project.
pub const GROUP: &str = "ordereddeployment.io";
/// The version of the API.
pub const VERSION: &str = "v1alpha1";
/// The controller's name in its User-Agent, its events and its lease.
pub const CONTROLLER: &str = "ordered-controller-manager";

/// Annotation keys.
pub mod annotation {
    /// Delete priority of a pod: an int32. Pods with a higher value are deleted first (rule 0 of the order).
    pub const DELETE_PRIORITY: &str = "ordereddeployment.io/delete-priority";
    /// Alias of [`DELETE_PRIORITY`]. It is used if that annotation is absent or malformed.
    pub const DELETE_PRIORITY_ALIAS: &str = "controller.alpha.kubernetes.io/delete-priority";
    /// A pause point: `before` or `after`; `true` means `before`.
    pub const PAUSE_POINT: &str = "ordereddeployment.io/pause-point";
    /// How long the rollout is paused, as a Go duration (`10m`). Without it, until the rollout is resumed.
    pub const PAUSE_DURATION: &str = "ordereddeployment.io/pause-duration";
    /// Kubernetes' pod deletion cost (KEP-2255; rule 4 of the order). Pods with a lower value are deleted
    /// first.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a pod: when the sizes of the sets had changed and its disruption budget was to be counted again.
    /// The disruption controller reads the sizes only when a pod or the budget changes (`updatePod` in
    /// Kubernetes' `pkg/controller/disruption`).
    pub const BUDGET_RECOUNT: &str = "ordereddeployment.io/budget-recount";
    /// The revision of a set: a decimal number that grows with every rollout.
    pub const REVISION: &str = "ordereddeployment.io/revision";
    /// The objects of the same namespace that this one takes over from:
    /// `deployments/web,replicasets/web-5d9c`. Until all of them are deleted, the controller adopts orphans,
    /// and creates and deletes no pod.
    pub const ADOPTING: &str = "ordereddeployment.io/adopting";
    /// The state of the Deployment that the object was converted from.
    pub const ADOPTED_GENERATION: &str = "ordereddeployment.io/adopted-generation";
    /// The object's pods are being moved to a Deployment. While the annotation is set, the controller does
    /// nothing; a condition shows its value, the current step.
    pub const HANDING_BACK: &str = "ordereddeployment.io/handing-back";
    /// The deletion cost that the controller `nodecosts` wrote to a pod of a plain Deployment. It identifies
    /// the value as its own.
    pub const NODE_COST: &str = "ordereddeployment.io/node-cost";
    /// On a plain Deployment whose ReplicaSets this controller reconciles: the pause point that its rollout
    /// is paused at, with the name and the UID of the pod, and the pause points that the rollout has passed.
    /// JSON, as in the status of an `OrderedDeployment`.
    pub const ROLLOUT_STATE: &str = "ordereddeployment.io/rollout-state";
    /// On a plain Deployment whose ReplicaSets this controller reconciles: its declared pause points, a JSON
    /// list as in `spec.strategy.pausePoints`.
    pub const PAUSE_POINTS: &str = "ordereddeployment.io/pause-points";
    /// On a ReplicaSet: the revision of its Deployment (Kubernetes' `pkg/controller/deployment/util`).
    pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
    /// On a ReplicaSet: the `replicas` of its Deployment when its size was last set (the same file).
    pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
    /// On a set: hashes of templates that the API server found equal to the set's own template, although they
    /// are spelled differently. Newest first; see [`crate::equality_hash`].
    pub const EQUAL_TEMPLATES: &str = "ordereddeployment.io/equal-templates";
    /// On a set: the revision as which it last served: no pause point was ahead, no pod of another revision
    /// was left, and enough pods were available. `0`: it has not served yet. An abort rolls back to the set
    /// that served last.
    pub const SERVED: &str = "ordereddeployment.io/served";
    /// The cause of a revision. It is copied from the `OrderedDeployment` to its newest set, and shown in the
    /// history.
    pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
    /// The annotations of the group of this project. Any other one of the group is a mistake.
    pub const OF_GROUP: [&str; 13] = [
        DELETE_PRIORITY,
        PAUSE_POINT,
        PAUSE_DURATION,
        BUDGET_RECOUNT,
        REVISION,
        ADOPTING,
        ADOPTED_GENERATION,
        HANDING_BACK,
        NODE_COST,
        ROLLOUT_STATE,
        PAUSE_POINTS,
        EQUAL_TEMPLATES,
        SERVED,
    ];
}

/// Label keys.
pub mod label {
    /// The hash of the pod template, on sets and pods, as Deployments use it.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// On the empty ReplicaSet by which this controller finds out whether kube-controller-manager reconciles
    /// ReplicaSets.
    pub const PROBE: &str = "ordereddeployment.io/probe";
    /// `true` on a Deployment that an `OrderedDeployment` is being converted to. It is a label, since the
    /// Deployment controller copies annotations to its `ReplicaSets`.
    pub const HANDING_BACK: &str = "ordereddeployment.io/handing-back";
}

/// Condition types of an `OrderedDeployment`.
pub mod condition {
    /// At least `replicas − maxUnavailable` pods are available.
    pub const AVAILABLE: &str = "Available";
    /// The rollout progresses or is complete. `False` if the progress deadline is exceeded.
    pub const PROGRESSING: &str = "Progressing";
    /// A pod could not be created or deleted. The message has the cause.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// The rollout is paused at a pause point. The message names it and says how to resume.
    pub const HELD: &str = "Held";
    /// All pods have the current template and are available, and no old pod is left.
    pub const COMPLETE: &str = "Complete";
    /// The rollout cannot continue until the spec or the cluster is changed. The message says what to change.
    /// A rollout that exceeds its progress deadline is stalled too (kstatus: failed).
    pub const STALLED: &str = "Stalled";
    /// The pods do not match the spec yet: the rollout progresses or is paused (kstatus: in progress). Never
    /// `True` together with [`STALLED`].
    pub const RECONCILING: &str = "Reconciling";
    /// On a `ReplicaSet` of a plain Deployment: pods beyond its size wait for a pause point. The message
    /// names it.
    pub const PODS_HELD_BACK: &str = "PodsHeldBack";
    /// The conditions that every observed object has, so that `kubectl wait` finds them.
    pub const ALWAYS: [&str; 6] = [AVAILABLE, PROGRESSING, HELD, COMPLETE, STALLED, RECONCILING];
}

/// Reasons of conditions and of events.
pub mod reason {
    /// Progressing: a new set was created.
    pub const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
    /// Progressing: an older set has the current template.
    pub const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
    /// Progressing: pods are created and deleted.
    pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
    /// Progressing: the rollout is complete.
    pub const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    /// Progressing and Stalled: no progress within `progressDeadlineSeconds`.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Progressing and Reconciling: `spec.paused` is set.
    pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// Progressing: `spec.paused` was removed.
    pub const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    /// Progressing, Held and Reconciling: the rollout is paused at a pause point.
    pub const ROLLOUT_HELD: &str = "RolloutHeld";
    /// Progressing: the rollout was resumed.
    pub const ROLLOUT_RESUMED: &str = "RolloutResumed";
    /// Available: enough pods are available.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Available: too few pods are available.
    pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// Held: the rollout is not paused at a pause point.
    pub const NOT_HELD: &str = "NotHeld";
    /// Complete and Reconciling: the rollout is in progress.
    pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
    /// Complete and Reconciling: every pod is updated and available.
    pub const ROLLOUT_COMPLETE: &str = "RolloutComplete";
    /// Stalled and the conditions that depend on the spec: the spec violates a rule that the API server did
    /// not check.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Stalled: the API server rejects pods of this template.
    pub const TEMPLATE_REFUSED: &str = "TemplateRefused";
    /// Progressing, Complete and Reconciling, after 30 seconds Stalled and an event: the API server does not
    /// answer whether the template differs from the templates of the sets.
    pub const TEMPLATE_NOT_COMPARED: &str = "TemplateNotCompared";
    /// Event: the API server rejects the requests that compare templates. Templates are compared as they are
    /// written.
    pub const COMPARED_AS_WRITTEN: &str = "TemplateComparedAsWritten";
    /// Stalled: unavailable pods must wait for their place in the order (`unavailablePods: InOrder`).
    pub const WAITING_IN_ORDER: &str = "WaitingInOrder";
    /// ReplicaFailure and event: a PodDisruptionBudget prevents the eviction of the next pod. The message
    /// names it.
    pub const EVICTION_REFUSED: &str = "EvictionRefused";
    /// ReplicaFailure, Stalled and event: more than one PodDisruptionBudget selects the next pod, so that the
    /// API server does not evict it. The message names them.
    pub const SEVERAL_BUDGETS: &str = "SeveralDisruptionBudgets";
    /// Progressing and Complete: the objects that this one takes over from still exist.
    pub const ADOPTING: &str = "Adopting";
    /// Progressing and Complete: the pods are being moved to a Deployment.
    pub const HANDING_BACK: &str = "HandingBack";
    /// Stalled: only unavailable pods at or behind the pause point could be deleted. The message names them
    /// and the pause point.
    pub const BLOCKED: &str = "Blocked";
    /// Stalled: with one replica and no surge, no updated pod can be beside the old one, and a pause point by
    /// number is ahead.
    pub const WAITS_AT_PAUSE_POINT: &str = "WaitsAtPausePoint";
    /// Stalled: a pause point keeps pods of an earlier revision, some are missing, and no set of a revision
    /// that served exists.
    pub const NO_EARLIER_REVISION: &str = "NoEarlierRevision";
    /// Stalled: a pod does not terminate in time, and creates wait for it.
    pub const POD_STUCK_TERMINATING: &str = "PodStuckTerminating";
    /// ReplicaFailure: pods fail repeatedly on their nodes; replacements are delayed.
    pub const PODS_FAILED: &str = "PodsFailed";
    /// Stalled: nothing prevents the rollout from continuing.
    pub const NOT_STALLED: &str = "NotStalled";
    /// ReplicaFailure and event: a create was rejected or failed.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// ReplicaFailure and event: a delete was rejected or failed.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// Event: the API server does not permit that the controller reads what the object needs, such as nodes
    /// for node rules, or that it stores the status. Until then nothing is done for the object.
    pub const NOT_PERMITTED: &str = "NotPermitted";
    /// ReplicaFailure and event: a matching pod or set could not be adopted, or one that no longer matches
    /// could not be released. Until then no pod is created or deleted; in a plain Deployment, no pod of that
    /// set.
    pub const FAILED_CLAIM: &str = "FailedClaim";
    /// Event about a plain Deployment: the API server refuses that the controller pauses it, or resumes it.
    /// Pods that are too many wait.
    pub const PAUSE_NOT_STORED: &str = "PauseNotStored";
    /// Stalled and event: the API server does not store fields of the status. The CRDs are older than the
    /// controller.
    pub const STATUS_NOT_STORED: &str = "StatusNotStored";
    /// Event: the API server does not know fields of the template, or its pods come back without them.
    pub const UNKNOWN_FIELDS: &str = "UnknownFields";
    /// Event: a pod was created.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// Event: a pod was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// Event: a set was created, or its size was changed.
    pub const SCALING_REPLICA_SET: &str = "ScalingReplicaSet";
    /// Event: a rollout starts. The message has the number of its pause points.
    pub const ROLLOUT_STARTED: &str = "RolloutStarted";
    /// Event: the rollout is paused at a pause point.
    pub const PAUSE_POINT_REACHED: &str = "PausePointReached";
    /// Event: the rollout continues after a pause point. The message has the cause.
    pub const PAUSE_POINT_RESUMED: &str = "PausePointResumed";
    /// Event: a pod with a pause point was deleted before the rollout reached it.
    pub const PAUSE_POINT_LOST: &str = "PausePointLost";
    /// Event: a pause point holds nothing in this rollout. The message has the cause.
    pub const PAUSE_POINT_SKIPPED: &str = "PausePointSkipped";
    /// Event: one pause point stands for those beyond the most that a status keeps.
    pub const PAUSE_POINTS_JOINED: &str = "PausePointsJoined";
    /// Progressing, Complete, Stalled, Reconciling and event: the rollout was aborted. The message has the
    /// cause.
    pub const ABORTED: &str = "Aborted";
    /// Event: an aborted rollout starts again.
    pub const RETRIED: &str = "Retried";
    /// Event: an `abortRequested` or a `retryRequested` was ignored. The message has the cause.
    pub const REQUEST_IGNORED: &str = "RequestIgnored";
    /// Event: a `resumeRequested` that names no current hold was ignored.
    pub const RESUME_IGNORED: &str = "ResumeIgnored";
    /// Event: the status had values that the controller does not write. It replaced or removed them. The
    /// message names the fields.
    pub const STATUS_CORRECTED: &str = "StatusCorrected";
    /// Event on a ConfigMap: its rules for deletion costs are malformed. The previous rules stay in force.
    pub const MALFORMED_RULES: &str = "MalformedRules";
    /// Event on a `ReplicaSet`: kube-controller-manager's controller of `ReplicaSets` is alive or may be:
    /// this one does nothing.
    pub const STANDS_ASIDE: &str = "StandsAside";
    /// Event: an annotation of this project has an invalid value, or its key is unknown. It is ignored.
    pub const MALFORMED_ANNOTATION: &str = "MalformedAnnotation";
    /// Event: with Recreate, the rollout is paused with fewer pods than desired.
    pub const HOLD_BELOW_REPLICAS: &str = "HoldBelowReplicas";
    /// ReplicaFailure and event: the dry run of a pod of the new template got no answer, or was inconclusive.
    /// Without an answer no pod is deleted for the template.
    pub const TEMPLATE_UNPROVEN: &str = "TemplateUnproven";
}

/// Values of [`annotation::PAUSE_POINT`].
pub mod pause_point {
    /// Pause before the pod is deleted.
    pub const BEFORE: &str = "before";
    /// Pause after the pod is deleted.
    pub const AFTER: &str = "after";
    /// Short for [`BEFORE`].
    pub const TRUE: &str = "true";
}

/// How many entries the history in the status has at most.
pub const HISTORY: usize = 32;

/// Stands for every pause point in `status.passed` and, as `*@revision`, in `status.resumeRequested`.
pub const ALL_POINTS: &str = "*";
