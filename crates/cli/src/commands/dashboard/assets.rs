//! The files of the page. They are part of the program: nothing is loaded from elsewhere.

/// A file with its media type.
pub(super) struct Asset {
    name: &'static str,
    pub(super) media_type: &'static str,
    pub(super) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The page itself.
pub(super) const INDEX: Asset =
    Asset { name: "index.html", media_type: HTML, text: include_str!("assets/index.html") };

const ASSETS: [Asset; 10] = [
    Asset { name: "style.css", media_type: STYLE, text: include_str!("assets/style.css") },
    Asset { name: "icon.svg", media_type: "image/svg+xml", text: include_str!("assets/icon.svg") },
    Asset { name: "app.js", media_type: SCRIPT, text: include_str!("assets/app.js") },
    Asset { name: "dom.js", media_type: SCRIPT, text: include_str!("assets/dom.js") },
    Asset { name: "list.js", media_type: SCRIPT, text: include_str!("assets/list.js") },
    Asset { name: "head.js", media_type: SCRIPT, text: include_str!("assets/head.js") },
    Asset { name: "pods.js", media_type: SCRIPT, text: include_str!("assets/pods.js") },
    Asset { name: "pod.js", media_type: SCRIPT, text: include_str!("assets/pod.js") },
    Asset { name: "timeline.js", media_type: SCRIPT, text: include_str!("assets/timeline.js") },
    Asset { name: "history.js", media_type: SCRIPT, text: include_str!("assets/history.js") },
];

/// The file with that name.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::{ASSETS, INDEX};

    #[test]
    fn no_file_makes_markup_of_text_or_loads_anything_from_elsewhere() {
        let markup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("];
        for asset in ASSETS.iter().chain([&INDEX]) {
            for word in markup {
                assert!(!asset.text.contains(word), "{} has {word}", asset.name);
            }
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for address in ["http:", "https:", "//cdn", "@import"] {
                assert!(!text.contains(address), "{} has {address}", asset.name);
            }
        }
    }

    #[test]
    fn the_page_has_no_inline_script_or_style() {
        for word in ["<style", " style=", " onclick", " onerror", "javascript:"] {
            assert!(!INDEX.text.contains(word), "{word}");
        }
        assert_eq!(INDEX.text.matches("<script").count(), 1);
        assert!(INDEX.text.contains("<script type=\"module\" src=\"/assets/app.js\"></script>"));
    }
}
