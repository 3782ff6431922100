"""The index of a router: which of many workers holds which prefix, fed with their KV events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, Literal, NamedTuple, overload

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe._core import RouterIndex as _RouterIndex
from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.public import PublicPrefixes
from kvframe.request import MMItem, Request, TokenIds, items_of, name_bytes, space

BlockHashes = npt.NDArray[np.uint64] | Sequence[int]
"""Hashes as KV events carry them: unsigned 64 bits; of negative ints the low 64 bits count."""

MEDIUMS = {
    "GPU": 0,
    "CPU": 1,
    "CPU_PINNED": 1,
    "DISK": 2,
    "STORAGE": 2,
    "EXTERNAL": 3,
}
"""What vLLM's and SGLang's events call a tier (in any case), and its distance from compute."""

_SOMEWHERE = 4
"""A tier of another name: in the core, as far as any, and apart from those above."""

_WHOLE = frozenset({"fullattention", "mlaattention", "sinkfullattention"})
"""Kinds of layer groups, by vLLM's names, whose blocks serve a prefix up to them."""


class Reach(NamedTuple):
    """Leading blocks of a prompt that a worker holds, in each tier or a nearer one.

    Attributes:
        gpu: On the GPU.
        host: On the GPU or in host memory.
        disk: On the GPU, in host memory or on disk.
        anywhere: In any tier.
    """

    gpu: int
    host: int
    disk: int
    anywhere: int


class RouterCounts(NamedTuple):
    """What happened to events.

    Attributes:
        ignored: Events of workers that are not known, or not any more.
        unplaced: Blocks whose parent is not known, that came with too few token ids, that are of
            another size, or that would be their own ancestor.
        dropped: Blocks that were forgotten, or not taken, because the index was full.
        unknown_medium: Events with a medium that is none of `MEDIUMS`.
    """

    ignored: int
    unplaced: int
    dropped: int
    unknown_medium: int


class RouterIndex:
    """Which blocks each worker holds, fed with KV events and asked about prompts.

    With a block size, ask about prompts by their tokens (`match_tokens`). Engines may then use any
    hash: the index makes its own keys from the token ids in the events. Without one, blocks go by
    the hashes in the events, and `match_hashes` takes hashes made as the workers make them.

    A match is a walk along one prefix. A wrong answer, as when two 64-bit keys collide, costs a
    worse route and nothing else. Several threads may share an index.

    The data-parallel ranks of a worker have caches of their own: an event is about one of them. A
    rank is known as soon as its worker is.

    Args:
        block_size: Tokens in a block, the same for all workers; None to go by hashes.
        public: What all requests share in the workers, as their ``prefix.public`` says.
        capacity: Most blocks it keeps, with those of which only the ones behind them are held. In a
            full index the ends of prefixes are dropped first, those used least lately before
            others; of a chain longer than that, the head stays.

    Raises:
        UsageError: A number is below 1.
    """

    def __init__(
        self,
        block_size: int | None = None,
        *,
        capacity: int = 1 << 22,
        public: PublicPrefixes | None = None,
    ) -> None:
        for name, value in (("block_size", block_size), ("capacity", capacity)):
            if value is not None:
                _check_int(name, value)
                if value < 1:
                    raise UsageError(f"{name} = {shown(value)}: must be at least 1")
        if public is not None and not isinstance(public, PublicPrefixes):
            raise UsageError(f"public = {shown(public)}: must be a PublicPrefixes")
        if public is not None and public.block_size != block_size:
            raise UsageError(f"public: of blocks of {public.block_size}, not {block_size}, tokens")
        self.block_size, self._public = block_size, public
        self._groups: dict[int, dict[int, bool]] = {}
        self._core = _RouterIndex(block_size or 0, capacity, Reach)

    # --- workers ------------------------------------------------------------------------------

    def add_worker(self, worker: int) -> bool:
        """Make a worker known, which starts with no blocks; False if it is known already.

        Events of unknown workers are ignored and counted, so that events still queued when a worker
        was removed do not bring it back.
        """
        _check_int("worker", worker)
        added = self._core.add_worker(worker)
        if added:
            self._groups[worker] = {}
        return added

    def remove_worker(self, worker: int) -> bool:
        """Forget a worker and all its ranks held; False if it is not known. O(blocks)."""
        _check_int("worker", worker)
        self._groups.pop(worker, None)
        return self._core.remove_worker(worker) is not None

    def workers(self) -> list[int]:
        """The workers that are known."""
        return self._core.workers()

    # --- events -------------------------------------------------------------------------------

    def stored(
        self,
        worker: int,
        block_hashes: BlockHashes,
        parent: int | None = None,
        token_ids: TokenIds = (),
        *,
        rank: int = 0,
        block_size: int | None = None,
        medium: str = "GPU",
        cache_salt: str | None = None,
        lora_name: str | None = None,
        extra_keys: Sequence[Any] | None = None,
    ) -> int:
        """A worker holds blocks, each the child of the one before (BlockStored).

        Args:
            worker: The worker's number.
            block_hashes: The worker's own hashes.
            parent: Hash of the block before the first; None at the start of a prompt.
            token_ids: Tokens of all the blocks, one after the other. Empty if the event says that
                known blocks are in another tier too. Not needed when blocks go by their hashes.
            rank: The worker's data-parallel rank.
            block_size: Tokens in each of these blocks, if the event says it: blocks of another size
                than the index's are not placed.
            medium: The tier, one of `MEDIUMS` in any case. Blocks in any other one count in no
                nearer tier than `Reach.anywhere`.
            cache_salt: What sets tenants apart; only where ``parent`` is None.
            lora_name: The LoRA or other adapter; only where ``parent`` is None.
            extra_keys: What else sets blocks apart, one entry per block: None, or a list with
                [identifier, offset from the block's first token] for each multimodal item that has
                tokens in the block (vLLM). With anything else in it, no prompt matches the block.

        Returns:
            How many blocks were placed; see `counts` for the others.

        Raises:
            UsageError: A hash of more than 64 bits, wrong token ids, or more or fewer
                ``extra_keys`` than blocks.
        """
        own = self.block_size
        if block_size is not None:
            _check_int("block_size", block_size)
        marks: list[int] = []
        if own is not None and _count(token_ids) > 0:
            if block_size not in (None, own):
                self._core.misfit(worker, rank, _blocks(block_hashes))
                return 0
            if extra_keys is not None:
                marks = _marks(extra_keys, _blocks(block_hashes))
        return self._core.stored(
            worker,
            rank,
            block_hashes,
            parent,
            token_ids,
            marks,
            _name("cache_salt", cache_salt),
            _name("lora_name", lora_name),
            _tier(medium),
        )

    def removed(
        self, worker: int, block_hashes: BlockHashes, *, rank: int = 0, medium: str = "GPU"
    ) -> int:
        """A worker no longer holds blocks in a tier (BlockRemoved); copies elsewhere remain.

        Returns:
            How many of them it held there.
        """
        return self._core.removed(worker, rank, block_hashes, _tier(medium))

    def cleared(self, worker: int, *, rank: int | None = None) -> int:
        """A rank holds nothing any more (AllBlocksCleared), or no rank of the worker does if None.

        Returns:
            How many blocks it held, or all of them together.
        """
        return self._core.cleared(worker, rank)

    def keeps(self, worker: int, group: int | None, kind: str | None = None) -> bool:
        """Whether a worker's events of a layer group are about whole prefixes.

        They are for the first group of full attention, or for group 0 if no such group is known.
        Blocks of a sliding window, or of recurrent layers, come and go under the same hashes.

        Args:
            worker: The worker's number.
            group: The layer group of the event; None if it names none.
            kind: What the group's layers attend to, in vLLM's words, if the event says it; it is
                remembered for events that do not.
        """
        _check_int("worker", worker)
        if kind is not None and not isinstance(kind, str):
            raise UsageError(f"kind = {shown(kind)}: must be a string")
        if group is None:
            return True
        _check_int("group", group)
        known = self._groups.get(worker, {})
        if kind is not None and group not in known:
            known = {**known, group: _plain(kind) in _WHOLE}
            if worker in self._groups:  # An unknown worker gets no entry.
                self._groups[worker] = known
        return group == min((one for one, whole in known.items() if whole), default=0)

    # --- questions ----------------------------------------------------------------------------

    @overload
    def match_tokens(
        self,
        prompt: TokenIds,
        *,
        cache_salt: str | None = None,
        lora_name: str | None = None,
        mm_items: Iterable[MMItem] = (),
        tenant: str = "",
        encoder: bytes = b"",
        ranks: Literal[False] = False,
    ) -> dict[int, Reach]: ...

    @overload
    def match_tokens(
        self,
        prompt: TokenIds,
        *,
        cache_salt: str | None = None,
        lora_name: str | None = None,
        mm_items: Iterable[MMItem] = (),
        tenant: str = "",
        encoder: bytes = b"",
        ranks: Literal[True],
    ) -> dict[tuple[int, int], Reach]: ...

    def match_tokens(
        self,
        prompt: TokenIds,
        *,
        cache_salt: str | None = None,
        lora_name: str | None = None,
        mm_items: Iterable[MMItem] = (),
        tenant: str = "",
        encoder: bytes = b"",
        ranks: bool = False,
    ) -> dict[int, Reach] | dict[tuple[int, int], Reach]:
        """How many leading blocks of a prompt each worker holds; workers with none are left out.

        Args:
            prompt: Token ids.
            cache_salt: What sets tenants apart.
            lora_name: The LoRA or other adapter.
            mm_items: Multimodal items among the tokens, by the identifiers that the engines give
                them (UTF-8). Without these a match ends where the first item begins.
            tenant: Whose request it is, where kvframe announces the blocks (`Request.tenant`).
            encoder: The other input that is attended to, likewise (`Request.encoder`).
            ranks: Answer for each data-parallel rank, by (worker, rank), instead of for each worker
                by the rank that reaches farthest.

        Raises:
            UsageError: The index goes by hashes, or an item is malformed.
        """
        if self.block_size is None:
            raise UsageError("the index goes by hashes: give it a block_size to match tokens")
        if self._public is not None:
            told = {"cache_salt": cache_salt or "", "lora_name": lora_name or "", "tenant": tenant}
            request = Request(prompt, **told, mm_items=mm_items, encoder=encoder)
            shared = self._public.shared(request)
            if shared.public:
                mm_items, tenant, cache_salt = map(MMItem._make, shared.mm_items), "", None
        keys = _extra_keys(mm_items, self.block_size, _count(prompt) // self.block_size)
        if not _says_nothing(tenant, encoder):
            cache_salt = routing_salt(tenant, cache_salt or "", encoder)
        names = _name("cache_salt", cache_salt), _name("lora_name", lora_name)
        return self._core.match_tokens(prompt, _marks(keys, len(keys)), *names, _flag(ranks))

    @overload
    def match_hashes(
        self, block_hashes: BlockHashes, *, ranks: Literal[False] = False
    ) -> dict[int, Reach]: ...

    @overload
    def match_hashes(
        self, block_hashes: BlockHashes, *, ranks: Literal[True]
    ) -> dict[tuple[int, int], Reach]: ...

    def match_hashes(
        self, block_hashes: BlockHashes, *, ranks: bool = False
    ) -> dict[int, Reach] | dict[tuple[int, int], Reach]:
        """As `match_tokens`, by the hashes of a prompt's blocks.

        Raises:
            UsageError: The index goes by tokens.
        """
        if self.block_size is not None:
            raise UsageError("the index goes by tokens: make it without a block_size")
        return self._core.match_hashes(block_hashes, _flag(ranks))

    def counts(self) -> RouterCounts:
        """What happened to events so far."""
        return RouterCounts(*self._core.counts())

    def __len__(self) -> int:
        """Blocks that some worker holds."""
        return len(self._core)

    def __repr__(self) -> str:
        way = "by hashes" if self.block_size is None else f"blocks of {self.block_size} tokens"
        return f"RouterIndex({way}: {len(self)} blocks, {len(self.workers())} workers)"


_APART = "kvframe:"


def _says_nothing(tenant: object, encoder: object) -> bool:
    """Whether a request names neither; what is no name is told by who reads it."""
    return isinstance(tenant, str) and isinstance(encoder, bytes) and not (tenant or encoder)


def routing_salt(tenant: str, cache_salt: str, encoder: bytes = b"") -> str:
    """The salt under which KV events announce blocks, for routers that know of salts alone.

    Where a request says no more than a salt, it is that salt; otherwise ``kvframe:`` and a SHA-256
    over tenant, salt and other input, and so for a salt that looks like one of these.

    Raises:
        UsageError: One of them is no text, or ``encoder`` no bytes.
    """
    if _says_nothing(tenant, encoder) and not cache_salt.startswith(_APART):
        return cache_salt
    named = space(cache_salt, "", (), encoder, tenant)
    parts = (named.get("tenant", b""), named["salt"], named["encoder"])
    told = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return _APART + sha256(told).hexdigest()


def _flag(ranks: bool) -> bool:
    if not isinstance(ranks, bool):
        raise UsageError(f"ranks = {shown(ranks)}: must be True or False")
    return ranks


def _check_int(name: str, value: object) -> None:
    if not is_int(value):
        raise UsageError(f"{name} = {shown(value)}: must be an integer")


def _name(name: str, text: str | None) -> Any:
    return None if text is None else name_bytes(name, text)


def _count(tokens: TokenIds) -> int:
    try:
        return len(tokens)
    except TypeError:  # none that the core takes
        return 0


def _blocks(block_hashes: BlockHashes) -> int:
    try:
        return len(block_hashes)
    except TypeError:
        limit = "must be a sequence of hashes"
        raise UsageError(f"block_hashes = {shown(block_hashes)}: {limit}") from None


def _extra_keys(mm_items: Iterable[MMItem], size: int, blocks: int) -> list[Any]:
    """Items of a prompt by block, as vLLM's events have them; None for blocks without."""
    keys: dict[int, list[Any]] = {}
    for start, end, name in sorted(items_of(mm_items)):
        for block in range(start // size, min(-(-end // size), blocks)):
            keys.setdefault(block, []).append([name, start - block * size])
    return [keys.get(block) for block in range(max(keys, default=-1) + 1)]


def _marks(extra_keys: Sequence[Any], blocks: int) -> list[int]:
    """64 bits that stand for what sets each block apart; 0 for nothing."""
    if not isinstance(extra_keys, list | tuple) or len(extra_keys) != blocks:
        raise UsageError(f"extra_keys = {shown(extra_keys)}: must be {blocks} entries, one a block")
    return [_mark(keys) if keys else 0 for keys in extra_keys]


def _mark(keys: Any) -> int:
    plain = [
        [_bytes(one) for one in key] if isinstance(key, list | tuple) else _bytes(key)
        for key in (keys if isinstance(keys, list | tuple) else [keys])
    ]
    try:
        data = msgspec.msgpack.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"extra_keys: {shown(keys)}: {error}") from error
    return int.from_bytes(blake2b(data, digest_size=8).digest()) or 1


def _bytes(key: Any) -> Any:
    return key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key


def _plain(kind: str) -> str:
    return kind.replace("_", "").lower()


def _tier(medium: str) -> int:
    if not isinstance(medium, str):
        raise UsageError(f"medium = {shown(medium)}: must be a string")
    tier = MEDIUMS.get(medium)
    return MEDIUMS.get(medium.upper(), _SOMEWHERE) if tier is None else tier
