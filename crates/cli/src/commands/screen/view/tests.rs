use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{Done, Effect, Page, View};
use crate::client::watches::Lost;
use crate::commands::screen::draw;
use crate::terminal::style::Style;
use crate::testing::{PLAIN, Pod, at_revision, observed_state, overview, paused_before, pod};
use crate::view::overview::Overview;
use crate::view::tree::Drawing;

const DRAWING: Drawing<'static> = Drawing { width: Some(80), ..PLAIN };

fn lost(error: &str) -> Lost {
    Lost { since: "2030-01-01T11:59:48Z".parse().unwrap(), error: error.to_owned() }
}

fn press(view: &mut View, code: KeyCode, overview: &Overview) -> Effect {
    view.key(KeyEvent::new(code, KeyModifiers::NONE), overview)
}

fn text(page: &Page) -> String {
    [&page.top, &page.middle, &page.bottom].map(|lines| lines.join("\n")).join("\n")
}

/// A rollout of 500 pods, paused before a pod with 47 of them updated.
fn large() -> Overview {
    let old =
        (0..453).map(|number| Pod { name: format!("web-5d9c7b8c4d-{number:04}"), ..pod("web:1", "", "n1") });
    let new =
        (0..47).map(|number| Pod { name: format!("web-7f6d9b8c4d-{number:04}"), ..pod("web:2", "", "n2") });
    let mut pods: Vec<Pod> = old.chain(new).collect();
    pods[0] = pods[0].clone().pause("before").priority(9);
    let paused = paused_before(&pods[0]);
    overview(&observed_state(500, "web:2", &paused, &pods))
}

/// A small object of that name.
fn small(name: &str) -> Overview {
    let state = observed_state(1, "web:1", &at_revision(1), &[pod("web:1", "bbbbbbbb", "n1")]);
    Overview { name: name.to_owned(), ..overview(&state) }
}

#[test]
fn a_large_rollout_shows_its_state_its_pause_and_what_goes_next_on_a_small_terminal() {
    let all = large();
    let mut view = View::new(false);
    let page = view.page(&all, None, DRAWING, 24);
    assert_eq!(page.top.len() + page.middle.len() + page.bottom.len(), 24);
    let top = page.top.join("\n");
    for part in [
        "● connected",
        "paused at a pause point",
        "453 old, 47 new",
        "resume with",
        "next after the pause: web-",
    ] {
        assert!(top.contains(part), "{part}: {top}");
    }
    // The pods of the new revision are folded.
    assert!(!text(&page).contains("web-7f6d9b8c4d-0"), "{}", text(&page));
    // It scrolls to the end and not further.
    press(&mut view, KeyCode::End, &all);
    let end = view.page(&all, None, DRAWING, 24);
    assert!(end.middle.last().unwrap().contains("438 more pods"), "{}", text(&end));
    assert_eq!(end.top, page.top, "the top stays");
    press(&mut view, KeyCode::Down, &all);
    assert_eq!(view.page(&all, None, DRAWING, 24).middle, end.middle);
    // All pods on request.
    press(&mut view, KeyCode::Char('a'), &all);
    press(&mut view, KeyCode::End, &all);
    view.page(&all, None, DRAWING, 24);
    press(&mut view, KeyCode::End, &all);
    let end = view.page(&all, None, DRAWING, 24);
    assert!(end.middle.iter().any(|line| line.contains("web-5d9c7b8c4d-")), "{}", text(&end));
}

#[test]
fn a_resume_is_confirmed_and_names_the_pause_point() {
    let all = large();
    let mut view = View::new(false);
    assert_eq!(press(&mut view, KeyCode::Char('r'), &all), Effect::None);
    let asked = view.page(&all, None, DRAWING, 24).bottom.join("\n");
    assert_eq!(asked, "pass pause point web-5d9c7b8c4d-0000@2 of web? y/n");
    assert_eq!(press(&mut view, KeyCode::Char('n'), &all), Effect::None);
    press(&mut view, KeyCode::Char('r'), &all);
    let expected = Effect::Resume("web-5d9c7b8c4d-0000@2".to_owned());
    assert_eq!(press(&mut view, KeyCode::Char('y'), &all), expected);
    view.done(Done::Message("web: passed web-5d9c7b8c4d-0000@2; the rollout continues".to_owned()));
    assert!(view.page(&all, None, DRAWING, 24).bottom[0].contains("the rollout continues"));
    // Nothing to resume.
    let idle = small("api");
    let mut view = View::new(false);
    press(&mut view, KeyCode::Char('r'), &idle);
    assert_eq!(view.page(&idle, None, DRAWING, 24).bottom[0], "api is not paused at a pause point");
}

#[test]
fn a_filter_shows_all_pods_that_match() {
    let all = large();
    let mut view = View::new(false);
    press(&mut view, KeyCode::Char('/'), &all);
    for c in "8c4d-0452q".chars() {
        // `q` is part of the text here.
        assert_eq!(press(&mut view, KeyCode::Char(c), &all), Effect::None);
    }
    press(&mut view, KeyCode::Backspace, &all);
    press(&mut view, KeyCode::Enter, &all);
    let page = view.page(&all, None, DRAWING, 24);
    let pods: Vec<&String> = page.middle.iter().filter(|line| line.contains("web-5d9c7b8c4d-")).collect();
    assert!(pods.len() == 1 && pods[0].contains("-0452"), "{}", text(&page));
    assert!(page.bottom[0].contains("filter: 8c4d-0"), "{:?}", page.bottom);
    press(&mut view, KeyCode::Esc, &all);
    assert!(!view.page(&all, None, DRAWING, 24).bottom[0].contains("filter: 8c4d"));
}

#[test]
fn a_lost_connection_is_the_first_line() {
    let all = large();
    let mut view = View::new(false);
    let page = view.page(&all, Some(&lost("connection refused")), DRAWING, 24);
    assert!(page.top[0].starts_with("✖ connection lost for 12s, reconnecting"), "{:?}", page.top[0]);
    assert!(page.top[0].chars().count() <= 80);
}

#[test]
fn a_plan_replaces_the_pods_until_it_is_closed() {
    let all = large();
    let mut view = View::new(false);
    assert_eq!(press(&mut view, KeyCode::Char('p'), &all), Effect::Plan);
    view.done(Done::Plan("first\nsecond\n".to_owned()));
    let page = view.page(&all, None, DRAWING, 24);
    assert_eq!(page.middle, ["first", "second"]);
    press(&mut view, KeyCode::Esc, &all);
    assert!(view.page(&all, None, DRAWING, 24).middle.len() > 2);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut hostile = small("web");
    hostile.name = "web\u{1b}[2J".to_owned();
    let mut view = View::new(false);
    let mut terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
    let style = Style { color: true, unicode: true };
    terminal
        .draw(|frame| {
            let page =
                view.page(&hostile, Some(&lost("\u{1b}]0;owned\u{7}")), Drawing { style, ..DRAWING }, 12);
            draw(frame, &page);
        })
        .unwrap();
    let shown: String =
        terminal.backend().buffer().content().iter().map(ratatui::buffer::Cell::symbol).collect();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    assert!(shown.contains("connection lost") && shown.contains("web"), "{shown:?}");
}

#[test]
fn any_size_and_any_keys_work() {
    let codes = [
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Enter,
        KeyCode::Char('/'),
        KeyCode::Char('x'),
        KeyCode::Enter,
        KeyCode::Char('a'),
        KeyCode::Up,
        KeyCode::PageUp,
        KeyCode::Char('r'),
        KeyCode::Char('n'),
        KeyCode::Char('p'),
        KeyCode::Home,
        KeyCode::Esc,
    ];
    for overview in [large(), small("a")] {
        let mut view = View::new(false);
        for (step, code) in codes.iter().cycle().take(60).enumerate() {
            press(&mut view, *code, &overview);
            let (width, height) = (1 + (step * 7) % 120, 1 + (step * 5) % 40);
            let page = view.page(&overview, None, Drawing { width: Some(width), ..DRAWING }, height);
            assert!(!page.top.is_empty() && !page.bottom.is_empty());
        }
    }
}

#[test]
fn a_question_and_a_message_end_with_their_pause_point() {
    let held = large();
    let mut view = View::new(false);
    view.page(&held, None, DRAWING, 24);
    press(&mut view, KeyCode::Char('r'), &held);
    let point = held.hold.as_ref().expect("it is held");
    let asked = format!("pass pause point {} of web? y/n", point.id);
    assert_eq!(view.page(&held, None, Drawing { width: None, ..DRAWING }, 24).bottom, [asked]);
    // Somebody else resumes it.
    let mut next = large();
    next.hold.as_mut().expect("it is held").id = "other@2".to_owned();
    view.done(Done::Message("the rollout continues".to_owned()));
    let page = view.page(&next, None, DRAWING, 24);
    assert_eq!(page.bottom.len(), 1, "{page:?}");
    assert!(page.bottom[0].starts_with("q quit"), "{page:?}");
}

#[test]
fn the_screen_says_how_much_is_below() {
    let all = large();
    let mut view = View::new(true);
    let page = view.page(&all, None, DRAWING, 24);
    let whole: usize = 1 + view.page(&all, None, DRAWING, 10_000).middle.len();
    let last = page.middle.last().unwrap();
    let below = whole - page.middle.len();
    assert_eq!(*last, format!("↓ {below} more lines"));
    view.page(&all, None, DRAWING, 24);
    press(&mut view, KeyCode::End, &all);
    assert!(!text(&view.page(&all, None, DRAWING, 24)).contains("more lines"));
}
