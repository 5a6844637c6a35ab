//! Column definitions.

/// One column.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) column_type: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i64,
}

/// A string column that is always shown.
pub(super) fn text(name: &str) -> Head {
    head(name, "string", 0)
}

/// A string column for `-o wide`.
pub(super) fn wide(name: &str) -> Head {
    head(name, "string", 1)
}

pub(super) fn integer(name: &str) -> Head {
    head(name, "integer", 0)
}

pub(super) fn head(name: &str, column_type: &str, priority: i64) -> Head {
    // kubectl recognizes the name column by this format.
    let format = if name == "Name" { "name" } else { "" };
    Head {
        name: name.to_owned(),
        column_type: column_type.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority,
    }
}
