//! The whole manager by arbitrary verbs: no panic, typed refusals that change nothing, a sound state
//! after each, and what is said of a request holds for it alone in a pool.
#![no_main]

#[path = "step/alone.rs"]
mod alone;
#[path = "../../core/tests/common/mod.rs"]
mod common;
#[path = "step/held.rs"]
mod held;
#[path = "step/request.rs"]
mod request;
#[path = "step/verbs.rs"]
mod verbs;
#[path = "step/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: verbs::Input| {
    let Some(mut world) = world::World::new(&input.setup) else { return };
    for verb in &input.verbs {
        world.act(verb);
    }
});
