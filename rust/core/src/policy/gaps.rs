//! What is known of reuse gaps: per class of blocks, how likely an idle block is used again at each
//! age, and from that what keeping it is worth.

/// Ages are told apart in quarters of a power of two.
const STEPS: u64 = 4;
/// Ages up to 2^40 block accesses.
pub(super) const BUCKETS: usize = 40 * STEPS as usize;

/// The bucket of an age in block accesses.
pub(super) fn bucket(age: u64) -> usize {
    let age = age.max(1);
    let octave = u64::from(age.ilog2());
    let step = if octave < 2 { 0 } else { (age >> (octave - 2)) & (STEPS - 1) };
    ((octave * STEPS + step) as usize).min(BUCKETS - 1)
}

/// Where a bucket ends, in block accesses.
fn end(bucket: usize) -> f64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    (octave as f64).exp2() * (1.0 + (step + 1) as f64 / STEPS as f64)
}

/// Blocks of a class by the ages at which they were idle.
#[derive(Debug, Clone)]
struct Class {
    /// How many more came to an age idle than to the one before it.
    more: Vec<f32>,
    /// How many were used at that age.
    used: Vec<f32>,
    worth: Vec<f32>,
}

/// The books of all classes.
#[derive(Debug, Clone)]
pub(super) struct Gaps {
    classes: Vec<Class>,
    /// Prior: how many blocks of all classes together count as one of each.
    trust: f32,
    seen: f64,
    due: f64,
}

impl Gaps {
    pub fn new(classes: usize, trust: f32) -> Self {
        let class = || Class {
            more: vec![0.0; BUCKETS + 1],
            used: vec![0.0; BUCKETS],
            worth: vec![0.0; BUCKETS],
        };
        Self { classes: (0..classes).map(|_| class()).collect(), trust, seen: 0.0, due: 0.0 }
    }

    /// A block was idle in the buckets from `from` to `until`, and was used there or seen there.
    pub fn note(&mut self, class: usize, from: usize, until: usize, used: bool) {
        let class = &mut self.classes[class];
        class.more[from] += 1.0;
        class.more[until + 1] -= 1.0;
        class.used[until] += f32::from(u8::from(used));
    }

    /// Another block of news; whether it is time to look through all.
    pub fn is_due(&mut self, every: f64) -> bool {
        self.seen += 1.0;
        let due = self.seen >= self.due;
        if due {
            self.due = self.seen + every;
        }
        due
    }

    /// What keeping a block of that class and age is worth: uses an access of time it takes up.
    pub fn worth(&self, class: usize, age: u64) -> f32 {
        self.classes[class].worth[bucket(age)]
    }

    /// Brings `worth` up to date, and then forgets a share of it all.
    pub fn refresh(&mut self, keep: f32) {
        let idle = |class: &Class| {
            let mut sum = 0.0;
            class.more[..BUCKETS]
                .iter()
                .map(|n| {
                    sum += n;
                    sum.max(0.0)
                })
                .collect::<Vec<f32>>()
        };
        let idles: Vec<Vec<f32>> = self.classes.iter().map(idle).collect();
        let mut base = [0.0f32; BUCKETS];
        for (b, base) in base.iter_mut().enumerate() {
            let used: f32 = self.classes.iter().map(|c| c.used[b]).sum();
            let idle: f32 = idles.iter().map(|i| i[b]).sum();
            *base = used / (idle + 1.0);
        }
        for (class, idle) in self.classes.iter_mut().zip(&idles) {
            let mut hazard = [0.0; BUCKETS];
            for (b, hazard) in hazard.iter_mut().enumerate() {
                *hazard = (class.used[b] + self.trust * base[b]) / (idle[b] + self.trust);
            }
            for from in 0..BUCKETS {
                class.worth[from] = index(&hazard, from);
            }
            class.more.iter_mut().chain(&mut class.used).for_each(|n| *n *= keep);
        }
    }
}

/// The most uses an access of time that waiting can bring, over all times to wait (Gittins' index).
fn index(hazard: &[f32; BUCKETS], from: usize) -> f32 {
    let (mut best, mut left, mut uses, mut time) = (0.0f64, 1.0, 0.0, 0.0);
    let mut start = if from == 0 { 0.0 } else { end(from - 1) };
    for (b, &h) in hazard.iter().enumerate().skip(from) {
        let width = end(b) - start;
        start = end(b);
        let hit = left * f64::from(h);
        uses += hit;
        time += (left - hit / 2.0) * width;
        left -= hit;
        best = best.max(uses / time);
        if left < 0.01 {
            break;
        }
    }
    best as f32
}
