//! An embedded Kubernetes API server with nodes, a scheduler and kubelets, in memory.
