//! The blocks of each tenant, counted as they move.

use super::{Amount, OTHERS, Tenant};
use crate::pool::BlockId;

/// What happened to a tenant, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// Requests allocated.
    pub requests: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Of these, found in the cache.
    pub hit_tokens: u64,
    /// Requests and growth that found no room.
    pub refused: u64,
    /// Of its blocks, evicted for its own sake.
    pub evicted: u64,
    /// Of its blocks, evicted for another tenant's sake or ahead of need.
    pub evicted_for_others: u64,
}

/// What a tenant has, and may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Its blocks.
    pub used: u32,
    /// Of these, findable and not owned.
    pub cached: u32,
    /// What no other tenant can take from it.
    pub floor: u32,
    /// The most that it has.
    pub quota: u32,
    /// Blocks that its sequences were promised and have not taken yet.
    pub promised: u64,
    /// What happened to it.
    pub counts: TenantCounts,
}

impl Account {
    /// Blocks with an owner.
    pub fn owned(&self) -> u32 {
        self.used - self.cached
    }

    /// What others have to leave it.
    fn spoken(&self) -> u64 {
        u64::from(self.owned().max(self.floor))
    }

    /// The same with what its sequences were promised.
    fn spoken_and_promised(&self) -> u64 {
        (u64::from(self.owned()) + self.promised).max(self.floor.into())
    }

    /// How far it is above its floor, if blocks of it may be evicted for others.
    fn excess(&self) -> Option<u32> {
        (self.cached > 0 && self.used > self.floor).then(|| self.used - self.floor)
    }
}

/// Whose block each is, and what each tenant has of them.
#[derive(Debug)]
pub struct Ledger {
    /// By block: its tenant's number; of a block that is free, the last one's.
    column: Vec<u8>,
    pub(super) accounts: Vec<Account>,
    pub(super) amounts: Vec<(Amount, Option<Amount>)>,
    pub(super) usable: u32,
    /// Whose operation it is.
    serving: u8,
    /// Whose public blocks are.
    public: Option<u8>,
    /// Who loses the next block, where that was settled before.
    losing: Option<u8>,
    /// Whether some tenant may have more than its quota, which was lowered.
    pub(super) above: bool,
    /// What all have to leave to all others.
    spoken: u64,
    /// The same with what was promised.
    pub(super) promised: u64,
}

/// A tenant that loses the next block for `tenant`: itself from its quota on, else the one furthest above its
/// floor; of equals itself, then the first.
fn loser(accounts: &[Account], tenant: usize) -> Option<usize> {
    let own = accounts[tenant];
    let itself = || (own.cached > 0).then_some(tenant);
    if own.used >= own.quota {
        return itself();
    }
    let above = accounts.iter().enumerate().filter_map(|(at, account)| {
        account.excess().map(|excess| ((excess, at == tenant, usize::MAX - at), at))
    });
    above.max().map(|(_, at)| at).or_else(itself)
}

/// What all have to leave to all others, and the same with what was promised.
pub(super) fn sums(accounts: &[Account]) -> (u64, u64) {
    let spoken = accounts.iter().map(Account::spoken).sum();
    (spoken, accounts.iter().map(Account::spoken_and_promised).sum())
}

impl Ledger {
    /// Of an empty pool of `usable` blocks.
    pub fn new(tenants: &[Tenant], usable: u32) -> Self {
        let amounts = tenants.iter().map(|tenant| (tenant.floor, tenant.quota));
        let amounts: Vec<_> = std::iter::once((Amount::Blocks(0), None)).chain(amounts).collect();
        let mut ledger = Self {
            column: Vec::new(),
            accounts: vec![Account::default(); amounts.len()],
            amounts,
            usable,
            serving: OTHERS,
            public: super::public_of(tenants),
            losing: None,
            above: false,
            spoken: 0,
            promised: 0,
        };
        ledger.resize(usable);
        ledger
    }

    /// The pool has so many usable blocks from now on.
    pub fn resize(&mut self, usable: u32) {
        self.usable = usable;
        for (account, (floor, quota)) in self.accounts.iter_mut().zip(&self.amounts) {
            account.floor = floor.of(usable);
            account.quota = quota.map_or(u32::MAX, |quota| quota.of(usable));
        }
        (self.spoken, self.promised) = self.sums();
        self.note_above();
    }

    /// What all would have to leave to all others of `usable` blocks.
    pub fn spoken_of(&self, usable: u32) -> u64 {
        let accounts = self.accounts.iter().zip(&self.amounts);
        accounts.map(|(own, (floor, _))| u64::from(own.owned().max(floor.of(usable)))).sum()
    }

    fn sums(&self) -> (u64, u64) {
        sums(&self.accounts)
    }

    /// Whose block it is.
    #[inline]
    pub fn tenant(&self, block: BlockId) -> u8 {
        self.column.get(block as usize).copied().unwrap_or(OTHERS)
    }

    /// What each has, by number.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Whose operation it is.
    #[inline]
    pub fn serving(&self) -> u8 {
        self.serving
    }

    /// The operation is of `tenant` from now on: what it takes is that tenant's.
    #[inline]
    pub fn serve(&mut self, tenant: u8) {
        self.serving = tenant;
    }

    /// What happened to `tenant`, to count more.
    pub fn counts_mut(&mut self, tenant: u8) -> &mut TenantCounts {
        &mut self.accounts[tenant as usize].counts
    }

    #[inline]
    fn change(&mut self, tenant: u8, change: impl FnOnce(&mut Account)) {
        let account = &mut self.accounts[tenant as usize];
        let (spoken, promised) = (account.spoken(), account.spoken_and_promised());
        change(account);
        self.spoken = self.spoken - spoken + account.spoken();
        self.promised = self.promised - promised + account.spoken_and_promised();
    }

    // --- blocks move ----------------------------------------------------------------------------

    /// A free block was taken for the tenant that is served.
    pub fn took(&mut self, block: BlockId) {
        let at = block as usize;
        if self.column.len() <= at {
            self.column.resize(at + 1, OTHERS);
        }
        self.column[at] = self.serving;
        self.change(self.serving, |account| account.used += 1);
    }

    /// A block without an owner, and not findable, is free.
    pub fn freed(&mut self, block: BlockId) {
        self.change(self.tenant(block), |account| account.used -= 1);
    }

    /// Whose public blocks are, if any are told apart.
    pub fn public(&self) -> Option<u8> {
        self.public
    }

    /// A block that has an owner becomes a public one, as long as these have no more than their floor: no other tenant
    /// has less room for it. False, and nothing changes, if they have that.
    pub fn give_to_all(&mut self, block: BlockId) -> bool {
        let Some(public) = self.public else { return false };
        let (from, account) = (self.tenant(block), &self.accounts[public as usize]);
        if account.used >= account.floor {
            return false;
        }
        if from != public {
            self.change(from, |account| account.used -= 1);
            self.change(public, |account| account.used += 1);
            self.column[block as usize] = public;
        }
        true
    }

    /// The last owner of a findable block left.
    pub fn cached(&mut self, block: BlockId) {
        self.change(self.tenant(block), |account| account.cached += 1);
    }

    /// A cached block got an owner, or is not findable any more.
    pub fn uncached(&mut self, block: BlockId) {
        self.change(self.tenant(block), |account| account.cached -= 1);
    }

    /// The sequences of `tenant` were promised `more` blocks, and `less` of those they were promised have
    /// been taken or are not needed.
    pub fn promise(&mut self, tenant: u8, more: u32, less: u32) {
        self.change(tenant, |account| {
            account.promised = account.promised + u64::from(more) - u64::from(less);
        });
    }

    // --- what may be had ------------------------------------------------------------------------

    /// Blocks that `tenant` can get now, its own cached ones among them.
    pub fn available(&self, tenant: u8) -> u32 {
        let own = &self.accounts[tenant as usize];
        let left = u64::from(self.usable)
            .saturating_sub(self.promised - own.spoken_and_promised())
            .saturating_sub(own.owned().into()) as u32;
        // Its floor it can have whatever others were promised.
        let left = left.max(own.floor.saturating_sub(own.owned()));
        left.min(own.quota.saturating_sub(own.owned()))
    }

    /// The most blocks that `tenant` can ever own.
    pub fn most(&self, tenant: u8) -> u32 {
        let others = self.accounts.iter().enumerate().filter(|&(at, _)| at != tenant as usize);
        let floors = others.map(|(_, account)| u64::from(account.floor)).sum::<u64>();
        let left = u64::from(self.usable).saturating_sub(floors) as u32;
        left.min(self.accounts[tenant as usize].quota)
    }

    /// Free blocks that the tenant that is served takes before it has its quota.
    pub fn left(&self) -> u32 {
        let own = &self.accounts[self.serving as usize];
        own.quota.saturating_sub(own.used)
    }

    /// Whether the tenant that is served has its quota: it takes no free block.
    #[inline]
    pub fn at_quota(&self) -> bool {
        self.left() == 0
    }

    /// Free blocks as the tenant that is served has them: up to its floor they do not depend on others.
    pub fn room(&self, free: u32) -> u32 {
        let own = &self.accounts[self.serving as usize];
        match own.floor.checked_sub(own.used) {
            Some(left) if own.floor > 0 => left,
            _ => free.min(self.left()),
        }
    }

    /// All blocks, as the tenant that is served has them.
    pub fn total(&self) -> u32 {
        self.usable.min(self.accounts[self.serving as usize].quota)
    }

    /// A [`Ledger::plan`] is being carried out: this tenant loses blocks, until `None`.
    pub fn set_losing(&mut self, tenant: Option<u8>) {
        self.losing = tenant;
    }

    /// `block` was evicted, for the sake of the tenant that is served, of its quota, or `ahead` of need.
    pub fn lost(&mut self, block: BlockId, ahead: bool) {
        let tenant = self.tenant(block);
        let account = &self.accounts[tenant as usize];
        let own = (tenant == self.serving && !ahead) || account.used > account.quota;
        let counts = self.counts_mut(tenant);
        if own {
            counts.evicted += 1;
        } else {
            counts.evicted_for_others += 1;
        }
    }

    /// The tenant that loses the next block for the one that is served.
    pub fn loser(&self) -> Option<u8> {
        if self.losing.is_some() {
            return self.losing;
        }
        loser(&self.accounts, self.serving as usize).map(|at| at as u8)
    }

    /// Blocks that may be evicted ahead of need.
    pub fn evictable(&self) -> u32 {
        let above = |account: &Account| account.excess().map_or(0, |n| n.min(account.cached));
        self.accounts.iter().map(above).sum()
    }

    /// How many blocks each loses if `tenant` takes `needed` of which `free` are free, and owns `acquired`
    /// cached ones of its own before that.
    pub fn plan(&self, tenant: u8, needed: u32, acquired: u32, mut free: u32) -> Vec<u32> {
        let (mut accounts, at) = (self.accounts.clone(), tenant as usize);
        let mut plan = vec![0; accounts.len()];
        accounts[at].cached = accounts[at].cached.saturating_sub(acquired);
        for _ in 0..needed {
            if free > 0 && accounts[at].used < accounts[at].quota {
                free -= 1;
            } else if let Some(loser) = loser(&accounts, at) {
                plan[loser] += 1;
                accounts[loser].used -= 1;
                accounts[loser].cached -= 1;
            }
            accounts[at].used += 1;
        }
        plan
    }

    /// Tenants in the order in which they would lose all that is cached of them, ahead of need and then
    /// below their floors.
    pub fn losers(&self) -> Vec<u8> {
        let mut accounts = self.accounts.clone();
        let cached = accounts.iter().map(|account| account.cached as usize).sum();
        let mut losers = Vec::with_capacity(cached);
        while losers.len() < cached {
            let below = || accounts.iter().position(|account| account.cached > 0);
            let above = accounts.iter().enumerate().filter_map(|(at, account)| {
                account.excess().map(|excess| ((excess, usize::MAX - at), at))
            });
            let Some(at) = above.max().map(|(_, at)| at).or_else(below) else { break };
            accounts[at].used -= 1;
            accounts[at].cached -= 1;
            losers.push(at as u8);
        }
        losers
    }

    /// How many blocks each loses if `n` are evicted ahead of need.
    pub fn losses(&self, n: u32) -> Vec<u32> {
        let mut losses = vec![0; self.accounts.len()];
        self.losers().into_iter().take(n as usize).for_each(|at| losses[at as usize] += 1);
        losses
    }

    /// Whether the counts are those of the blocks, given as (block, findable and not owned).
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub fn validate(&self, taken: impl Iterator<Item = (BlockId, bool)>) -> Result<(), String> {
        let mut counted = vec![(0, 0); self.accounts.len()];
        for (block, cached) in taken {
            let (used, all_cached) = &mut counted[self.tenant(block) as usize];
            *used += 1;
            *all_cached += u32::from(cached);
        }
        for (at, (account, counted)) in self.accounts.iter().zip(counted).enumerate() {
            let kept = (account.used, account.cached);
            if kept != counted {
                return Err(format!("tenant {at}: {counted:?} used and cached, {kept:?} counted"));
            }
        }
        if (self.spoken, self.promised) != self.sums() {
            return Err(format!("tenants: the sums are {:?}, kept {}", self.sums(), self.spoken));
        }
        if self.spoken > self.usable.into() {
            let (spoken, usable) = (self.spoken, self.usable);
            return Err(format!("tenants: {spoken} of {usable} blocks owned or below a floor"));
        }
        Ok(())
    }
}
