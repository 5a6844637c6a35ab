//! Resumes in time, too early, too late, and such as name nothing.

use rand::rngs::StdRng;
use serde_json::json;

use super::story::{Draw, NOTHING, Story};
use crate::case::{Act, Case, Pick, Resumption};

/// Four pods in a line, with points before the second and the fourth.
fn two_points(name: &str, draw: &mut Draw<'_>) -> Story {
    let spec = json!({"strategy": draw.bounds()});
    let points = [draw.of(&["before", "after"]), draw.of(&["before", "true"])];
    Story::of(name, draw, &spec)
        .ranked(4)
        .point(Pick::Any(1), points[0])
        .point(Pick::Any(3), points[1])
        .rollout(draw)
}

fn resume(resumption: Resumption) -> Act {
    Act::Resume(resumption)
}

/// For a hold that is not there yet: dropped, and it comes all the same.
pub(super) fn early(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-early", draw)
        .after(draw.pause(0), resume(Resumption::At(Pick::Old(1))))
        .held(resume(Resumption::At(Pick::Old(1))))
        .after(draw.pause(3000), NOTHING)
        .resumed()
        .after(20_000, resume(Resumption::Current))
        .end()
}

/// The second asks for what is passed already.
pub(super) fn twice(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-twice", draw)
        .resumed()
        .after(draw.pause(0), resume(Resumption::Earlier))
        .after(draw.pause(200), resume(Resumption::Earlier))
        .after(20_000, NOTHING)
        .resumed()
        .end()
}

/// The id of the hold before must not lift this one.
pub(super) fn stale(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-stale", draw)
        .resumed()
        .after(20_000, NOTHING)
        .held(resume(Resumption::Earlier))
        .after(draw.pause(3000), NOTHING)
        .resumed()
        .end()
}

/// This point and all later ones.
pub(super) fn all(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-all", draw)
        .held(resume(Resumption::Text(draw.of(&["*@1", "*@3", "*"]).to_owned())))
        .after(draw.pause(2000), NOTHING)
        .held(resume(Resumption::All))
        .end()
}

pub(super) fn garbage(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let texts = ["", "@", "nothing@2", "web@2", "*@99999999999999999999", "*@２", "\u{0}", " ", "x@2\n*@2"];
    two_points("resume-garbage", draw)
        .held(resume(Resumption::Text(draw.of(&texts[1..]).to_owned())))
        .after(draw.pause(500), resume(Resumption::Text(draw.of(&texts).to_owned())))
        .after(draw.pause(2000), NOTHING)
        .held(resume(Resumption::All))
        .end()
}

/// Asked again and again while the next hold comes.
pub(super) fn racing(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let story = two_points("resume-racing", draw).resumed();
    let story = (0..6).fold(story, |story, _| {
        story
            .after(draw.pause(700), resume(Resumption::Earlier))
            .after(draw.pause(0), resume(Resumption::At(Pick::Old(0))))
    });
    story.after(20_000, resume(Resumption::Current)).after(20_000, resume(Resumption::Current)).end()
}
