//! When the registry is listed.

use super::*;

/// How often a node lists the registry from one moment to another, with a feed that ends as soon as it is opened.
fn lists(node: &mut Node, from: i64, to: i64) -> usize {
    let mut lists = 0;
    for ms in from..to {
        let now = Now { mono: Mono(ms), wall: Wall(ms) };
        let mut inputs = Vec::from([Input::Tick]);
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            node.step(now, input, &mut effects);
            for _ in effects.iter().filter(|effect| matches!(effect, Effect::List)) {
                lists += 1;
                inputs.extend([Input::Gap, Input::Listed(Some(Store::default().list()))]);
            }
        }
    }
    lists
}

#[test]
fn a_feed_that_ends_whenever_it_is_opened_has_nobody_list_all_the_time() {
    let mut node = Node::new(settings("a"));
    assert_eq!(lists(&mut node, 0, 1_000), 5);
}

/// proves: S4-21
#[test]
fn a_feed_that_ends_after_a_while_is_made_good_at_once() {
    let mut node = Node::new(settings("a"));
    let now = |ms| Now { mono: Mono(ms), wall: Wall(ms) };
    let mut effects = Vec::new();
    node.step(now(0), Input::Listed(Some(Store::default().list())), &mut effects);
    effects.clear();
    node.step(now(1_000), Input::Gap, &mut effects);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::List)), "{effects:?}");
}

/// proves: S4-21
#[test]
fn a_listing_that_fails_is_tried_again_after_a_pause() {
    for is_first in [false, true] {
        let mut node = Node::new(settings("a"));
        let now = |ms| Now { mono: Mono(ms), wall: Wall(ms) };
        let mut effects = Vec::new();
        if is_first {
            node.step(now(1_000), Input::Tick, &mut effects);
        } else {
            node.step(now(0), Input::Listed(Some(Store::default().list())), &mut effects);
            node.step(now(1_000), Input::Gap, &mut effects);
        }
        assert!(effects.iter().any(|effect| matches!(effect, Effect::List)), "{effects:?}");
        effects.clear();
        let wake = node.step(now(1_010), Input::Listed(None), &mut effects).unwrap();
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::List)), "not at once: {effects:?}");
        assert!(wake.at <= Mono(2_000), "{wake:?}");
        node.step(now(2_000), Input::Tick, &mut effects);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::List)), "{effects:?}");
    }
}
