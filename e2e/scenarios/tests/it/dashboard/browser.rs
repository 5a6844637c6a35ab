//! A real Chromium with one page, driven by WebDriver.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The key code of WebDriver.
const TAB: char = '\u{e004}';
/// The timeout of every wait. It is far longer than necessary.
const LIMIT: Duration = Duration::from_secs(60);

/// A running browser. Dropping it ends it.
pub(super) struct Browser {
    client: Client,
    _driver: Child,
    _home: tempfile::TempDir,
}

/// A command of Chromium's own protocol.
#[derive(Debug)]
struct Protocol(&'static str, Value);

impl WebDriverCompatibleCommand for Protocol {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(json!({"cmd": self.0, "params": self.1}).to_string()))
    }
}

impl Browser {
    /// Starts the browser in `CHROMIUM` and `CHROMEDRIVER`; `None` if they are not set.
    pub(super) async fn start() -> Option<Self> {
        let (Some(program), Some(driver)) = (std::env::var_os("CHROMIUM"), std::env::var_os("CHROMEDRIVER"))
        else {
            println!("left out: CHROMIUM and CHROMEDRIVER are not set; `cargo xtask browser` prints them");
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        // With port 0, it fails if the port that it gets for IPv4 is taken for IPv6.
        let port = scenarios::free_port().unwrap();
        let mut child = Command::new(driver)
            .arg(format!("--port={port}"))
            .arg("--log-level=SEVERE")
            .env("HOME", home.path())
            .env("XDG_CACHE_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().unwrap().contains("started successfully") {}
        // Always read: a full pipe would block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        // Over the pipe, Chromium ends with its driver. It runs as root in containers, where its own sandbox
        // cannot start.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--hide-scrollbars",
            "--lang=en-US",
        ];
        let profile = format!("--user-data-dir={}", home.path().join("profile").display());
        let arguments: Vec<&str> = arguments.into_iter().chain([profile.as_str()]).collect();
        let options = json!({"binary": PathBuf::from(program), "args": arguments});
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let timeouts = TimeoutConfiguration::new(Some(LIMIT), Some(LIMIT), None);
        client.update_timeouts(timeouts).await.unwrap();
        let browser = Self { client, _driver: child, _home: home };
        browser.width(1600).await;
        Some(browser)
    }

    /// Opens the page, and waits until it is live.
    pub(super) async fn open(&self, address: &str) {
        self.client.goto("about:blank").await.unwrap();
        self.client.goto(address).await.unwrap();
        self.until("document.getElementById('live').textContent === 'Live'").await;
    }

    /// Waits until the expression is true. The page checks it at each frame.
    pub(super) async fn until(&self, condition: &str) {
        let script = format!(
            "const done = arguments[0]; const end = performance.now() + {};
             const look = () => {{
               let is = false; try {{ is = Boolean({condition}); }} catch {{}}
               if (is) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 16);
             }}; look();",
            LIMIT.as_millis() - 5000
        );
        let found = self.client.execute_async(&script, Vec::new()).await.unwrap();
        if found != json!(true) {
            let text = self.get("document.body.innerText").await;
            panic!("never: {condition}; the page says {}", text.as_str().unwrap_or_default());
        }
    }

    /// Waits until the element contains the text.
    pub(super) async fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.until(&format!("document.querySelector({selector}).innerText.includes({text})")).await;
    }

    /// The value of the expression.
    pub(super) async fn get(&self, expression: &str) -> Value {
        self.client.execute(&format!("return {expression};"), Vec::new()).await.unwrap()
    }

    /// Clicks the element, as a user does.
    pub(super) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        // A driver does not scroll to what the bar at the top covers.
        let selector = json!(selector);
        self.get(&format!("document.querySelector({selector}).scrollIntoView({{block: 'center'}})")).await;
        element.click().await.unwrap();
    }

    /// Types into the element.
    pub(super) async fn fill(&self, selector: &str, text: &str) {
        self.find(selector).await.send_keys(text).await.unwrap();
    }

    async fn find(&self, selector: &str) -> Element {
        self.client.wait().at_most(LIMIT).for_element(Locator::Css(selector)).await.unwrap()
    }

    /// Presses and releases a key.
    pub(super) async fn press(&self, key: char) {
        let keys = KeyActions::new("keys".to_owned())
            .then(KeyAction::Down { value: key })
            .then(KeyAction::Up { value: key });
        self.client.perform_actions(keys).await.unwrap();
    }

    /// Presses Tab until the focus is on the element.
    pub(super) async fn tab_to(&self, selector: &str) {
        for _ in 0..40 {
            self.press(TAB).await;
            let is_there = format!("document.activeElement.matches({})", json!(selector));
            if self.get(&is_there).await == json!(true) {
                return;
            }
        }
        panic!("Tab does not reach {selector}");
    }

    /// Sets the width of the page.
    pub(super) async fn width(&self, width: u32) {
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.protocol("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Sets the colour scheme of the user: `light` or `dark`.
    pub(super) async fn scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.protocol("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Sends a command of Chromium's own protocol.
    async fn protocol(&self, command: &'static str, parameters: Value) -> Value {
        self.client.issue_cmd(Protocol(command, parameters)).await.unwrap()
    }

    /// The serious findings of the accessibility checker in `AXE`; none if it is not set.
    pub(super) async fn barriers(&self) -> Vec<String> {
        let Some(script) = std::env::var_os("AXE") else {
            println!("left out: AXE is not set; `cargo xtask browser` prints it");
            return Vec::new();
        };
        let script = std::fs::read_to_string(script).unwrap();
        self.client.execute(&script, Vec::new()).await.unwrap();
        let run = "const done = arguments[0]; axe.run().then(({violations}) => done(violations), (error) => \
                   done([{id: String(error), impact: 'serious', nodes: []}]));";
        let found = self.client.execute_async(run, Vec::new()).await.unwrap();
        let serious =
            |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical" | "moderate"));
        let found: Vec<Value> = found.as_array().cloned().unwrap_or_default();
        found
            .iter()
            .filter(serious)
            .map(|one| format!("{}: {} {}", one["id"], one["help"], one["nodes"][0]["html"]))
            .collect()
    }
}
