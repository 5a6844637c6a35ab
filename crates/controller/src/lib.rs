//! Observe, plan, execute, report: the shell around the planner.
