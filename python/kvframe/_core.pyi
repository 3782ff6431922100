"""
kvframe's compiled core.
"""

from _typeshed import Incomplete, SupportsGetItem, SupportsLenAndGetItem
from os import PathLike
from typing import Any, Final, SupportsFloat, SupportsIndex, final
from typing_extensions import disjoint_base

@final
class BlockQueue:
    """
    The core of a queue as the package sees it; `kvframe.block_queue.BlockQueue` is the face for users.
    """
    def __new__(
        cls,
        /,
        *,
        blocks: SupportsIndex,
        block_size: SupportsIndex,
        policy: Any,
        policy_options: dict | None = None,
        handles: SupportsGetItem[int, Any] | None = None,
    ) -> BlockQueue:
        """
        The queue of `blocks` blocks, which all have an owner; `policy` is a built-in's name or a driver.
        With `handles`, these objects stand for the blocks.
        """
    def adopt(self, /, other: BlockQueue) -> None:
        """
        Takes over what another queue of as many blocks holds; this one is new.
        """
    def available(self, /) -> int:
        """
        Blocks without an owner.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts the state.
        """
    def evictions(self, /) -> int:
        """
        Findable blocks that were taken for something else.
        """
    def failures(self, /) -> int:
        """
        Decisions that the built-in order took for a policy that failed.
        """
    def free(self, /, blocks: Any, empty: Any) -> None:
        """
        The last owner of each left; `empty` hold nothing any more.
        """
    def hit(
        self,
        /,
        blocks: Any,
        using: SupportsIndex
        | tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> None:
        """
        A request found blocks.
        """
    def insert(
        self,
        /,
        blocks: Any,
        keys: Any,
        depths: Any,
        using: SupportsIndex
        | tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> None:
        """
        Owned blocks became findable, each under a key of any length; one without a key is passed over.
        """
    def order(self, /) -> Any:
        """
        Blocks without an owner, in the order in which they would be taken now.
        """
    def remove(self, /, blocks: Any) -> None:
        """
        Blocks are not findable any more.
        """
    def take(self, /, n: SupportsIndex) -> Any:
        """
        The first `n` blocks, which have an owner now.
        """

@final
class Manager:
    """
    The core as the package sees it; `kvframe.KVCacheManager` is the face for users.
    """
    def __new__(cls, /, options: dict) -> Manager:
        """
        A manager over an empty pool. `options` has the keys of a configuration (`cache.block_size`),
        `groups`, and the policies: `eviction.policy` and `admission.policy`, each a built-in's name or
        a driver of a Python policy, `eviction.options` and `admission.options`, `prefix.matched`
        (whether Python answers lookups) and `prefix.mirrored` (whether from an index of its own).
        """
    def abort(self, /, seq: SupportsIndex, fence: SupportsIndex | None = None) -> None:
        """
        Ends a sequence and makes nothing more of it findable.
        """
    def add_pressure_callback(self, /, callback: Any) -> None:
        """
        Calls back with the level before and after each change.
        """
    def advance(
        self,
        /,
        seq: SupportsIndex,
        until: SupportsIndex,
        upto: SupportsIndex | None = None,
        keys: Any | None = None,
        computed: SupportsIndex | None = None,
    ) -> list[list[int]]:
        """
        Slots up to a length, keys of further full blocks, and a commit; returns the blocks that each
        group's table got.
        """
    def allocate(
        self,
        /,
        request: Request,
        chunk: SupportsIndex | None = None,
        until: SupportsIndex | None = None,
        partial: bool | None = None,
        resumed: bool | None = None,
        answer: tuple[Any | None, SupportsIndex | None] | None = None,
    ) -> tuple[int, int, int, int, int | None, bool, int, int, int | None]:
        """
        Admits a request; returns what `AllocationTuple` lists. Keywords override what the request says.
        """
    def append(self, /, seq: SupportsIndex, ids: Any) -> None:
        """
        Slots for tokens after everything known.
        """
    def append_placeholders(self, /, seq: SupportsIndex, count: SupportsIndex) -> None:
        """
        Slots for tokens whose ids come later.
        """
    def attach(
        self, /, seq: SupportsIndex, upto: SupportsIndex, handle: SupportsIndex
    ) -> int | None:
        """
        Attaches a handle to a prefix; returns the one it replaces.
        """
    def available_to(self, /, tenant: bytes) -> int:
        """
        How many raw blocks `tenant` could take now.
        """
    def block_lifetimes(self, /) -> list[Incomplete] | None:
        """
        Histograms of sampled blocks: lifetime, idle before eviction, gap between uses; None if no
        block is sampled.
        """
    def block_priority(self, /, block: SupportsIndex) -> tuple[int, int | None]:
        """
        A block's retention priority, and when it changes by itself.
        """
    def block_state(self, /, block: SupportsIndex) -> tuple[str, int, int]:
        """
        A block's state and generation.
        """
    def block_table(
        self, /, seq: SupportsIndex, group: SupportsIndex = ..., start: SupportsIndex = ...
    ) -> Incomplete:
        """
        A sequence's block table in a group; -1, or the null block, where one was given up.
        """
    def block_tables(
        self,
        /,
        seqs: Any,
        out: Any,
        *,
        group: SupportsIndex = ...,
        pad: SupportsIndex = ...,
        start: Any | None = None,
    ) -> None:
        """
        Writes the block tables of `seqs` into the rows of `out` and pads them with `pad`. With
        `start`, only entries from `start[i]` on are written in row i: the rest is the caller's.
        """
    def can_allocate(self, /, request: Request) -> int:
        """
        Whether a request could be admitted: 0 never, 1 later, 2 now.
        """
    def change(self, /, options: dict, *, eviction: bool, admission: bool) -> None:
        """
        Has the policies of `options`, a table as a manager is made from, decide from now on, as far as `eviction` and
        `admission` say so; `pressure.*`, `retention.pin_cap`, and the floors and quotas of tenants hold. All of it or nothing.
        """
    def check_answers(
        self, /, requests: SupportsGetItem[int, Request], blocks: SupportsGetItem[int, Any]
    ) -> Incomplete:
        """
        How many of `blocks`, from the first on, hold the prefix of each request: int64.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts everything; raises `IntegrityError` on the first thing that disagrees.
        """
    def commit(self, /, seq: SupportsIndex, upto: SupportsIndex) -> tuple[int, int, int]:
        """
        Computed and accepted up to a length; returns (blocks stored, of them duplicates,
        blocks freed that no token to come attends to).
        """
    def counts(self, /) -> tuple[int, int, int, int]:
        """
        Blocks: (free, cached, referenced, all).
        """
    def cut_known(self, /, seq: SupportsIndex, length: SupportsIndex) -> None:
        """
        For replaying a log: cuts what is known past the slots.
        """
    def done(self, /, ticket: SupportsIndex) -> None:
        """
        Copies of a ticket are ordered.
        """
    def dump(self, /, form: Any) -> str:
        """
        The tree of the radix index as "text" or "dot".
        """
    def evict_until(self, /, free: SupportsIndex) -> int:
        """
        Evicts until so many blocks are free, or nothing is cached; returns how many went.
        """
    def eviction_order(self, /, most: SupportsIndex = ...) -> Incomplete:
        """
        The first cached blocks in the policy's present order of eviction, as far as it is settled: so
        many, or all.
        """
    def expire_until(self, /, now: SupportsIndex) -> tuple[list[int], list[int], list[int], int]:
        """
        Settles what has lapsed; returns (tickets, sequences cut, receipts of pins, blocks with another
        priority).
        """
    def extend(self, /, seq: SupportsIndex, until: SupportsIndex) -> None:
        """
        Slots for known tokens up to a length.
        """
    def failed(self, /, ticket: SupportsIndex) -> list[int]:
        """
        Copies of a ticket failed; returns the sequences that were cut.
        """
    def fill_keys(self, /, seq: SupportsIndex, keys: Any) -> None:
        """
        For replaying a log: keys of further full blocks.
        """
    def fill_placeholders(self, /, seq: SupportsIndex, ids: Any) -> None:
        """
        The ids of the first tokens that were appended without.
        """
    def find_blocks(self, /, keys: Any) -> Incomplete:
        """
        Blocks under keys, up to the first that is not there.
        """
    def fork(self, /, seq: SupportsIndex) -> int:
        """
        A sequence over the same blocks.
        """
    def fork_many(
        self, /, seq: SupportsIndex, n: SupportsIndex, tokens: Any | None = None
    ) -> list[int]:
        """
        As many forks, each grown by its own token; all of them or none.
        """
    def fork_prefix(self, /, seq: SupportsIndex, upto: SupportsIndex, *, copy: bool = ...) -> int:
        """
        A sequence over the first computed tokens of another; with `copy`, its partial block is
        copied at once.
        """
    def free_blocks(self, /, blocks: Any, generations: Any | None = None) -> None:
        """
        Holds blocks once less.
        """
    def hash_blocks(
        self,
        /,
        prompt: Any,
        *,
        tenant: bytes | None = None,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        encoder: bytes | None = None,
        extras: SupportsGetItem[
            int, tuple[SupportsIndex, SupportsIndex, SupportsGetItem[int, SupportsIndex]]
        ] = ...,
        public: SupportsIndex = 0,
    ) -> Incomplete:
        """
        Keys of a prompt's full blocks: uint64 (blocks, 2), low word first.
        """
    def hash_request(self, /, request: Request) -> Any:
        """
        Keys of a request's full blocks, as `hash_blocks` has them, whatever the index here.
        """
    def held_by_tenant(self, /, tenant: bytes) -> tuple[int, list[int]]:
        """
        Blocks that a tenant's sequences own, and these sequences.
        """
    def hint(
        self,
        /,
        session: SupportsIndex | str,
        kind: str,
        keep: tuple[SupportsIndex, SupportsIndex | None, SupportsIndex, bool],
    ) -> tuple[str, int]:
        """
        Takes a hint on a session: (how it was taken, blocks that it concerned).
        """
    def holds(self, /, blocks: Any) -> tuple[Incomplete, Incomplete]:
        """
        How often each block is held one by one, and its generation.
        """
    def is_current(self, /, seq: SupportsIndex) -> bool:
        """
        Whether a sequence was computed under the present weights, and is not to be forgotten.
        """
    def keys_of_request(self, /, request: Request) -> Incomplete:
        """
        The keys of a request's full blocks: uint64 (blocks, 2).
        """
    def lease(self, /, seq: SupportsIndex, upto: SupportsIndex) -> int:
        """
        Keeps the blocks of computed tokens for a reader elsewhere; returns the ticket that ends it.
        """
    def lengths(self, /, seq: SupportsIndex) -> tuple[int, int, int, int]:
        """
        A sequence's lengths: (known, with slots, committed, cached at admission) tokens.
        """
    def let_pass(self, /, passed: SupportsIndex) -> None:
        """
        For replaying a log: steps have run.
        """
    def loaded(self, /, ticket: SupportsIndex, blocks: Any) -> list[int]:
        """
        A load has ended with its first blocks good, of each group as many or as said; returns the
        sequences that were cut.
        """
    def lookup(
        self,
        /,
        prompt: Any,
        *,
        tenant: bytes | None = None,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        encoder: bytes | None = None,
        extras: SupportsGetItem[
            int, tuple[SupportsIndex, SupportsIndex, SupportsGetItem[int, SupportsIndex]]
        ] = ...,
        public: SupportsIndex = 0,
    ) -> tuple[int, list[Incomplete], int | None]:
        """
        How much of a prompt is there, and what is attached to exactly this prompt. Changes nothing.
        """
    def lookup_request(
        self, /, request: Request, answer: tuple[Any | None, SupportsIndex | None] | None = None
    ) -> tuple[int, list[Incomplete], int | None]:
        """
        The same for a request, by what it reads.
        """
    def miss_reason(self, /, seq: SupportsIndex) -> tuple[int, int, int, int | None] | None:
        """
        Why the admission of a live sequence found no more; None with statistics off.
        """
    def num_readable_tokens(self, /, seq: SupportsIndex) -> int:
        """
        Tokens that may be read.
        """
    def options(self, /) -> dict:
        """
        The options as they reached the core.
        """
    def origin(self, /, seq: SupportsIndex) -> tuple[bytes, bytes, int, bytes, int]:
        """
        A sequence's salt, adapter, session, tenant and public blocks.
        """
    def owners(
        self, /, block: SupportsIndex
    ) -> tuple[list[int], list[int], int, int, list[tuple[int, str]]]:
        """
        Who holds a block: (sequences, tickets, owners behind a fence, holds one by one, receipt and
        owner of each pin).
        """
    def pages(
        self,
        /,
        seq: SupportsIndex,
        start: SupportsIndex,
        stop: SupportsIndex,
        group: SupportsIndex = ...,
    ) -> tuple[Incomplete, int, int]:
        """
        Pages of a range of tokens: (blocks, tokens before it in the first, tokens up to its end in
        the last).
        """
    def pin(
        self,
        /,
        prompt: Any,
        *,
        tenant: bytes | None = None,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        encoder: bytes | None = None,
        extras: SupportsGetItem[
            int, tuple[SupportsIndex, SupportsIndex, SupportsGetItem[int, SupportsIndex]]
        ] = ...,
        public: SupportsIndex = 0,
        owner: str = "",
        lease: SupportsIndex | None = None,
    ) -> tuple[int, int, int, int] | None:
        """
        Holds what is cached of a prompt, as far as pins may: (receipt, its block, tokens, tokens that
        were found), or None.
        """
    def pin_blocks(self, /, blocks: SupportsGetItem[int, SupportsIndex]) -> int:
        """
        For replaying a log: holds these blocks, as `pin` did.
        """
    def pin_session(
        self, /, session: SupportsIndex | str, owner: str, lease: SupportsIndex | None = None
    ) -> tuple[str, int, tuple[int, int, int, int] | None]:
        """
        Pins what a session has: (how it was taken, blocks, the receipt, its block, tokens, and tokens
        that were found).
        """
    def pins(self, /, owner: str | None = None) -> list[tuple[int, int, int, str, int | None, int]]:
        """
        The pins of an owner, or of all.
        """
    def preempt(self, /, seq: SupportsIndex, fence: SupportsIndex | None = None) -> Request:
        """
        Ends a sequence for now; returns the request that brings it back.
        """
    def preempt_to(
        self,
        /,
        seqs: Any,
        rule: Any,
        usage: SupportsFloat | SupportsIndex,
        fence: SupportsIndex | None = None,
    ) -> list[Request]:
        """
        Preempts, behind a fence, the sequences that `preemption_order` names to bring use down to a
        share; skips those that have ended by then. Returns the requests that bring them back. An
        error carries the requests made so far as `preempted`.
        """
    def preemption_order(
        self, /, seqs: Any, rule: Any, usage: SupportsFloat | SupportsIndex | None = None
    ) -> list[tuple[int, int, int]]:
        """
        Running sequences in the order to preempt them: (sequence, blocks it frees, tokens computed);
        with `usage`, only those that bring use down to it.
        """
    def prefix_of(self, /, block: SupportsIndex) -> tuple[Incomplete, Any]:
        """
        The blocks of the prefix that ends with `block`, and their keys; none of either where that is
        not known.
        """
    def prefix_statistics(self, /) -> tuple[dict, list[int], tuple[int, int, int, int]] | None:
        """
        Why admissions found no more: {reason: (admissions, tokens)}, admissions cut short by each
        layer group, and the last requests as (requests, with a hit, prompt tokens, hit tokens).
        None with statistics off.
        """
    def pressure(self, /) -> tuple[float, int]:
        """
        The share of blocks in use, and the pressure level: 0 normal, 1 high, 2 critical.
        """
    def publish_block(
        self, /, block: SupportsIndex, key: Any, parent: SupportsIndex | None = None
    ) -> int | None:
        """
        Makes a taken block findable under a key of shape (1, 2), after `parent`; returns a block
        that was findable under it before.
        """
    def put_fence(self, /, fence: SupportsIndex | None = None) -> None:
        """
        For replaying a log: what is given up waits for a step from now on, or no more.
        """
    def ragged_tables(
        self, /, seqs: Any, indptr: Any, blocks: Any, *, group: SupportsIndex = ...
    ) -> int:
        """
        Writes the block tables of `seqs` one after the other into `blocks`; table i is
        `blocks[indptr[i]:indptr[i + 1]]`. Returns how many entries there are.
        """
    def release(self, /, seq: SupportsIndex, fence: SupportsIndex | None = None) -> None:
        """
        Ends a sequence; its blocks stay until `fence` has passed.
        """
    def rematch(self, /, seq: SupportsIndex, fence: SupportsIndex | None = None) -> int:
        """
        Looks a sequence that has computed nothing up again; returns its cached tokens. What it gives
        up stays until `fence` has passed.
        """
    def remove_pressure_callback(self, /, callback: Any) -> int:
        """
        Takes a callback off; how often it was there.
        """
    def request_usage(self, /, seq: SupportsIndex) -> tuple[int, int, int, int, bool]:
        """
        Usage in tokens: (read, created, joined, loaded, whether it was resumed).
        """
    def reserve(
        self, /, seq: SupportsIndex, until: SupportsIndex, lookahead: SupportsIndex | None = None
    ) -> None:
        """
        Slots up to a length, and `lookahead` further ones for tokens whose ids come later. Without
        `lookahead`, the length may itself be past what is known.
        """
    def reset_peak(self, /) -> int:
        """
        Counts the peak of blocks in use anew; the peak until then.
        """
    def reset_prefix_cache(
        self,
        /,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        session: SupportsIndex | str | None = None,
        tenant: bytes | None = None,
    ) -> int:
        """
        Forgets every cached block, or those of a scope; returns how many were freed.
        """
    def resize(self, /, blocks: SupportsIndex) -> None:
        """
        Another number of blocks.
        """
    def return_blocks(self, /, blocks: Any) -> None:
        """
        Takes raw blocks back.
        """
    def running(self, /) -> Incomplete:
        """
        Handles of the live sequences, in no order that means anything.
        """
    def salts(self, /) -> list[bytes]:
        """
        Salts of findable blocks and of running sequences, each once.
        """
    def seq_lens(self, /, seqs: Any, out: Any) -> None:
        """
        Writes the lengths of `seqs`, in tokens with slots.
        """
    def sequence_keys(self, /, seq: SupportsIndex, upto: SupportsIndex) -> Any:
        """
        Keys of the full blocks of a sequence's first tokens, whatever the index here.
        """
    def sequence_snapshot(self, /, seq: SupportsIndex) -> dict:
        """
        What a snapshot tells of one live sequence.
        """
    def set_deadline(self, /, ticket: SupportsIndex, deadline: SupportsIndex) -> None:
        """
        Lets a ticket lapse.
        """
    def set_weight_version(self, /, fingerprint: bytes) -> int:
        """
        The weights have changed; returns how many cached blocks were freed.
        """
    def sleep(self, /) -> None:
        """
        Forgets what is cached and refuses allocations until `wake`.
        """
    def slot_mapping(
        self,
        /,
        seqs: Any,
        starts: Any,
        counts: Any,
        out: Any,
        *,
        group: SupportsIndex = ...,
        indptr: Any | None = None,
    ) -> int:
        """
        Writes the slots of tokens `starts[i] .. starts[i] + counts[i]` of each sequence, one after
        the other, into `out`: block × block size + offset; those of sequence i are
        `out[indptr[i]:indptr[i + 1]]`. Returns how many were written.
        """
    def snapshot(self, /) -> dict:
        """
        Everything the manager holds at one instant, copied.
        """
    def stats(self, /) -> dict:
        """
        The counters.
        """
    def step(
        self,
        /,
        done: Any | None = None,
        failed: Any | None = None,
        loaded: Any | None = None,
        truncate: Any | None = None,
        fill: Any | None = None,
        commit: Any | None = None,
        fork: Any | None = None,
        release: Any | None = None,
        preempt: Any | None = None,
        fence: SupportsIndex | None = None,
        passed: SupportsIndex | None = None,
        append: Any | None = None,
        counts: Any | None = None,
        ids: Any | None = None,
        extend: Any | None = None,
        admit: Any | None = None,
        token_budget: SupportsIndex | None = None,
        batch_tokens: SupportsIndex | None = None,
        skip_refused: Any | None = None,
        tables: Any | None = None,
        slots: Any | None = None,
        rows: Any | None = None,
        answers: SupportsGetItem[int, tuple[Any | None, SupportsIndex | None]] = ...,
    ) -> tuple[
        list[tuple[int, int, int, int, int | None, bool, int, int, int | None] | None],
        list[tuple[str, int, Any]],
        list[int],
        tuple[int, Incomplete] | None,
        list[int],
        list[Request],
        Incomplete,
        Incomplete,
        list[tuple[int, int, int, int]],
    ]:
        """
        Settles tickets, cuts, fills, commits, forks, ends, grows and admits sequences in one call.

        `append[i]` grows by `counts[i]` ids of `ids`, in order. Everything wrong with a handle, a
        length or a ticket refuses the whole step; want of room refuses single growths and
        admissions. `tables[g]` row `rows[i]`, or i, gets the changed entries of `append[i]`'s table
        in group g, `slots[g]` the slots of the appended tokens, one sequence after the other.
        """
    def take_blocks(self, /, out: Any, tenant: bytes) -> None:
        """
        Fills `out` with raw blocks taken from the pool, which are `tenant`'s.
        """
    def take_changes(self, /) -> tuple[list[int], list[tuple[int, int, int, int]]]:
        """
        Since the last call: (sequences cut with a computation they joined, changed table entries).
        """
    def take_detached(self, /) -> list[int]:
        """
        Handles whose prefix is gone, since the last call.
        """
    def take_events(self, /) -> dict:
        """
        The events since the last call, as arrays of equal length.
        """
    def take_index_changes(self, /) -> tuple[Any, Any, Any, Any, Any] | None:
        """
        What became findable and what is no more since the last call: (removed; inserted, their keys,
        the blocks they follow or -1, their places), or None.
        """
    def take_log(self, /) -> tuple[dict, Incomplete, list[tuple[int, Request]]]:
        """
        The log since the last call: (events as arrays, their token ids one event after the other,
        what each admission asked for by its sequence).
        """
    def take_plan(self, /) -> tuple[int, Incomplete] | None:
        """
        Closes the plan of copies: (ticket, rows of src, dst, tokens, group), or None.
        """
    def tenants(self, /) -> list[tuple[bytes, list[int], list[int], int | None]]:
        """
        What each tenant has: all that are not configured first; nothing where none is.
        """
    def tickets(self, /) -> list[tuple[int, str, int, int | None]]:
        """
        Outstanding tickets: (ticket, "copies" | "load" | "lease", blocks, deadline).
        """
    def touch(self, /, seqs: Any) -> None:
        """
        Sequences were read or scheduled.
        """
    def touch_blocks(self, /, blocks: Any, generations: Any | None = None) -> None:
        """
        Holds blocks once more.
        """
    def truncate(self, /, seq: SupportsIndex, length: SupportsIndex) -> None:
        """
        Cuts a sequence to a length.
        """
    def unhashed_blocks(self, /, seq: SupportsIndex) -> list[Incomplete]:
        """
        Blocks that are not findable, in each group.
        """
    def unowned(self, /, blocks: Any) -> int:
        """
        How many of the blocks have no owner; -1 is none.
        """
    def unpin(self, /, receipt: SupportsIndex, block: SupportsIndex) -> None:
        """
        Ends such a hold.
        """
    def unpin_all(self, /, owner: str | None = None) -> int:
        """
        Ends the pins of an owner, or all; how many.
        """
    def visible_range(
        self, /, seq: SupportsIndex, group: SupportsIndex = ...
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
        """
        What the next token of a sequence sees of a group.
        """
    def wake(self, /) -> None:
        """
        Ends `sleep`.
        """
    def weight_version(self, /) -> bytes:
        """
        The version of the weights.
        """

@final
class PageUses:
    """
    How often requests used which pages.
    """
    def __new__(cls, /) -> PageUses:
        """
        None yet.
        """
    def count(self, /, keys: Any) -> None:
        """
        A request found these pages.
        """

@final
class PrefixTree:
    """
    The core of a tree as the package sees it; `kvframe.prefix_tree.PrefixTree` is the face for users.
    """
    def __new__(
        cls,
        /,
        *,
        page_size: SupportsIndex,
        before: SupportsIndex,
        bigrams: bool,
        policy: Any,
        policy_options: dict | None = None,
    ) -> PrefixTree:
        """
        An empty tree; `policy` is a built-in's name or a driver. `before` is the `serial` of the tree that
        it comes after.
        """
    def above(self, /, node: SupportsIndex) -> int:
        """
        What a node follows.
        """
    def all(self, /) -> list[tuple[int, int, int, int, int]]:
        """
        (number, that of what it follows, start, tokens, locks) of every node.
        """
    def by_weight(self, /, nodes: SupportsGetItem[int, SupportsIndex]) -> list[int]:
        """
        Places of nodes in the order of a walk that goes where most of them are first.
        """
    def check(self, /, node: SupportsIndex) -> None:
        """
        Refuses a node that is not here.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts the state.
        """
    def evict(self, /, tokens: SupportsIndex) -> tuple[int, list[int]]:
        """
        (tokens, nodes) that went to make room for `tokens`.
        """
    def evict_leaf(self, /, node: SupportsIndex) -> int:
        """
        Evicts one leaf. Its tokens.
        """
    def evict_without(self, /, tokens: SupportsIndex) -> tuple[int, list[int]]:
        """
        As `evict`, in the built-in order, where the policy has failed.
        """
    def failures(self, /) -> int:
        """
        Decisions that the built-in order took for a policy that failed.
        """
    def find(
        self, /, ids: Any, extra: str | None, salt: str | None
    ) -> tuple[int, int, tuple[int, int, int] | None]:
        """
        (tokens, node, split) of the longest cached prefix, which is recent now.
        """
    def lock(self, /, node: SupportsIndex) -> int:
        """
        One lock more on the path to a node. Tokens that none protected before.
        """
    def order(self, /) -> list[int]:
        """
        Numbers of the nodes that may be evicted, in that order.
        """
    def path(self, /, node: SupportsIndex, until: SupportsIndex) -> list[int]:
        """
        The numbers of the nodes from behind `until` to a node.
        """
    def path_nodes(self, /, node: SupportsIndex) -> list[tuple[int, int, int, int, int]]:
        """
        (node, what it follows, start, end, children) of the nodes from the root to one.
        """
    def peek(self, /, ids: Any, extra: str | None, salt: str | None) -> tuple[int, int, int]:
        """
        (tokens, node, tokens up to the node's end); nothing changes.
        """
    def root(self, /) -> int:
        """
        The root.
        """
    def serial(self, /) -> int:
        """
        How many nodes there were.
        """
    def sizes(self, /) -> tuple[int, int]:
        """
        Tokens that no lock protects, and those that one does.
        """
    def store(
        self,
        /,
        ids: Any,
        extra: str | None,
        salt: str | None,
        counted: SupportsIndex,
        session: str | None,
        priority: SupportsIndex,
    ) -> tuple[int, int, int, tuple[int, int, int] | None, int | None]:
        """
        (tokens that were there, tokens now, node, split, new node).
        """
    def unlock(self, /, node: SupportsIndex) -> int:
        """
        One lock less. Tokens that none protects any more.
        """

@disjoint_base
class Request:
    """
    A prompt and how to serve it, for `KVCacheManager.allocate` and `KVCacheManager.step`.

    Its prompt is copied, and hashed the first time it is tried; a retry hashes nothing. It never
    changes: `replace` makes another one.

    Args:
        prompt: Token ids, any integer dtype. None if only ``keys`` and ``num_tokens`` are known.
        keys: uint64 (blocks, 2), as `BlockPool.hash_blocks` returns them; or an engine's own hashes,
            a list of bytes, of each the first 16. They must cover all that the KV depends on.
        num_tokens: Length of the prompt where the token ids are not known; with them, theirs.
        tenant: Whose request it is: a name of ``[tenants]``, or any other. Prefixes are shared only
            among requests of one tenant. The gateway sets it, never the client.
        cache_salt: Prefixes are shared only among requests of the same salt.
        lora_name: As ``cache_salt``, for LoRA and other adapters.
        mm_items: Multimodal items among the tokens, as `MMItem`.
        session: The conversation, a number or a name (`session_id` is the number that policies
            see). For policies, as are the next three; 0 if unknown.
        turn: Turn within the session.
        request_class: The engine's own numbering of request types.
        priority: Larger is more important.
        read_cache: Look for cached blocks.
        write_cache: Leave computed blocks findable.
        resumed: It comes back after a preemption; statistics count it apart.
        partial: Take as many slots as can be had instead of refusing for lack of room. With
            ``max_seq_len``, what can never fit is refused all the same.
        chunk: Slots for this many tokens after the cached ones, 0 for none of these;
            `KVCacheManager.extend` gives more, in steps of as many. Where layer groups give blocks
            up, it bounds what the prompt holds at once: a request that could not be computed in
            such steps is refused at once.
        until: Slots up to this length at most.
        max_seq_len: Most tokens of prompt and answer together: what can never fit is refused at
            once, and so are tokens past it. 0 if it is unknown; then a sequence may outgrow the
            cache.
        full_sequence_must_fit: Allocate only if all of ``max_seq_len`` could be had now. Later
            allocations leave it the room that it still lacks.
        num_external_tokens: Tokens after the cached ones whose KV comes from elsewhere (a lower
            tier, another engine's prefill); whole blocks, of all groups. `Allocation.load` is their
            ticket.
        external_until: The same, given as a length: KV of the prompt's first tokens up to here can
            be brought. Tokens that are cached are not brought; it is no error if none are left.
        join: Share blocks that a running sequence is computing for the same prompt, instead of
            computing them too: `Allocation.joined_tokens`. They are good once that sequence commits
            them. If it is cut or ends before that, this sequence is cut to what is good, and
            `StepResult.rewound` or `KVCacheManager.take_changes` says so. Blocks that are being
            loaded for another sequence are shared, too: they are good once the load has ended, and
            ``loaded`` or ``failed`` names this sequence among those that it cuts. Only where every
            group is of full attention or a sliding window, in blocks of ``cache.block_size``.
        encoder: Content id of the input that ``cross`` groups attend to; a prefix is shared only
            among requests with the same input. Without an id, nothing of the sequence is shared.
        encoder_tokens: Tokens of that input; their blocks are held from allocation to the end.
        next_use: uint32 per block of ``cache.block_size`` tokens: when it is used next, as far as
            the engine can tell, in any count of its own that grows with time, such as the index of
            the request. 4294967295 (`kvframe.policies.NO_NEXT_USE`) is "not known", and so is an
            entry that is missing. Each request that uses a block says it anew. The built-in policy
            ``next-use`` goes by it.
        retention: How important its blocks are, and for how long (`kvframe.retention.Retention`).

    Raises:
        UsageError: An option is unknown, a value is of the wrong type or out of range, or
            ``max_seq_len`` is below the length of the prompt.
    """

    OPTIONS: Final[tuple]
    """
    The names of its options, beside ``num_tokens``.
    """
    def __len__(self, /) -> int:
        """
        Tokens of the prompt.
        """
    def __new__(cls, /, prompt: Any | None, **options: "Any") -> Request: ...
    def __repr__(self, /) -> str: ...
    @property
    def cache_salt(self, /) -> str:
        """
        Prefixes are shared only among requests of the same salt.
        """
    @property
    def chunk(self, /) -> int | None:
        """
        Tokens of a step of its prompt; None for all of it.
        """
    @property
    def encoder(self, /) -> bytes:
        """
        Content id of the input that ``cross`` groups attend to.
        """
    @property
    def encoder_tokens(self, /) -> int:
        """
        Tokens of that input.
        """
    @property
    def external_until(self, /) -> int:
        """
        The length up to which KV can be brought.
        """
    @property
    def full_sequence_must_fit(self, /) -> bool:
        """
        Whether all of ``max_seq_len`` must be there before it starts.
        """
    @property
    def join(self, /) -> bool:
        """
        Whether it shares blocks that are being computed.
        """
    @property
    def keys(self, /) -> Any | None:
        """
        Keys of full blocks that came with it, uint64 (blocks, 2); None where it came without.
        """
    @property
    def lora_name(self, /) -> str:
        """
        As ``cache_salt``, for adapters.
        """
    @property
    def max_seq_len(self, /) -> int:
        """
        Most tokens of prompt and answer together; 0 if unknown.
        """
    @property
    def mm_items(self, /) -> list[tuple[int, int, bytes]]:
        """
        Multimodal items: (start, end, id).
        """
    @property
    def next_use(self, /) -> Incomplete | None:
        """
        When each block is used next, uint32; None where that is not known.
        """
    @property
    def num_external_tokens(self, /) -> int:
        """
        Tokens after the cached ones whose KV comes from elsewhere.
        """
    @property
    def num_tokens(self, /) -> int:
        """
        Tokens of the prompt.
        """
    @property
    def options(self, /) -> dict:
        """
        The options that differ from the defaults, by name: what makes it anew beside its prompt.
        """
    def origin(self, /) -> tuple[bytes, bytes, int, bytes, int]:
        """
        Its salt and adapter as they are stored, its session, its tenant and its public blocks.
        """
    @property
    def partial(self, /) -> bool:
        """
        Whether it takes as many slots as can be had.
        """
    @property
    def priority(self, /) -> int:
        """
        Larger is more important.
        """
    @property
    def prompt(self, /) -> Incomplete | None:
        """
        Token ids of the prompt; None where only keys are known.
        """
    @property
    def public(self, /) -> int:
        """
        Public blocks at its front.
        """
    @property
    def read_cache(self, /) -> bool:
        """
        Whether it looks for cached blocks.
        """
    def replace(self, /, **changes: "Any") -> Request:
        """
        The same request with other options; ``prompt`` replaces its tokens, too.
        """
    @property
    def request_class(self, /) -> int:
        """
        The engine's own numbering of request types.
        """
    @property
    def resumed(self, /) -> bool:
        """
        Whether it comes back after a preemption.
        """
    @property
    def retention(self, /) -> Any | None:
        """
        How important its blocks are, and for how long.
        """
    def rewrite(
        self,
        /,
        tokens: Any | None = None,
        cache_salt: SupportsGetItem[int, SupportsIndex] | None = None,
        public: SupportsIndex = 0,
    ) -> Request:
        """
        The request as its prompt and salt are stored; None for what stays. With `public` blocks at its front.
        """
    @property
    def rewritten(self, /) -> bool:
        """
        Whether its prompt is as the cache stores it, so that no matcher rewrites it again.
        """
    @property
    def session(self, /) -> int:
        """
        The number of its session; 0 if it has none.
        """
    @property
    def tenant(self, /) -> str:
        """
        Whose request it is.
        """
    @property
    def turn(self, /) -> int:
        """
        Turn within the session.
        """
    @property
    def until(self, /) -> int | None:
        """
        The length up to which it gets slots; None for all of it.
        """
    def with_public(self, /, blocks: SupportsIndex, block_size: SupportsIndex) -> Request:
        """
        The same request, with the first `blocks` of `block_size` tokens public and the rest private to its tenant
        and salt.
        """
    @property
    def write_cache(self, /) -> bool:
        """
        Whether it leaves computed blocks findable.
        """

@final
class RouterIndex:
    """
    Blocks by 64-bit key, each with its holders. See `kvframe.RouterIndex`.
    """
    def __len__(self, /) -> int: ...
    def __new__(
        cls, /, block_size: SupportsIndex, capacity: SupportsIndex, reach: Any
    ) -> RouterIndex: ...
    def add_worker(self, /, worker: SupportsIndex) -> bool: ...
    def cleared(self, /, worker: SupportsIndex, rank: SupportsIndex | None) -> int:
        """
        Of all ranks where none is given.
        """
    def counts(self, /) -> tuple[int, int, int, int]: ...
    def match_hashes(self, /, blocks: Any, ranks: bool) -> dict: ...
    def match_tokens(
        self,
        /,
        ids: Any,
        marks: SupportsGetItem[int, SupportsIndex],
        salt: bytes | None,
        adapter: bytes | None,
        ranks: bool,
    ) -> dict: ...
    def misfit(
        self, /, worker: SupportsIndex, rank: SupportsIndex, blocks: SupportsIndex
    ) -> None: ...
    def remove_worker(self, /, worker: SupportsIndex) -> int | None: ...
    def removed(
        self, /, worker: SupportsIndex, rank: SupportsIndex, blocks: Any, tier: SupportsIndex
    ) -> int: ...
    def stored(
        self,
        /,
        worker: SupportsIndex,
        rank: SupportsIndex,
        blocks: Any,
        parent: Any | None,
        ids: Any,
        marks: SupportsGetItem[int, SupportsIndex],
        salt: bytes | None,
        adapter: bytes | None,
        tier: SupportsIndex,
    ) -> int: ...
    def workers(self, /) -> list[int]: ...

@final
class ShadowSet:
    """
    Shadows behind a thread of their own; `kvframe.shadow.ShadowSet` is the face for users.
    """
    def __new__(
        cls,
        /,
        sets: SupportsGetItem[
            int, tuple[SupportsIndex, SupportsGetItem[int, tuple[Any, dict | None, SupportsIndex]]]
        ],
        *,
        block_size: SupportsIndex,
        chained: bool,
        reserved: SupportsIndex,
        batching: tuple[SupportsIndex, SupportsIndex, bool, bool, SupportsFloat | SupportsIndex]
        | None,
        backlog: SupportsIndex,
    ) -> ShadowSet:
        """
        Sets of shadows, each with its own stride; `backlog` steps wait for the thread at the most.
        """
    def advance(
        self,
        /,
        step: SupportsIndex,
        rests: bool,
        arrived: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsIndex,
                bool,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
                SupportsIndex,
                bool,
                tuple[
                    SupportsIndex | str,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsGetItem[int, SupportsIndex],
                ],
            ],
        ],
        found: SupportsGetItem[int, tuple[SupportsIndex, SupportsIndex]],
        running: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
            ],
        ],
        ended: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
            ],
        ],
    ) -> None:
        """
        What came of the engine's steps up to `step`; never waits.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts every shadow, once it has caught up.
        """
    def close(self, /) -> None:
        """
        Ends the thread; steps that come later are left out.
        """
    def counts(self, /) -> list[tuple[int, int, int, int, int, int, int, int, int]]:
        """
        What each shadow has counted.
        """
    def dropped(self, /) -> int:
        """
        Requests that were lost because the thread was too far behind.
        """
    def failure(self, /) -> str | None:
        """
        Why the shadows run no more; None while they do.
        """
    def flush(self, /, seconds: SupportsFloat | SupportsIndex) -> bool:
        """
        Waits until every step that was given is carried out. False if it took longer than `seconds`.
        """
    def reset(self, /, step: SupportsIndex) -> None:
        """
        The engine has reset its prefix cache, after that step.
        """
    def run(self, /, trace: Trace) -> None:
        """
        The requests of a trace, one after the other.
        """
    def step(
        self,
        /,
        ended: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
                SupportsIndex,
            ],
        ],
        grown: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
                SupportsIndex,
            ],
        ],
        preempted: SupportsGetItem[int, SupportsIndex],
        begun: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                SupportsGetItem[int, SupportsGetItem[int, SupportsIndex]]
                | tuple[SupportsGetItem[int, SupportsIndex], SupportsIndex],
                SupportsIndex,
                SupportsIndex,
                SupportsIndex,
                SupportsIndex,
                SupportsIndex,
                bool,
                tuple[
                    SupportsIndex | str,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsIndex,
                    SupportsGetItem[int, SupportsIndex],
                ],
            ],
        ],
    ) -> None:
        """
        What the engine did in a step; never waits.
        """

@final
class Slots:
    """
    Fixed slots; `kvframe.SlotCache` is the face for users.
    """
    def __new__(
        cls,
        /,
        *,
        slots: SupportsIndex,
        length: SupportsIndex,
        least_copy: SupportsIndex,
        fingerprint: bytes,
        policy: Any,
        policy_options: dict | None = None,
    ) -> Slots:
        """
        Empty slots; `policy` is a built-in's name or a driver of a Python policy.
        """
    def advance(self, /, seqs: Any, ids: Any) -> None:
        """
        A decode step of many sequences.
        """
    def allocate(
        self,
        /,
        prompt: Any,
        salt: bytes | None,
        adapter: bytes | None,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> tuple[int, int, int | None]:
        """
        A slot for a prompt: (sequence, tokens not to compute, slot they are copied from).
        """
    def append(self, /, seq: SupportsIndex, ids: Any) -> None:
        """
        More tokens of a sequence.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts the state.
        """
    def clear(
        self,
        /,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        session: SupportsIndex | str | None = None,
    ) -> int:
        """
        Forgets what is cached, or what of it is of a scope.
        """
    def commit(self, /, seq: SupportsIndex, upto: SupportsIndex) -> None:
        """
        Tokens are computed and accepted.
        """
    def done(self, /, ticket: SupportsIndex) -> None:
        """
        The copies of a plan are queued.
        """
    def eviction_order(self, /) -> Incomplete:
        """
        Cached slots from the next to be given up on.
        """
    def failed(self, /, ticket: SupportsIndex) -> list[int]:
        """
        The copies of a plan failed; returns the sequences that start anew.
        """
    def failures(self, /) -> int:
        """
        Decisions that the built-in order took for a policy that failed.
        """
    def lookup(
        self, /, prompt: Any, salt: bytes | None = None, adapter: bytes | None = None
    ) -> int:
        """
        Tokens of a prompt that some slot holds.
        """
    def pin(
        self,
        /,
        prompt: Any,
        salt: bytes | None = None,
        adapter: bytes | None = None,
        owner: str = "",
    ) -> tuple[int, int, int] | None:
        """
        Holds the longest prefix of a prompt that some slot has: (receipt, slot, tokens), or None.
        """
    def pins(self, /, owner: str | None = None) -> list[tuple[int, int, int, str]]:
        """
        Pins: (receipt, slot, tokens, owner).
        """
    def release(self, /, seq: SupportsIndex) -> None:
        """
        Ends a sequence.
        """
    def rows(self, /) -> list[tuple[int, str, int, int, int, int]]:
        """
        Every slot.
        """
    def set_weight_version(self, /, fingerprint: bytes) -> int:
        """
        The same under other weights.
        """
    def stats(self, /) -> dict:
        """
        Counters by name.
        """
    def take_plan(self, /) -> tuple[int, Incomplete] | None:
        """
        The copies gathered since the last plan.
        """
    def truncate(self, /, seq: SupportsIndex, length: SupportsIndex) -> None:
        """
        Cuts a sequence.
        """
    def unpin(self, /, receipt: SupportsIndex, slot: SupportsIndex) -> None:
        """
        Ends a pin.
        """
    def unpin_all(self, /, owner: str | None = None) -> int:
        """
        Ends the pins of one owner, or all.
        """

@final
class StepProfile:
    """
    How long a simulated server's steps take.
    """

    SHORT_CHUNK: Final[int]
    """
    Tokens of a chunk below which its attention takes no less time.
    """
    @staticmethod
    def fitted(
        fixed: SupportsFloat | SupportsIndex,
        tokens: SupportsGetItem[
            int, tuple[SupportsFloat | SupportsIndex, SupportsFloat | SupportsIndex]
        ],
        sequence: SupportsFloat | SupportsIndex,
        kv_token: SupportsFloat | SupportsIndex,
        pair: SupportsFloat | SupportsIndex,
        mixed: SupportsFloat | SupportsIndex = 0.0,
    ) -> StepProfile:
        """
        Terms fitted to measured steps, in seconds: of any step; from so many tokens on, of each further one,
        the first from 0; of a decoding sequence; of reading one token's KV; of the attention of one prompt
        token to one token; of each pair of a token and a token that decoding sequences attend to.
        """
    @staticmethod
    def fixed(
        prefill: SupportsFloat | SupportsIndex, decode: SupportsFloat | SupportsIndex
    ) -> StepProfile:
        """
        Two rates: prompt tokens a second, one prompt after the other, and seconds a token of an answer,
        whatever else runs.
        """
    @staticmethod
    def layered(
        host: SupportsFloat | SupportsIndex,
        matrices: SupportsGetItem[
            int,
            tuple[
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
                SupportsGetItem[
                    int,
                    tuple[
                        SupportsFloat | SupportsIndex,
                        SupportsFloat | SupportsIndex,
                        SupportsFloat | SupportsIndex,
                    ],
                ],
            ],
        ],
        kinds: SupportsGetItem[
            int,
            tuple[
                SupportsIndex,
                tuple[
                    SupportsIndex,
                    SupportsIndex,
                    SupportsFloat | SupportsIndex,
                    SupportsFloat | SupportsIndex,
                ]
                | None,
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
            ],
        ],
        state: SupportsFloat | SupportsIndex = 0.0,
        exchange: SupportsFloat | SupportsIndex = 0.0,
        *,
        cascade: bool = False,
    ) -> StepProfile:
        """
        Roofline terms of weights in several number formats and of layers of several kinds, in seconds: of the
        host; of each format, reading what all tokens share, the products of one token, and of experts their
        number, those of a token, and reading one; of each kind, tokens of its window, of its history the tokens
        an entry, the most entries, scoring one and reading the keys of one token, and then reading a position,
        and a pair of it and a token of a prompt, and of an answer; of reading a sequence's states; of what cards
        send one another for one token. 2^32 - 1 tokens or entries are all.
        """
    @staticmethod
    def roofline(
        host: SupportsFloat | SupportsIndex,
        weights: SupportsFloat | SupportsIndex,
        token: SupportsFloat | SupportsIndex,
        kv_token: SupportsFloat | SupportsIndex,
        pair: SupportsFloat | SupportsIndex,
        exchange: SupportsFloat | SupportsIndex = 0.0,
        *,
        cascade: bool = False,
    ) -> StepProfile:
        """
        Seconds of the host's part of a step, of reading the weights, of one token's matrix products, of
        reading one token's KV, of the attention of one prompt token to one token, and of what cards send one
        another for one token. With `cascade`, what all prompts of a step begin with is read once.
        """
    @staticmethod
    def table(
        rows: SupportsGetItem[
            int,
            tuple[
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
                SupportsFloat | SupportsIndex,
            ],
        ],
    ) -> StepProfile:
        """
        Measured steps: of each, the sequences that decoded, the tokens that those attended to, the prompt
        tokens, the tokens that each of these attended to on the mean, and its seconds.
        """

@final
class TierGate:
    """
    One tier's admission policy; `kvframe.tiers` has the face for users.
    """
    def __new__(cls, /, policy: Any, options: dict | None = None) -> TierGate:
        """
        The built-in policy of that name, or a driver of a Python policy, which is passed over where it
        fails.
        """
    def admitted(
        self,
        /,
        keys: Any,
        start: SupportsIndex,
        block_size: SupportsIndex,
        uses: PageUses | SupportsGetItem[int, SupportsIndex],
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
        about: tuple[SupportsIndex, str, SupportsIndex | None, SupportsIndex, SupportsIndex],
    ) -> int:
        """
        How many pages from a place of a prefix on enter, or pass through to the tier below. A page on which a
        Python policy is silent is kept.
        """
    def counts_uses(self, /) -> bool:
        """
        Whether it judges by how often pages were used.
        """
    def seen(self, /, keys: Any, now: SupportsIndex) -> None:
        """
        A request has found or computed pages.
        """

@final
class TierPages:
    """
    The core of a tier of pages; `kvframe.tiers` has the face for users.
    """
    def __new__(
        cls,
        /,
        *,
        pages: SupportsIndex,
        block_size: SupportsIndex,
        in_flight: SupportsIndex,
        policy: Any,
        policy_options: dict | None = None,
        backed_first: bool = False,
        tenants: Any | None = None,
    ) -> TierPages:
        """
        An empty tier; `policy` is a built-in's name or a driver of a Python policy. With `tenants`, tables
        as in a configuration, there is one driver for all others and one for each.
        """
    def adopt(self, /, keys: Any, parent: Any | None, tenant: SupportsIndex = 0) -> int:
        """
        Takes in pages that were there before, each behind the one before it, and the first behind
        `parent`; how many. They are the tenant's of that number.
        """
    def backed(self, /, pages: Any) -> list[bool]:
        """
        Whether a tier below has each page.
        """
    def cancel(self, /, ticket: SupportsIndex) -> list[tuple[tuple[int, int], int]]:
        """
        Gives a transfer up; what is forgotten.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts the state.
        """
    def clear(self, /) -> list[tuple[tuple[int, int], int]]:
        """
        Forgets every page, those on their way too.
        """
    def counts(self, /) -> tuple[int, int, int, int]:
        """
        (free, cached, owned, on their way) pages.
        """
    def end(
        self, /, ticket: SupportsIndex, good: SupportsIndex, keep: bool
    ) -> tuple[bool, int, list[tuple[tuple[int, int], int]]]:
        """
        A part of a transfer has ended: (whether all have, pages good, what is forgotten).
        """
    def evict_backed(self, /, keys: Any, n: SupportsIndex) -> list[tuple[tuple[int, int], int]]:
        """
        Evicts up to `n` of the pages of `keys` that may be evicted and that the tier below has.
        """
    def evict_until(self, /, free: SupportsIndex) -> list[tuple[tuple[int, int], int]]:
        """
        Evicts until so many pages are free.
        """
    def expire_until(
        self, /, now: SupportsIndex
    ) -> tuple[list[int], list[tuple[tuple[int, int], int]]]:
        """
        Gives up what is late: (tickets, what is forgotten).
        """
    def find(self, /, keys: Any) -> int:
        """
        Pages of a prefix that can be read now.
        """
    def forget(self, /, keys: Any) -> list[tuple[tuple[int, int], int]]:
        """
        Forgets pages and what follows them.
        """
    def free(self, /, pages: Any) -> None:
        """
        Takes such pages back.
        """
    def load(
        self,
        /,
        keys: Any,
        start: SupportsIndex,
        parts: SupportsIndex,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ]
        | None,
    ) -> tuple[int, Incomplete]:
        """
        Opens the pages of a prefix from a place on.
        """
    def mark(self, /, share: SupportsFloat | SupportsIndex) -> int:
        """
        Pages of a share of the tier, at least one.
        """
    def order(self, /, most: SupportsIndex = ...) -> list[tuple[tuple[int, int], int]]:
        """
        The first pages in the order in which they would be evicted, each with its key: so many, or
        all. A policy outside the core is asked for that order.
        """
    def prefix(self, /, page: SupportsIndex) -> list[tuple[int, int]]:
        """
        The prefix that ends with a page: its keys.
        """
    def present(self, /, keys: Any) -> int:
        """
        Pages of a prefix that are here or on their way.
        """
    def room(self, /, tenant: SupportsIndex) -> tuple[int, int]:
        """
        (free, all) pages as a tenant has them.
        """
    def set_backed(self, /, keys: Any, backed: bool) -> None:
        """
        Says which pages a tier below has too.
        """
    def set_deadline(self, /, ticket: SupportsIndex, at: SupportsIndex) -> None:
        """
        When a transfer is late.
        """
    def stats(self, /) -> dict:
        """
        What has happened, by name.
        """
    def store(
        self,
        /,
        keys: Any,
        parts: SupportsIndex,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> tuple[int, int, Incomplete, list[tuple[tuple[int, int], int]]]:
        """
        Reserves room for the rest of a prefix.
        """
    def store_some(
        self,
        /,
        keys: Any,
        parts: SupportsIndex,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
        tenant: SupportsIndex = 0,
    ) -> tuple[tuple[int, int, Incomplete, list[tuple[tuple[int, int], int]]], int] | None:
        """
        The same of as much of the prefix as there is room for now, and how many of its pages are here
        then; None if there is room for none. They are the tenant's of that number.
        """
    def stored(self, /) -> list[tuple[tuple[int, int], int]]:
        """
        Keys whose pages can be read, in the order of their places, each with its page.
        """
    def take(
        self, /, pages: SupportsIndex, tenant: SupportsIndex = 0
    ) -> tuple[Incomplete, list[tuple[tuple[int, int], int]]]:
        """
        Takes pages for a caller that tracks them itself; returns them, and the pages evicted for
        them. They are the tenant's of that number.
        """
    def take_changes(self, /) -> tuple[list[bytes], list[tuple[bytes, bytes | None]]]:
        """
        Changes since the last call: keys of pages that left, then of those that came, each with its
        parent's or None.
        """
    def tenants(self, /) -> list[tuple[int, int, int, int | None, int, int]]:
        """
        What each tenant has, all others first: (used, cached, floor, quota, evicted for its own sake, for
        others'). Empty without tenants.
        """
    def touch(
        self,
        /,
        keys: Any,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> None:
        """
        A prefix is used without being read.
        """
    def watch(self, /) -> None:
        """
        Notes changes from now on, the first of which are all the pages there are.
        """

@final
class TierPolicy:
    """
    The core of a tier as the package sees it; `kvframe.tier.TierPolicy` is the face for users.
    """
    def __new__(
        cls,
        /,
        *,
        blocks: SupportsIndex | None,
        block_size: SupportsIndex,
        policy: Any,
        policy_options: dict | None = None,
    ) -> TierPolicy:
        """
        An empty tier; `policy` is a built-in's name or a driver. Without `blocks` it has no fixed
        capacity and grows on demand.
        """
    def acquire(self, /, blocks: SupportsGetItem[int, SupportsIndex]) -> None:
        """
        An owner more for each.
        """
    def check_integrity(self, /) -> None:
        """
        Recounts the state.
        """
    def counts(self, /) -> tuple[int, int, int]:
        """
        (free, cached, referenced) blocks.
        """
    def failures(self, /) -> int:
        """
        Decisions that the built-in order took for a policy that failed.
        """
    def hit(
        self,
        /,
        blocks: SupportsGetItem[int, SupportsIndex],
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> None:
        """
        An admission found blocks.
        """
    def insert(
        self,
        /,
        digest: SupportsLenAndGetItem[SupportsIndex],
        depth: SupportsIndex,
        using: tuple[
            SupportsIndex | str,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsIndex,
            SupportsGetItem[int, SupportsIndex],
        ],
    ) -> int:
        """
        A block enters, owned once.
        """
    def next(self, /, spared: SupportsGetItem[int, SupportsIndex]) -> int | None:
        """
        The next to be evicted, which stays.
        """
    def on_miss(
        self, /, digests: SupportsGetItem[int, SupportsLenAndGetItem[SupportsIndex]]
    ) -> None:
        """
        Blocks under these 16-byte digests are about to be got.
        """
    def order(self, /) -> list[int]:
        """
        Blocks without an owner, in the order in which they would be evicted now. A policy outside
        the core is asked for that order.
        """
    def refresh(self, /, blocks: SupportsGetItem[int, SupportsIndex]) -> None:
        """
        Blocks become recent without a use.
        """
    def release(self, /, blocks: SupportsGetItem[int, SupportsIndex]) -> None:
        """
        An owner less for each.
        """
    def remove(self, /, blocks: SupportsGetItem[int, SupportsIndex], evicted: bool) -> None:
        """
        Blocks leave; `evicted` as if they had been victims.
        """
    def resize(self, /, blocks: SupportsIndex) -> None:
        """
        Another capacity.
        """
    def victims(
        self, /, n: SupportsIndex, spared: SupportsGetItem[int, SupportsIndex]
    ) -> list[int] | None:
        """
        The next to be evicted, which have left; None if there are fewer.
        """

@final
class Trace:
    """
    A trace and, once asked for, what its modes need to know ahead.
    """
    @property
    def block_size(self, /) -> int:
        """
        Tokens a block id stands for.
        """
    def class_numbers(self, /) -> Incomplete:
        """
        The class of each request: its place in `classes` plus 1, or 0 for none.
        """
    @property
    def classes(self, /) -> list[str]:
        """
        Names of the classes that rows have as `type`, in order of first appearance.
        """
    def coarsened(self, /, factor: SupportsIndex) -> Trace:
        """
        The same requests in blocks of `factor` times as many tokens.
        """
    def columns(self, /) -> dict:
        """
        A column a key, an entry a request: `timestamp_ms` (int64), `input_tokens` and
        `output_tokens` (uint32), and `session` (int64, -1 for none).
        """
    def flooded(self, /, class_name: str, times: SupportsIndex) -> Trace:
        """
        The requests of `class` come `times` times as often: copies that share nothing with other requests.
        """
    @property
    def ids_repeat(self, /) -> bool:
        """
        Whether ids were of single blocks, not of prefixes, so that reading has chained them.
        """
    @property
    def input_tokens(self, /) -> int:
        """
        Prompt tokens of all requests.
        """
    @staticmethod
    def load(path: str | PathLike[str], block_size: SupportsIndex | None = None) -> Trace:
        """
        Reads a trace: Mooncake JSONL or kvframe's compact form, plain or gzip.
        """
    @property
    def name(self, /) -> str:
        """
        What the trace is called.
        """
    @staticmethod
    def parse(
        data: bytes,
        name: str,
        block_size: SupportsIndex | None = None,
        time_unit: str | None = None,
    ) -> Trace:
        """
        The same from bytes; `name` stands for the file in messages. `time_unit`, "ms", "s", "us" or "ns", is that
        of the times of JSONL rows; None: what their form says.
        """
    @property
    def parse_seconds(self, /) -> float:
        """
        Time that reading took, decompression and checks included.
        """
    def prepare(self, /, mode: str) -> dict:
        """
        Makes a mode's plan: its block accesses, its unique blocks, and the time that took.
        """
    @staticmethod
    def read(
        stream: Any,
        name: str,
        block_size: SupportsIndex | None = None,
        time_unit: str | None = None,
        form: str | None = None,
        *,
        sort: bool = False,
    ) -> Trace:
        """
        The same from `stream`, an object with `read(size)` that answers bytes, to its end. `form` is
        "oracle-general" for libCacheSim's records, which no magic number tells; None: by content. `sort`
        puts the requests in order of time. What `stream.read` raises is raised here.
        """
    def request(self, /, index: SupportsIndex) -> tuple[int, int, int, int | None, list[int]]:
        """
        A request: (timestamp ms, input tokens, output tokens, session or None, node numbers).
        """
    @property
    def requests(self, /) -> int:
        """
        Number of requests.
        """
    def retimed(self, /, timestamp_ms: Incomplete) -> Trace:
        """
        The same requests at other times (int64 milliseconds), one each; they ascend.
        """
    def sessions_by_prompts(self, /) -> Incomplete:
        """
        The session of each request (int64) as its prompt tells it, the index of its first request: a prompt that
        begins with all full blocks of an earlier one, two at least, goes on with it.
        """
    def subset(self, /, indices: Incomplete) -> Trace:
        """
        The requests at these indices, which ascend.
        """
    @property
    def time_unit(self, /) -> str:
        """
        What the times of its rows were taken to be in: "ms", "s", "us" or "ns".
        """
    @property
    def unit_in_doubt(self, /) -> bool:
        """
        Whether another unit is as likely, by the rows' numbers.
        """
    def write(self, /, stream: Any, form: str) -> None:
        """
        Writes the trace to `stream`, an object with `write(bytes)`, in `form`: "kvframe" (compact),
        "mooncake" (JSONL), "libcachesim-csv", "oracle-general" or "lcsllm".
        """

@final
class TraceProfile:
    """
    What a trace could reuse: the most that can hit, its age and class, and lru at every capacity.
    """
    def capacity_for(self, /, share: SupportsFloat | SupportsIndex) -> int:
        """
        The smallest capacity, in blocks, with which lru hits this share of what can hit at all.
        """
    def column(self, /, name: str) -> Any | None:
        """
        One of the columns of `Trace.columns`; None after `of`.
        """
    def facts(self, /) -> dict:
        """
        Counts: `unique_blocks`, `block_accesses`, `longest` (blocks of the longest prompt),
        `hit_tokens`, `same_session_tokens`, `without_blocks` and `repeated` (requests), `ages` (tokens by powers of
        two of a millisecond), and `classes` (requests, input tokens and hit tokens, the first of
        requests without a class).
        """
    def lru_hits(self, /, capacities: SupportsGetItem[int, SupportsIndex]) -> list[int]:
        """
        Prompt tokens that lru hits with each of these capacities, in blocks.
        """
    def lru_hits_last_half(self, /, capacities: SupportsGetItem[int, SupportsIndex]) -> list[int]:
        """
        The same of the later half of the requests.
        """
    @staticmethod
    def of(trace: Trace, mode: str) -> TraceProfile:
        """
        Of a trace in memory; `mode` is "trace" or "engine".
        """
    @staticmethod
    def read(
        stream: Any,
        name: str,
        mode: str,
        block_size: SupportsIndex | None = None,
        time_unit: str | None = None,
        form: str | None = None,
        *,
        sort: bool = False,
    ) -> TraceProfile:
        """
        Of a stream as `Trace.read` takes it, without keeping its requests' blocks.
        """
    def shared_prefixes(self, /, n: SupportsIndex) -> list[list[tuple[int, int]]] | None:
        """
        After `read`: at most `n` shared prefixes that save most, and `n` that most requests have, each as tokens and
        requests; None where there are too many blocks to tell.
        """
    def source(self, /) -> dict:
        """
        What `read` found in the file: `block_size`, `time_unit`, `unit_in_doubt`, `ids_repeat`,
        `classes`, `bytes` and `seconds`. Empty after `of`.
        """

def after_fork_in_child() -> None:
    """
    Called by Python in the child of a fork; managers made before it refuse to work.
    """

def build_profile() -> str:
    """
    How the core was built: "release" or "debug".
    """

def check_options(table: dict) -> list[tuple[str, bool, str]]:
    """
    Everything that the rules of the core forbid of a table of options: the key of each, whether it has
    a value, and what is allowed.
    """

def copies(
    src: Any,
    dst: Any,
    tokens: Any | None,
    *,
    block_size: SupportsIndex,
    src_blocks: SupportsIndex,
    dst_blocks: SupportsIndex,
    once: bool,
) -> Incomplete | None:
    """
    Copies from a pool of `src_blocks` to one of `dst_blocks`: int32 of (n, 3), source, destination
    and tokens of each, `block_size` tokens if None. None if they are no integer arrays, out of
    range, or if a destination must be named `once` and is not: the caller's general path then finds
    out which.
    """

def few_copies(
    src: Any,
    dst: Any,
    tokens: Any | None,
    row: Any,
    *,
    block_size: SupportsIndex,
    blocks: SupportsIndex,
) -> int:
    """
    Writes copies within a pool of `blocks` that may all run at once into `row`: source, destination
    and tokens of each, `block_size` tokens if None. Answers how many they are, or 0 if they are
    none, too many, no integer arrays, out of range, or must run one after another. The caller's
    general path then finds out which.
    """

def node_key(node: SupportsIndex) -> list[int]:
    """
    The two words, low first, of the key that stands for a prefix node in a replay.
    """

def policy_options() -> dict[str, dict[str, list[tuple[str, int, int, int, str]]]]:
    """
    The built-in policies of each kind, and the options that each declares.
    """

def replay(
    trace: Trace,
    policy: Any,
    capacity: SupportsIndex | None,
    mode: str,
    options: dict | None = None,
    *,
    log: bool = False,
    per_request: bool = False,
    admission: Any | None = None,
    admission_options: dict | None = None,
    matcher: Any | None = None,
    core: dict | None = None,
) -> dict:
    """
    Replays a trace through the manager: admit, commit, release, one request at a time, or (`mode`
    "timed") by the clock, beside those that still run.

    `policy` and `admission` are a built-in's name or a driver of a Python policy; `capacity` counts blocks, None
    holds everything. Returns what was counted, a dict. With `per_request` it has arrays as well, an entry a request:
    `request_hit_tokens` and `request_after_gap_tokens` (uint32), and in timed mode `request_ttft_seconds` (float64,
    NaN for a request larger than the cache). `core` has further options of the manager.
    """

def report_unraisable(exception: BaseException, place: Any) -> None:
    """
    Reports an exception that no caller can receive to ``sys.unraisablehook``; it arose in
    ``place``.
    """

def rewrite_rows(
    stream: Any,
    name: str,
    out: Any,
    block_size: SupportsIndex | None = None,
    time_unit: str | None = None,
    form: str | None = None,
    *,
    sort: bool = False,
) -> int:
    """
    Reads a stream as `Trace.read` does and writes its requests to `out` as JSONL rows, one by one;
    answers how many. Of the blocks only the distinct ones are kept in memory.
    """

def serve(
    trace: Trace,
    engines: SupportsGetItem[int, Incomplete],
    capacity: SupportsIndex | None,
    profile: StepProfile,
    *,
    router: Incomplete | None = None,
    core: dict | None = None,
    max_num_seqs: SupportsIndex = 256,
    max_num_batched_tokens: SupportsIndex = 8192,
    long_prefill_token_threshold: SupportsIndex = ...,
    chunked_prefill: bool = True,
    order: str = "fcfs",
    priorities: SupportsGetItem[int, SupportsIndex] = ...,
    shares: SupportsGetItem[int, SupportsFloat | SupportsIndex] = ...,
    load: SupportsFloat | SupportsIndex = 1.0,
    closed_loop: bool = False,
    one_at_a_time: bool = False,
    cache_generated: bool = True,
    tell_next_use: bool = False,
    preemption: str = "recompute",
    preemption_order: str = "last-admitted",
    load_layers: SupportsIndex = 0,
    returns: tuple[SupportsFloat | SupportsIndex | None, SupportsFloat | SupportsIndex]
    | None = None,
    join: bool = False,
    speculation: Incomplete | None = None,
    time_factor: SupportsFloat | SupportsIndex = 1.0,
    every_step: bool = False,
) -> dict:
    """
    Serves a trace with simulated servers, whose blocks the core holds.

    `engines` has a table for each; several have a `router` before them, which sends each request to one of them
    when it arrives. `capacity` counts the blocks of each, None holds everything; `core` has further options of
    their managers. `speculation` says how answers are drafted. With `load_layers`, a load and the first step behind it go layer by layer
    side by side. `returns` says how many seconds after a turn the next one of its session is expected, None
    where the trace has it, and how long before that its blocks are back in the pool. `priorities` and `shares` have one for each class of the trace. Times between arrivals are divided by
    `load`, or with `one_at_a_time` each comes when the one before has ended and is of no tenant, and steps take `time_factor` times what the profile says. Returns what was counted, and a column for
    each fact of the requests; with a router, of all servers together, the server of each request, the tokens
    that the router believed to be cached there, and under `"engines"` what each server counted.
    """

def session_id(session: SupportsIndex | str) -> int:
    """
    The number by which policies see a session.
    """

def __getattr__(name: str) -> Incomplete: ...
