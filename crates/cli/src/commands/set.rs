//! `set image`: changes images in the template. It writes the template, nothing else.

use anyhow::{Result, bail};
use ordereddeployment_wire::Family;
use serde_json::Value;

use crate::client::{ConnectArgs, Connection, Target};
use crate::commands::template_change::TemplateChange;
use crate::terminal::escape::print_line;

/// Change the template, as `kubectl set` does
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SetCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SetCommand {
    Image(ImageArgs),
}

/// Change images, which starts a rollout
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered set image web web=nginx:1.29
  kubectl ordered set image web web=nginx:1.29 proxy=envoy:1.31
  kubectl ordered set image web '*=nginx:1.29'

CONTAINER is the name of a container or an init container of the template; `*` is all of them. The command \
lists the pause points of the rollout.")]
pub(crate) struct ImageArgs {
    #[command(flatten)]
    target: Target,
    /// A container of the template, and its new image
    #[arg(value_name = "CONTAINER=IMAGE", required = true, value_parser = pair)]
    images: Vec<(String, String)>,
}

/// Parses `container=image`, as `kubectl set image` does.
pub(crate) fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((container, image))
            if !container.is_empty() && !image.is_empty() && !image.contains(char::is_whitespace) =>
        {
            Ok((container.to_owned(), image.to_owned()))
        }
        _ => bail!("give a container and its image, such as web=nginx:1.29"),
    }
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let SetCommand::Image(args) = args.command;
    let connection = connect.connect().await?.with(args.target.dry_run);
    Ok(print_line(set_image(&connection, &args.target.name, &args.images).await?)?)
}

/// Writes the images. Returns the result and the next command.
pub(crate) async fn set_image(
    connection: &Connection,
    name: &str,
    images: &[(String, String)],
) -> Result<String> {
    let state = connection.state(Family::Ordered, name).await?;
    let mut template = state.deployment.spec.template.value();
    let changed = replace_images(&mut template, images, name)?;
    if changed.is_empty() {
        return Ok(format!(
            "{name}: has these images already\n`kubectl ordered get {name}{}` shows its state",
            connection.flags
        ));
    }
    let template = ordereddeployment_api::Template::new(&template);
    let change = TemplateChange { state: &state, verb: "set images of", template, annotation: None };
    let changed = changed.join(", ");
    change.apply(connection, &changed, &format!("would change {changed}")).await
}

/// Writes the images into the template. Returns the changes as text. `of` has the containers, for the error.
pub(crate) fn replace_images(
    template: &mut Value,
    images: &[(String, String)],
    of: &str,
) -> Result<Vec<String>> {
    let mut known = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = template["spec"][list].as_array().into_iter().flatten();
        known.extend(containers.filter_map(|container| container["name"].as_str()).map(str::to_owned));
    }
    if let Some((wrong, _)) =
        images.iter().find(|(container, _)| container != "*" && !known.contains(container))
    {
        bail!("{of} has no container {wrong:?}\nhint: it has {}", known.join(", "));
    }
    let mut changed = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = template.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(own) = container["name"].as_str().map(str::to_owned) else { continue };
            // The last flag for a container counts, as in kubectl.
            let found = images.iter().rev().find(|(container, _)| *container == own || container == "*");
            if let Some((_, image)) = found.filter(|(_, image)| container["image"] != image.as_str()) {
                let before = container["image"].as_str().unwrap_or("none");
                changed.push(format!("{own} from {before} to {image}"));
                container["image"] = image.as_str().into();
            }
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests;
