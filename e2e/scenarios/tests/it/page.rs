//! The code blocks of a page of the documentation.

/// A code block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The language; empty for the output of a command.
    pub(crate) language: String,
    /// The HTML comment on the line before, which readers do not see.
    pub(crate) comment: Option<String>,
    pub(crate) text: String,
}

/// The code blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(scenarios::top().join(page)).unwrap();
    let (mut blocks, mut open): (Vec<Block>, bool) = (Vec::new(), false);
    let mut comment = None;
    for line in text.lines() {
        match (open, line.strip_prefix("```")) {
            (true, Some("")) => open = false,
            (true, _) => blocks.last_mut().unwrap().text.extend([line, "\n"]),
            (false, Some(language)) => {
                let (language, text) = (language.to_owned(), String::new());
                blocks.push(Block { language, comment: comment.take(), text });
                open = true;
            }
            (false, None) => {
                let inner = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
                comment = inner.map(str::to_owned);
            }
        }
    }
    assert!(!open, "{page}: a block does not end");
    blocks
}

/// The texts of the blocks in this language.
pub(crate) fn in_language(page: &str, language: &str) -> Vec<String> {
    let blocks = blocks(page).into_iter().filter(|block| block.language == language);
    blocks.map(|block| block.text).collect()
}
