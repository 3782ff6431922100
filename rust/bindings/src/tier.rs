//! `TierPolicy`: the blocks of a tier without prefixes, under one policy.

use kvframe_core::hash::Key;
use kvframe_core::policy::RemovalCause;
use kvframe_core::sequence::Meta;
use kvframe_core::tier::{RequestInfo, TierPolicy as Core};
use pyo3::inspect::{PyStaticExpr, PyStaticOperator};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyInt};

use crate::args::{
    BlockSize, Blocks, Depth, Outlook, Priority, RequestClass, Session, TokenCount, Turn, Victims,
};
use crate::policy::eviction::make_policy;
use crate::policy::host::PolicyHost;

/// (session, turn, class, priority, tokens, next uses) of the request that uses blocks.
pub type KnownTuple = (Session, Turn, RequestClass, Priority, TokenCount, Outlook);

/// The core of a tier as the package sees it; `kvframe.tier.TierPolicy` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TierPolicy {
    core: PolicyHost<Core>,
}

/// What is known of the request that uses blocks: all of that, or no more than its tokens, which is
/// read in no time.
pub enum Using {
    Tokens(TokenCount),
    Known(KnownTuple),
}

impl Using {
    pub fn info(&self) -> RequestInfo<'_> {
        match self {
            Self::Tokens(tokens) => RequestInfo { tokens: tokens.0, ..RequestInfo::default() },
            Self::Known(told) => known(told),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Using {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = PyStaticExpr::BinOp {
        left: &<u32 as FromPyObject<'a, 'py>>::INPUT_TYPE,
        op: PyStaticOperator::BitOr,
        right: &<KnownTuple as FromPyObject<'a, 'py>>::INPUT_TYPE,
    };

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match value.cast::<PyInt>() {
            Ok(_) => value.extract().map(Self::Tokens),
            Err(_) => value.extract().map(Self::Known),
        }
    }
}

/// As the core has it.
pub fn known((session, turn, class, priority, tokens, outlook): &KnownTuple) -> RequestInfo<'_> {
    let (session, turn, class, priority) = (session.0, turn.0, class.0, priority.0);
    let meta = Meta { session, turn, class, priority, ..Meta::default() };
    RequestInfo { meta, tokens: tokens.0, next_use: &outlook.0 }
}

#[pymethods]
impl TierPolicy {
    /// An empty tier; `policy` is a built-in's name or a driver. Without `blocks` it has no fixed
    /// capacity and grows on demand.
    #[new]
    #[pyo3(signature = (*, blocks, block_size, policy, policy_options=None))]
    fn new(
        py: Python<'_>,
        blocks: Option<Blocks>,
        block_size: BlockSize,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let made = make_policy(py, policy, policy_options)?;
        let core = PolicyHost::new(py, "tier", made, |eviction| match blocks {
            Some(blocks) => Core::new(blocks.0, block_size.0, eviction),
            None => Core::growing(block_size.0, eviction),
        })?;
        Ok(Self { core })
    }

    /// Blocks under these 16-byte digests are about to be got.
    fn on_miss(&self, py: Python<'_>, digests: Vec<[u8; 16]>) -> PyResult<()> {
        let keys: Vec<Key> = digests.into_iter().map(|d| Key(u128::from_le_bytes(d))).collect();
        self.core.locked(py, |core| core.on_miss(&keys))
    }

    /// A block enters, owned once.
    fn insert(
        &self,
        py: Python<'_>,
        digest: [u8; 16],
        depth: Depth,
        using: KnownTuple,
    ) -> PyResult<u32> {
        self.core
            .with(py, |core| core.insert(Key(u128::from_le_bytes(digest)), depth.0, known(&using)))
    }

    /// An admission found blocks.
    fn hit(&self, py: Python<'_>, blocks: Vec<u32>, using: KnownTuple) -> PyResult<()> {
        self.core.with(py, |core| core.hit(&blocks, known(&using)))
    }

    /// Blocks become recent without a use.
    fn refresh(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.refresh(&blocks))
    }

    /// An owner more for each.
    fn acquire(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.acquire(&blocks))
    }

    /// An owner less for each.
    fn release(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.release(&blocks))
    }

    /// Blocks leave; `evicted` as if they had been victims.
    fn remove(&self, py: Python<'_>, blocks: Vec<u32>, evicted: bool) -> PyResult<()> {
        let why = if evicted { RemovalCause::Evicted } else { RemovalCause::Invalidated };
        self.core.with(py, |core| core.remove(&blocks, why))
    }

    /// The next to be evicted, which have left; None if there are fewer.
    fn victims(&self, py: Python<'_>, n: Victims, spared: Vec<u32>) -> PyResult<Option<Vec<u32>>> {
        self.core.with_victims(py, |core| core.victims(n.0, &spared))
    }

    /// The next to be evicted, which stays.
    fn next(&self, py: Python<'_>, spared: Vec<u32>) -> PyResult<Option<u32>> {
        self.core.with_victims(py, |core| core.next(&spared))
    }

    /// Blocks without an owner, in the order in which they would be evicted now. A policy outside
    /// the core is asked for that order.
    fn order(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.core.order(py, |tier| tier, u32::MAX)
    }

    /// (free, cached, referenced) blocks.
    fn counts(&self, py: Python<'_>) -> PyResult<(u32, u32, u32)> {
        self.core
            .locked(py, |core| (core.pool().free(), core.pool().cached(), core.pool().referenced()))
    }

    /// Another capacity.
    fn resize(&self, py: Python<'_>, blocks: Blocks) -> PyResult<()> {
        self.core.with(py, |core| core.resize(blocks.0))
    }

    /// Decisions that the built-in order took for a policy that failed.
    fn failures(&self) -> u64 {
        self.core.outside().failures()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
