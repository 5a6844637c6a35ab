//! `kubectl ordered dashboard` in a real browser. Without a browser the scenarios are left out.

mod browser;

use scenarios::{Following, Plugin, Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

use browser::Browser;

/// The key codes of WebDriver.
const ENTER: char = '\u{e007}';
const RIGHT: char = '\u{e014}';
const ESCAPE: char = '\u{e00c}';

/// Starts the dashboard and opens it. Returns it with its address.
async fn dashboard(browser: &Browser, plugin: &Plugin, arguments: &[&str]) -> (Following, String) {
    let mut running = plugin.start(&[&["dashboard"], arguments].concat()).unwrap();
    let lines = running.until("#token=").await.unwrap();
    let address = lines.last().unwrap().trim().to_owned();
    browser.open(&address).await;
    (running, address)
}

/// Starts a rollout and waits until it pauses.
async fn roll_out(cluster: &TestCluster, image: &str) {
    cluster.set_image(image).await.unwrap();
    cluster.held("web").await.unwrap();
}

/// Six pods of `web` with different priorities, in deletion order, and pause points at two of them.
async fn two_pauses(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    for (pod, priority) in pods.iter().zip([60, 50, 40, 30, 20, 10]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    for pod in [&pods[1], &pods[4]] {
        cluster.pause_at(pod, "before").await.unwrap();
    }
    pods
}

/// The number of pods in a zone.
async fn squares(browser: &Browser, zone: &str) -> Value {
    browser.get(&format!("document.querySelectorAll('.zone-{zone} [role=option]').length")).await
}

async fn a_rollout_is_watched_and_resumed_through_two_pauses(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    let pods = two_pauses(&cluster).await;
    let _dashboard = dashboard(&browser, &cluster.plugin().unwrap(), &["web"]).await;
    browser.until_text("#state", "complete at revision 1").await;
    let at = browser.get("location.href").await;
    assert!(!at.as_str().unwrap().contains("token"), "the token stays in {at}");
    browser.until_text("#line", "the next rollout pauses at pause point").await;
    assert_eq!((squares(&browser, "ahead").await, squares(&browser, "waits").await), (json!(1), json!(5)));

    cluster.set_image("web:2").await.unwrap();
    browser.until_text("#state", "paused at a pause point of revision 2").await;
    browser.until_text("#line", &format!("paused at pause point {} (before)", pods[1])).await;
    browser.until("document.querySelectorAll('.zone-waits [role=option]').length === 5").await;
    browser.until("document.querySelectorAll('.zone-updated .ready').length === 1").await;
    browser.until_text("#rows", &format!("Paused at {}", pods[1])).await;
    browser.until_text("#plan", "pausing at 2 pause points").await;
    browser.until_text("#plan tbody tr:nth-child(2)", &pods[4]).await;

    browser.click("[data-action=resume]").await;
    browser.until_text("#toasts", "web: passed").await;
    browser.until_text("#line", &format!("paused at pause point {} (before)", pods[4])).await;
    browser.until("document.querySelectorAll('.zone-updated .ready').length === 4").await;
    browser.until_text("#history", "Resumed").await;
    // This request names the rollout that the page shows.
    browser.click("[data-action=resumeAll]").await;
    browser.click("#confirm-yes").await;
    browser.until_text("#toasts", "passed all pause points of revision 2").await;
    browser.until_text("#state", "complete at revision 2").await;
    browser.until("document.getElementById('line').hidden").await;
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), pods);
    assert_eq!(browser.get("document.querySelectorAll('#board .new.ready').length").await, json!(6));

    // An undo asks first, and the same question in both places.
    for button in ["[data-action=undo]", "#history button"] {
        browser.click(button).await;
        let question = "Roll web back to revision 1 (web:1). It pauses at pause points of pods.";
        browser.until_text("#confirm", question).await;
        browser.click("#confirm-no").await;
    }
    browser.click("[data-action=undo]").await;
    browser.click("#confirm-yes").await;
    browser.until_text("#toasts", "rolling back to revision 1").await;
    browser.until_text("#state", "complete at revision 3").await;
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 6);
}

async fn a_lost_api_server_and_a_stopped_dashboard_are_shown(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    let pods = two_pauses(&cluster).await;
    let beside = cluster.behind_another_proxy().await.unwrap();
    let plugin = beside.plugin_behind_the_proxy().unwrap();
    let (running, address) = dashboard(&browser, &plugin, &["web"]).await;
    browser.until_text("#state", "complete at revision 1").await;
    let rules = beside.proxy.rules();
    rules.stall();
    rules.cut();
    browser.until_text("#banner", "The API server does not answer since ").await;
    browser.until_text("#live", "Connection lost").await;
    let is_old = "document.getElementById('columns').classList.contains('old')";
    assert_eq!(browser.get(is_old).await, json!(true));
    assert_eq!(browser.get("document.querySelectorAll('#board [role=option]').length").await, json!(6));
    roll_out(&cluster, "web:2").await;
    rules.flow();
    browser.until_text("#live", "Live").await;
    browser.until_text("#line", &format!("paused at pause point {} (before)", pods[1])).await;
    assert_eq!(browser.get("document.getElementById('banner').hidden").await, json!(true));
    // The token works once. This browser has the cookie.
    browser.open(&address).await;
    drop(running);
    browser.until_text("#banner", "The dashboard does not answer since ").await;
    browser.until_text("#live", "Stopped").await;
}

async fn everything_works_with_the_keyboard_alone(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    let pods = two_pauses(&cluster).await;
    roll_out(&cluster, "web:2").await;
    let _dashboard = dashboard(&browser, &cluster.plugin().unwrap(), &[]).await;
    browser.until("document.querySelector('#rows a')").await;
    browser.tab_to("#rows a").await;
    browser.press(ENTER).await;
    browser.until_text("#state", "paused at a pause point").await;
    // A button that is not possible can be reached, and says why.
    browser.tab_to("[data-action=retry]").await;
    browser.until_text("#tip", "web is not aborted").await;
    browser.tab_to("[role=option]").await;
    let ring = "getComputedStyle(document.activeElement).outlineStyle";
    assert_ne!(browser.get(ring).await, json!("none"), "the focus is not visible");
    for _ in 0..6 {
        let name = browser.get("document.activeElement.dataset.pod").await;
        browser.until_text("#tip", name.as_str().unwrap()).await;
        if name == json!(pods[5]) {
            break;
        }
        browser.press(RIGHT).await;
    }
    browser.press(ENTER).await;
    browser.until_text("#inspector", &pods[5]).await;
    browser.tab_to("#mark-priority").await;
    browser.fill("#mark-priority", "25").await;
    browser.press(ENTER).await;
    browser.until_text("#toasts", &format!("{}: priority 25", pods[5])).await;
    browser.until_text("#inspector", "4 of 5").await;
    browser.press(ESCAPE).await;
    browser.get("document.getElementById('filter').focus()").await;
    browser.tab_to("[data-action=resume]").await;
    browser.press(ENTER).await;
    browser.until_text("#line", &format!("paused at pause point {} (before)", pods[4])).await;
}

async fn the_page_has_no_barriers_and_fits_three_widths(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    let pods = two_pauses(&cluster).await;
    let _dashboard = dashboard(&browser, &cluster.plugin().unwrap(), &["web"]).await;
    browser.until_text("#state", "complete at revision 1").await;
    assert_eq!(browser.barriers().await, [""; 0]);
    cluster.set_image("web:2").await.unwrap();
    browser.until_text("#line", "paused at pause point").await;
    browser.until_text("#plan", "pausing at 2 pause points").await;
    browser.click(&format!("[data-pod={}]", pods[2])).await;
    for scheme in ["light", "dark"] {
        browser.scheme(scheme).await;
        for width in [400, 900, 1600] {
            browser.width(width).await;
            let wide = browser.get("document.documentElement.scrollWidth").await;
            assert_eq!(wide, json!(width), "{scheme}, {width}");
            assert_eq!(browser.barriers().await, [""; 0], "{scheme}, {width}");
        }
    }
}

async fn foreign_text_never_becomes_markup(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    let hostile = "<img src=x onerror=window.hacked=1>";
    let pods = two_pauses(&cluster).await;
    cluster.annotate(&pods[5], &format!("ordereddeployment.io/pause-point={hostile}")).await.unwrap();
    let cause = json!({"kubernetes.io/change-cause": hostile});
    cluster.patch(&json!({"metadata": {"annotations": cause}})).await.unwrap();
    let status = json!({"status": {"reason": hostile}}).to_string();
    let patch = ["patch", "pod", &pods[3], "--subresource=status", "-p", &status];
    cluster.kubectl.run(&patch).await.unwrap();
    roll_out(&cluster, hostile).await;
    let _dashboard = dashboard(&browser, &cluster.plugin().unwrap(), &["web"]).await;
    browser.until_text("#notes", hostile).await;
    browser.until_text("#history", hostile).await;
    browser.click(&format!("[data-pod={}]", pods[3])).await;
    browser.until_text("#inspector", hostile).await;
    browser.until_text("#tip", hostile).await;
    // The answer repeats the name of the container.
    browser.fill("#plan-image", "<u>x</u>=web:3").await;
    browser.press(ENTER).await;
    browser.until_text("#plan", "<u>x</u>").await;
    browser.click("[data-action=undo]").await;
    browser.until_text("#confirm", "back to revision 1").await;
    assert_eq!(browser.get("document.querySelectorAll('img').length").await, json!(1));
    assert_eq!(browser.get("document.querySelectorAll('u').length").await, json!(0));
    assert_eq!(browser.get("window.hacked ?? null").await, Value::Null);
}

#[cfg(feature = "real-servers")]
async fn a_click_without_the_permission_names_the_role_to_ask_for(cluster: TestCluster) {
    let Some(browser) = Browser::start().await else { return };
    two_pauses(&cluster).await;
    roll_out(&cluster, "web:2").await;
    cluster.reader("vera").await.unwrap();
    let _dashboard = dashboard(&browser, &cluster.plugin().unwrap(), &["web", "--as", "vera"]).await;
    browser.until_text("#state", "paused at a pause point").await;
    browser.click("[data-action=resume]").await;
    browser.until_text("#toasts", "`ordered-deployment-resumer`").await;
    browser.click("[data-action=pause]").await;
    browser.until_text("#toasts", "ask for a role that may patch ordereddeployments").await;
    assert!(!cluster.deployments().get("web").await.unwrap().spec.paused);
}

side_by_side!(
    Setting::default();
    a_rollout_is_watched_and_resumed_through_two_pauses,
    a_lost_api_server_and_a_stopped_dashboard_are_shown,
    everything_works_with_the_keyboard_alone,
    the_page_has_no_barriers_and_fits_three_widths,
    foreign_text_never_becomes_markup,
    ; only on a real server:
    a_click_without_the_permission_names_the_role_to_ask_for,
);
