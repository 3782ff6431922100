//! Options of the built-in policies.

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident = $default:expr,)*) => {
        /// Options of the built-in policies; each reads its own. Times are ticks of the logical clock,
        /// a few for each request.
        #[derive(Debug, Clone, Copy)]
        pub struct PolicyOptions {
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Default for PolicyOptions {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl PolicyOptions {
            /// Sets the option of that name; false if there is none.
            pub fn set(&mut self, name: &str, value: u32) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

options! {
    /// slru, slru-decay: uses from which a block is protected.
    protected_uses = 2,
    /// slru-decay: ticks after a use that counts in which no other does.
    debounce_ticks = 4,
    /// slru-decay: ticks without a use after which a block is no longer protected.
    decay_ticks = 600,
    /// slru-lists: share of the blocks that may be protected.
    protected_percent = 80,
    /// lfu-aged: after how long a use counts half.
    half_life_ticks = 4_096,
    /// wlfu: how much later the last use seems for each factor of e in hits.
    bonus_ticks = 1_000,
    /// gdsf, cost, marconi, belady-compute: blocks before one for which attention takes as much as all the rest.
    attention_blocks = 2_048,
    /// marconi: what the cost to compute a block again weighs beside recency.
    alpha_percent = 1,
    /// ttl: how long blocks of sessions live.
    session_ticks = 100_000,
    /// ttl: how long other blocks live.
    one_shot_ticks = 1_000,
    /// 2q: share of the blocks for what was used once.
    in_percent = 25,
    /// 2q: remembered keys of what was used once, in per cent of the blocks.
    out_percent = 50,
    /// s3-fifo: share of the blocks of the small queue.
    small_percent = 10,
    /// w-tinylfu: share of the blocks of the window.
    window_percent = 1,
    /// lirs: share of the blocks for those with a long time between uses.
    hir_percent = 1,
    /// mq: block accesses without a use after which a block moves a queue down.
    lifetime = 10_000,
}
