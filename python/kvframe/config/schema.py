"""The sections of a configuration: every key, its type, its limits and its default."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

MAX_BLOCKS = 2**32 - 1
"""Block ids are unsigned 32-bit numbers."""

MAX_GROUPS = 16
"""Layer groups that one pool serves."""

Count = Annotated[int, Meta(ge=1, le=MAX_BLOCKS)]
Budget = Annotated[
    Annotated[float, Meta(gt=0, le=1e9)] | None,
    Meta(
        description="A policy in Python that takes longer than this for a decision is not asked "
        "again. If not given, there is no limit."
    ),
]
OnError = Literal["fallback", "raise"]
Options = Annotated[
    dict[str, Any],
    Meta(description="Of the policy, matcher or store that is named, checked by its schema."),
]
AdmissionName = Annotated[
    str, Meta(description="Name or place of the admission policy; see: kvframe plugins.")
]


class SequenceCapacity(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Enough blocks for ``max_requests`` sequences of ``max_seq_len`` tokens at once."""

    max_seq_len: Annotated[Count, Meta(description="Tokens of the longest sequence.")]
    max_requests: Annotated[Count, Meta(description="Sequences that run at once.")]


class CacheConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[cache]``: the block pool and the prefix index."""

    block_size: Annotated[
        int, Meta(ge=1, le=65536, description="Tokens in a block, the unit of allocation.")
    ] = 16
    capacity: Annotated[
        Count | str | SequenceCapacity,
        Meta(
            description='Blocks (4096), bytes with a unit ("40 GiB"; needs [model]), or '
            "{max_seq_len, max_requests}."
        ),
    ] = 4096
    hash: Annotated[
        Literal["sha256", "blake3", "xxh3-128"],
        Meta(
            description="Hash of the prefix keys. Under xxh3-128, which is not cryptographic, the "
            "tokens themselves are kept and compared; where a group gives blocks up, keys are "
            "chained by SHA-256 all the same."
        ),
    ] = "sha256"
    index: Annotated[
        Literal["hash", "radix"],
        Meta(
            description="How prompts are matched with blocks: by chained keys, or by the tokens "
            "themselves in a tree (full attention only)."
        ),
    ] = "hash"
    prefix_caching: Annotated[
        bool, Meta(description="Whether committed blocks are found again by later prompts.")
    ] = True
    null_block: Annotated[
        bool, Meta(description="Reserve block id 0, for engines that pad block tables with it.")
    ] = False
    weight_version: Annotated[
        str,
        Meta(
            description="Names the model's weights; part of every prefix key. A tier with a store "
            "needs it, unless the engine names the model."
        ),
    ] = ""
    event_log: Annotated[
        bool, Meta(description="Keep the ordered log of what happened to each block.")
    ] = False
    remap_duplicates: Annotated[
        bool,
        Meta(
            description="When a computed block turns out to be cached already, use the cached one "
            "instead; the step says which table entries changed."
        ),
    ] = False
    keep_duplicates: Annotated[
        bool,
        Meta(
            description="Blocks of the same content stay cached side by side, each evicted by "
            "itself, whatever follows it; the oldest is found. As vLLM does."
        ),
    ] = False
    partial_hits: Annotated[
        bool,
        Meta(
            description="Hits may end inside a block, which is then copied: in the partial last "
            "block of an ended sequence, or in any block under the radix index."
        ),
    ] = False


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[model]``: the shape that turns bytes into blocks.

    Either ``kv_heads`` and ``head_dim``, or ``latent_dim``.
    """

    layers: Annotated[Count, Meta(description="Layers that keep KV.")]
    kv_heads: Annotated[Count | None, Meta(description="KV heads of a layer on one GPU.")] = None
    head_dim: Annotated[
        Count | None, Meta(description="Values in a head's key, and in its value.")
    ] = None
    latent_dim: Annotated[
        Count | None,
        Meta(
            description="Values of a token's latent, which stands for its keys and values (MLA: "
            "kv_lora_rank + qk_rope_head_dim)."
        ),
    ] = None
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32", "fp8", "int8"],
        Meta(description="Type of the stored keys and values, or latents."),
    ] = "bfloat16"
    extra_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_BLOCKS)],
        Meta(
            description="Bytes that a layer keeps for a token besides those values: scales of a "
            "quantised cache, keys of an indexer."
        ),
    ] = 0


class GroupConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[groups]]``: layers that keep the same tokens, with a block table of their own."""

    name: Annotated[str, Meta(min_length=1, description="Any name; each group needs its own.")]
    kind: Annotated[
        Literal["full", "sliding_window", "chunked", "sink_window", "state", "cross"],
        Meta(description="What its layers attend to."),
    ] = "full"
    window: Annotated[
        Count | None,
        Meta(description="Tokens a sliding_window or sink_window group attends to."),
    ] = None
    chunk: Annotated[Count | None, Meta(description="Tokens of a chunked group's chunk.")] = None
    sink: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | None,
        Meta(description="Tokens at the front that a sink_window group keeps."),
    ] = None
    block_size: Annotated[
        Annotated[int, Meta(ge=1, le=65536)] | None,
        Meta(
            description="Tokens in a block of this group: a multiple of cache.block_size, which is "
            "also what it is if not given."
        ),
    ] = None
    interval: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | None,
        Meta(
            description="Tokens between the boundaries that stay findable, in addition to the "
            "prompt's end; 0: only the prompt's end. If not given, every boundary; blocks that "
            "only those within a prompt need are evicted first."
        ),
    ] = None
    lag: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_BLOCKS,
            description="Tokens by which its KV lags behind what is committed (a draft model).",
        ),
    ] = 0
    layers: Annotated[
        Count | None,
        Meta(description="Layers of the group. If not given, an even share of model.layers."),
    ] = None
    page_bytes: Annotated[
        Count | None,
        Meta(description="Bytes of one of its blocks over its layers, if [model] does not say."),
    ] = None


class EvictionConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[eviction]``: which policy says what is evicted next, and how it is asked."""

    policy: Annotated[
        str, Meta(description="Name or place of the eviction policy; see: kvframe plugins.")
    ] = "lru"
    options: Options = field(default_factory=dict)
    on_error: Annotated[
        OnError,
        Meta(description="When the policy misbehaves: fall back to the built-in order, or raise."),
    ] = "fallback"
    budget_ms: Budget = None
    window: Annotated[
        Annotated[int, Meta(ge=0, le=1024)] | None,
        Meta(
            description="Candidates offered to a batched policy; 0 offers all. If not given, what "
            "the policy asks for, or 256."
        ),
    ] = None


class AdmissionConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[admission]``: which committed blocks become findable, and stay when their owner ends."""

    policy: AdmissionName = "always"
    options: Options = field(default_factory=dict)
    on_error: Annotated[
        OnError, Meta(description="When the policy misbehaves: keep everything, or raise.")
    ] = "fallback"
    budget_ms: Budget = None


class PrefixConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[prefix]``: how prompts become keys, and how much of a found prefix is used."""

    policy: Annotated[
        str | None,
        Meta(
            description="Name or place of the prefix matcher; see: kvframe plugins. If not given, "
            "the index that cache.index names, and all that it finds."
        ),
    ] = None
    options: Options = field(default_factory=dict)
    on_error: Annotated[
        OnError, Meta(description="When the matcher misbehaves: match without it, or raise.")
    ] = "fallback"
    budget_ms: Budget = None
    public: Annotated[
        str | None,
        Meta(
            description="A file of prefixes that all tenants and salts share, a JSON list of token "
            "ids a line. If not given, none is."
        ),
    ] = None


class TierAdmissionConfig(AdmissionConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[tiers.admission]``: what enters the tier, and when."""

    policy: AdmissionName = "write-through"


class TierConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[tiers]]``: where KV goes when it leaves the pool, from the nearest down."""

    name: Annotated[str, Meta(min_length=1, description="Any name; each tier needs its own.")]
    store: Annotated[
        str,
        Meta(
            description='What keeps its bytes: "host" memory for the first, a store of '
            "kvframe plugins for those below."
        ),
    ] = "host"
    capacity: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | str,
        Meta(
            description='Pages (4096), or bytes with a unit ("64 GiB"; needs [model]). 0: the tier '
            "is off.",
            extra={"missing": 'must be pages (4096), or bytes with a unit ("64 GiB")'},
        ),
    ]
    options: Options = field(default_factory=dict)
    eviction: EvictionConfig = field(default_factory=EvictionConfig)
    admission: TierAdmissionConfig = field(default_factory=TierAdmissionConfig)
    in_flight: Annotated[
        Count, Meta(description="Most pages on their way in and out at once; more are refused.")
    ] = 4096
    high: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Past this share in use, room is made ahead of need where there is a tier "
            "below; the last tier keeps all that fits.",
        ),
    ] = 0.95
    low: Annotated[
        float, Meta(gt=0, le=1, description="The share in use down to which room is made.")
    ] = 0.9
    backed_first: Annotated[
        bool,
        Meta(description="Evict pages that the tier below also has before those it does not."),
    ] = False
    when_full: Annotated[
        Literal["drop", "refuse"],
        Meta(
            description="When a page has to go that the tier below should get but does not have "
            "yet: drop it, or refuse the call that needs the room."
        ),
    ] = "drop"
    timeout_ms: Annotated[
        Annotated[float, Meta(gt=0, le=1e12)] | None,
        Meta(description="A transfer that takes longer counts as failed. If not given, none does."),
    ] = None
    checksum: Annotated[
        Literal["xxh3", "crc32c", "none", "hmac-sha256"],
        Meta(
            description="Over each page, checked when it is read; part of its name. hmac-sha256 "
            "needs a key_file: what was written without that key is no page."
        ),
    ] = "xxh3"
    encryption: Annotated[
        Literal["none", "aes-256-gcm"],
        Meta(
            description="Of pages in a store, after compression, each tenant's under a key of its "
            "own; needs a key_file, and takes the checksum's place."
        ),
    ] = "none"
    key_file: Annotated[
        str | None,
        Meta(
            description="A file with a secret of 32 to 4096 bytes, for hmac-sha256 or encryption."
        ),
    ] = None
    compression: Annotated[
        Literal["none", "zstd", "zlib"],
        Meta(description="Of pages in a store; reversible, and part of their names."),
    ] = "none"
    quantise: Annotated[
        Literal["none", "fp8"],
        Meta(description="Of pages in a store: fp8 halves 16-bit KV, is lossy, and is named."),
    ] = "none"
    read: Annotated[
        str | None,
        Meta(
            description='For kvframe bench serve: what its link carries towards the pool ("50 '
            'GB/s"). If not given, an estimate is taken and told.'
        ),
    ] = None
    write: Annotated[
        str | None, Meta(description="The same away from the pool, for kvframe bench serve.")
    ] = None
    latency: Annotated[
        str | None,
        Meta(
            description='For kvframe bench serve: what a transfer takes besides ("20 us", "1 ms").'
        ),
    ] = None
    link: Annotated[
        str | None,
        Meta(
            description="For kvframe bench serve: any name; tiers with the same one share a link. "
            "If not given, the tier has one of its own."
        ),
    ] = None
    path: Annotated[
        str | None,
        Meta(
            description='For kvframe bench serve, with sharing = "even": further links that its '
            "--link names, with a + between them; what comes from the tier to the pool or goes "
            "there from the pool crosses them and its own at once."
        ),
    ] = None
    sharing: Annotated[
        Literal["in-turn", "even"],
        Meta(
            description="For kvframe bench serve: transfers queue on its link, or share it evenly."
        ),
    ] = "in-turn"
    each: Annotated[
        str | None,
        Meta(
            description='For kvframe bench serve, with sharing = "even": what one transfer has of '
            'its link at most ("14 GB/s").'
        ),
    ] = None
    break_even: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | str,
        Meta(
            description="For kvframe bench serve: fewer tokens than this are not loaded but "
            'computed; "auto" works it out from the step times and the link.'
        ),
    ] = 0


class PluginsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[plugins]``: which installed packages may load, and which files and modules."""

    allow: Annotated[
        list[str], Meta(description="If not empty, only these and the built-in ones may load.")
    ] = field(default_factory=list)
    block: Annotated[list[str], Meta(description="These may not load.")] = field(
        default_factory=list
    )
    places: Annotated[
        list[str],
        Meta(
            description="Files, folders and modules whose policies may be named by their place, as "
            '"deep.py:DeepFirst".'
        ),
    ] = field(default_factory=list)
    lock: Annotated[
        str | None,
        Meta(
            description="A file of kvframe plugins lock: installed packages load only in the "
            "version, and with the files, that it has. If not given, in any."
        ),
    ] = None


class SecurityConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[security]``: what a deployment must not use."""

    fips_hashes: Annotated[
        bool,
        Meta(
            description="Refuse hashes that no Federal Information Processing Standard approves, "
            "for keys and for checksums of pages: blake3, xxh3-128, xxh3. CRC-32C, which is no "
            "hash, may find damage."
        ),
    ] = False


class ObserveConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[observe]``: what the manager records to explain itself, beyond its counters."""

    statistics: Annotated[
        bool,
        Meta(description="Record why each prefix ended, and what the last 1,000 requests found."),
    ] = True
    ghosts: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_BLOCKS,
            description="About how many evicted keys to remember, at most one per block of the "
            "pool; 32 bytes each.",
        ),
    ] = 32768
    sample: Annotated[
        int,
        Meta(ge=0, le=MAX_BLOCKS, description="Time the life of 1 block in this many; 0: of none."),
    ] = 0


class RetentionConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[retention]``: what may be kept from eviction, and by whom."""

    pin_cap: Annotated[
        float, Meta(ge=0, le=1, description="Share of the pool that pins may hold.")
    ] = 1.0
    sessions: Annotated[
        bool,
        Meta(
            description="Track which blocks belong to one session alone, so that session hints "
            "can be taken."
        ),
    ] = False


Amount = Annotated[int, Meta(ge=0, le=MAX_BLOCKS)] | Annotated[float, Meta(ge=0, le=1)]
"""A number of blocks, or a share of them."""


class TenantConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[[tenants]]``: how much of pool and tiers a tenant is sure of, and how much it may have."""

    name: Annotated[
        str, Meta(min_length=1, description="As requests name it; each tenant needs its own.")
    ]
    floor: Annotated[
        Amount,
        Meta(
            description="Blocks that no other tenant can take from it (4096), or their share of "
            "the pool and of each tier (0.25)."
        ),
    ] = 0
    quota: Annotated[
        Amount | None,
        Meta(
            description="The most that it has, likewise; from there on it evicts its own. If not "
            "given, there is no limit."
        ),
    ] = None
    key_file: Annotated[
        str | None,
        Meta(
            description="A file with a secret of 32 to 4096 bytes, for this tenant's pages alone, "
            "in tiers with encryption. If not given, theirs."
        ),
    ] = None
    public: Annotated[
        bool,
        Meta(
            description="Whether its floor is for the blocks of prefix.public, which are then no "
            "other tenant's, and its quota too; no request names it."
        ),
    ] = False


class PressureConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[pressure]``: shares of the pool in use at which the level changes; what is kept back."""

    low: Annotated[float, Meta(gt=0, lt=1, description="Below this, high pressure ends.")] = 0.7
    high: Annotated[float, Meta(gt=0, lt=1, description="From here on, pressure is high.")] = 0.85
    critical: Annotated[
        float, Meta(gt=0, le=1, description="From here on, pressure is critical.")
    ] = 0.95
    reserve: Annotated[
        int,
        Meta(ge=0, le=MAX_BLOCKS, description="Blocks an admission leaves for running sequences."),
    ] = 0
