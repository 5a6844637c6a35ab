//! The colours of the command line, as classes of the page.

use serde::Serialize;

use crate::style::{Paint, Style};

/// Marks as on a terminal with Unicode, and no colours: the page has its own.
pub(super) const UNICODE: Style = Style { color: false, unicode: true };

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tone {
    /// In progress, or without meaning.
    #[default]
    Busy,
    Good,
    Warn,
    Bad,
}

impl From<Paint> for Tone {
    fn from(paint: Paint) -> Self {
        match paint {
            Paint::Title | Paint::Dim => Self::Busy,
            Paint::Good => Self::Good,
            Paint::Warn => Self::Warn,
            Paint::Bad => Self::Bad,
        }
    }
}
