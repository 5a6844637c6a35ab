//! What scenarios are made of: a server, the controller's binary as a process, real kubectl, and waiting for what is promised.
//!
//! It never looks inside the controller: what a scenario knows, it reads from the API server.

mod kubectl;
mod manager;
mod world;

pub use kubectl::Kubectl;
pub use manager::Manager;
pub use world::World;
