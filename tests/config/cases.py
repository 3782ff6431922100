"""One faulty kvframe.toml for each rule, and the whole message it must give."""

from __future__ import annotations

MODEL = "[model]\nlayers = 32\nkv_heads = 8\nhead_dim = 128\n"

UNKNOWN = [
    (
        "[cache]\nblok_size = 16",
        "cache.blok_size = 16: unknown key; did you mean cache.block_size?",
    ),
    ("\nblock_size = 16", "block_size = 16: unknown key; did you mean cache.block_size?"),
    (
        "\ncach = { hash = 'sha256' }",
        'cach = { hash = "sha256" }: unknown key; did you mean cache?',
    ),
    (
        "\n[engine]",
        "engine = {}: unknown key; "
        "a configuration has cache, model, groups, eviction, admission, prefix, pressure, "
        "retention, observe, tenants, tiers, plugins, security",
    ),
    (
        "[eviction]\nprotected_uses = 3",
        "eviction.protected_uses = 3: unknown key; eviction has policy, options, on_error, "
        "budget_ms, window; an option of what is chosen there is eviction.options.protected_uses",
    ),
    (
        "[retention]\npolicy = 'lru'",  # several sections have such a key
        'retention.policy = "lru": unknown key; retention has pin_cap, sessions',
    ),
    (
        "[plugins]\nonly = []",
        "plugins.only = []: unknown key; plugins has allow, block, places, lock",
    ),
]

TYPES = [
    (
        "[cache]\nblock_size = '16'",
        'cache.block_size = "16": must be a whole number between 1 and 65536, not a string',
    ),
    (
        "[cache]\nblock_size = true",
        "cache.block_size = true: must be a whole number between 1 and 65536, not a boolean",
    ),
    (
        "[cache]\nnull_block = 1",
        "cache.null_block = 1: must be true or false, not a whole number",
    ),
    (
        "[cache]\ncapacity = 1.5",
        "cache.capacity = 1.5: must be a whole number between 1 and 4294967295, a string or "
        "a table of max_seq_len, max_requests, not a number",
    ),
    ("[plugins]\nallow = [1]", "plugins.allow = [1]: must be an array of strings"),
    ("[plugins]\nallow = 'x'", 'plugins.allow = "x": must be an array of strings, not a string'),
    (f"[cache]\ncapacity = '{'9' * 5000} GiB'",
        f'cache.capacity = "{"9" * 56}...: must be blocks (4096), bytes with a unit ("40 GiB"; '
        "B, kB, KiB to PB, PiB) or { max_seq_len = 8192, max_requests = 64 }"),
    ("[eviction]\noptions = 1", "eviction.options = 1: must be a table, not a whole number"),
    ("\neviction = 1979-05-27", "eviction = 1979-05-27: must be a table of policy, options, "
        "on_error, budget_ms, window, not a date"),
    ("\ngroups = [3]", "groups[0] = 3: must be a table of name, kind, window, chunk, sink, "
        "block_size, interval, lag, layers, page_bytes, not a whole number"),
    ("[tiers]\nname = 'host'",
        'tiers = { name = "host" }: must be an array of tables: write [[tiers]]'),
    ("\ngroups = 'full'", 'groups = "full": must be an array of tables, not a string'),
]  # fmt: skip

LIMITS = [
    ("[cache]\nblock_size = 0", "cache.block_size = 0: must be between 1 and 65536"),
    ("[cache]\nblock_size = 65537", "cache.block_size = 65537: must be between 1 and 65536"),
    ("[cache]\ncapacity = 0", "cache.capacity = 0: must be between 1 and 4294967295"),
    ("[cache]\ncapacity = -1", "cache.capacity = -1: must be between 1 and 4294967295"),
    ("[cache]\ncapacity = 4294967296",
     "cache.capacity = 4294967296: must be between 1 and 4294967295"),
    (
        "[cache]\nhash = 'sha265'",
        'cache.hash = "sha265": must be "blake3", "sha256" or "xxh3-128"; did you mean sha256?',
    ),
    (
        "[eviction]\non_error = 'ignore'",
        'eviction.on_error = "ignore": must be "fallback" or "raise"',
    ),
    ("[eviction]\nwindow = 1025", "eviction.window = 1025: must be between 0 and 1024"),
    ("[eviction]\nwindow = -1", "eviction.window = -1: must be between 0 and 1024"),
    ("[[groups]]\nname = ''", 'groups[0].name = "": must be a string of at least 1 character(s)'),
    ("[cache.capacity]\nmax_seq_len = 0",
     "cache.capacity.max_seq_len = 0: must be between 1 and 4294967295"),
]  # fmt: skip

CAPACITIES = [
    (
        "[cache]\ncapacity = '40 GiB'",
        'cache.capacity = "40 GiB": bytes need [model]: layers, kv_heads and head_dim say what a '
        "block takes",
    ),
    (
        f"[cache]\ncapacity = '2097151 B'\n{MODEL}",
        'cache.capacity = "2097151 B": must be at least one block, which takes 2097152 bytes',
    ),
    (
        f"[cache]\ncapacity = '40 gibberish'\n{MODEL}",
        'cache.capacity = "40 gibberish": must be blocks (4096), bytes with a unit ("40 GiB"; B, '
        "kB, KiB to PB, PiB) or { max_seq_len = 8192, max_requests = 64 }",
    ),
    (
        f"[cache]\ncapacity = '9000 PiB'\n{MODEL}",
        'cache.capacity = "9000 PiB": gives 4831838208000 blocks; must be between 1 and 4294967295',
    ),
    (
        "[cache]\ncapacity = { max_seq_len = 65536, max_requests = 4294967295 }",
        "cache.capacity = { max_seq_len = 65536, max_requests = 4294967295 }: gives "
        "17592186040320 blocks; must be between 1 and 4294967295",
    ),
    (
        "[cache]\ncapacity = { max_seq_len = 8192 }",
        "cache.capacity.max_requests: missing; it must be a whole number between 1 and 4294967295",
    ),
    (
        "[cache]\ncapacity = 1\nnull_block = true",
        "cache.capacity = 1: must be at least 2: block 0 is the null block",
    ),
]

GROUPS = [
    ("\ngroups = []", "groups: 0 groups; must be between 1 and 16"),
    ("[[groups]]\nkind = 'full'", "groups[0].name: missing; it must be a string"),
    (
        "[[tiers]]\nname = 'host'",
        'tiers[0].capacity: missing; it must be pages (4096), or bytes with a unit ("64 GiB")',
    ),
    (
        "[[groups]]\nname = 'a'\n[[groups]]\nname = 'a'",
        'groups[1].name = "a": is another group\'s name too',
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'sliding_window'",
        "groups[0].window: missing; a sliding_window group needs it, in tokens",
    ),
    (
        "[[groups]]\nwindow = 0\nkind = 'sliding_window'\nname = 'a'",
        "groups[0].window = 0: must be between 1 and 4294967295",
    ),
    (
        "[[groups]]\nwindow = 8\nname = 'a'",
        'groups[0].window = 8: only valid with kind = "sliding_window" or kind = "sink_window"',
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'chunkd'",
        'groups[0].kind = "chunkd": must be "chunked", "cross", "full", "sink_window", '
        '"sliding_window" or "state"; did you mean chunked?',
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'chunked'",
        "groups[0].chunk: missing; a chunked group needs it, in tokens",
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'sink_window'\nwindow = 4",
        "groups[0].sink: missing; a sink_window group needs it, in tokens",
    ),
    (
        "[[groups]]\nname = 'a'\nchunk = 4",
        'groups[0].chunk = 4: only valid with kind = "chunked"',
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'state'\nlag = 1",
        "groups[0].lag = 1: a state group does not attend to tokens",
    ),
    (
        "[[groups]]\nname = 'a'\ninterval = 16",
        "groups[0].interval = 16: a full group gives up no blocks",
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'state'\ninterval = 24",
        "groups[0].interval = 24: must be 0 or a multiple of 16 tokens, the unit all groups can "
        "serve",
    ),
    (
        "[[groups]]\nname = 'a'\nblock_size = 24",
        "groups[0].block_size = 24: must be a multiple of cache.block_size = 16",
    ),
    (
        "[[groups]]\nname = 'a'\nkind = 'cross'",
        'groups: at least one group must not be kind = "cross"',
    ),
    (
        "[model]\nlayers = 3\nkv_heads = 1\nhead_dim = 1\n[[groups]]\nname = 'a'\n"
        "[[groups]]\nname = 'b'",
        "model.layers = 3: must be a multiple of the 2 groups",
    ),
]

POLICIES = [
    (
        "[eviction]\npolicy = 'opt'",
        'eviction.policy = "opt": needs to know the future; only kvframe bench can run it, on a '
        "trace",
    ),
    ("[eviction.options]\nfoo = 1", "eviction.options.foo = 1: lru takes no options"),
    (
        "[eviction]\npolicy = 'slru'\n[eviction.options]\nprotected_use = 1",
        "eviction.options.protected_use = 1: unknown key; did you mean "
        "eviction.options.protected_uses?",
    ),
    (
        "[eviction]\npolicy = 'slru'\n[eviction.options]\nprotected_uses = 0",
        "eviction.options.protected_uses = 0: must be between 1 and 4294967295",
    ),
    (
        "[eviction]\npolicy = 'slru:protected_uses=0'",
        "eviction.options.protected_uses = 0: must be between 1 and 4294967295",
    ),
    (
        "[eviction]\npolicy = 'slru:protected_uses=3'\n[eviction.options]\nprotected_uses = 4",
        "eviction.options.protected_uses = 4: is given in eviction.policy, too",
    ),
    (
        "[eviction]\npolicy = 'second-use'",
        'eviction.policy = "second-use": no eviction policy second-use: it is of kind admission, '
        "named in admission.policy (bench: --admission)",
    ),
    (
        "[prefix]\npolicy = 'hash'\n[cache]\nindex = 'radix'",
        "prefix.policy = \"hash\": cache.index = 'radix' differs",
    ),
]

RATE = 'must be bytes a second, such as "50 GB/s"'

TIERS = [
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\nadmission = { policy = 'selective:uses=0' }",
        "tiers[0].admission.options.uses = 0: must be between 1 and 4294967295",
    ),
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\n[tiers.eviction]\npolicy = 'opt'",
        'tiers[0].eviction.policy = "opt": ranks no pages of a tier: take another',
    ),
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\n[tiers.eviction.options]\nx = 1",
        "tiers[0].eviction.options.x = 1: lru takes no options",
    ),
    *(
        (f"[[tiers]]\nname = 'h'\ncapacity = 4\n{line}", f"tiers[0].{words}")
        for line, words in (
            ("read = 'fast'", f'read = "fast": {RATE}'),
            ("read = '20 Gb/s'", f'read = "20 Gb/s": {RATE}; did you mean 20 GB/s?'),
            ("write = '20GB'", f'write = "20GB": {RATE}; did you mean 20GB/s?'),
            ("write = '0 GB/s'", f'write = "0 GB/s": {RATE}'),
            ("latency = 'soon'", 'latency = "soon": must be a time, such as "20 us" or "1 ms"'),
            (
                "each = '14 GB/s'",
                'each = "14 GB/s": transfers that go in turn have all of the link: '
                'add sharing = "even"',
            ),
            (
                "break_even = 'aut'",
                'break_even = "aut": must be tokens, at most 4294967295, or "auto"; did you mean '
                "auto?",
            ),
        )
    ),
]

OLD = "which holds those of the chosen policy, without its name"
IN_A_FILE = ("\neviction = 'lru'", 'eviction = "lru": must be a table: write eviction.policy')
"""As a keyword it is the name of a policy."""
MOVED = [
    ("[policy]\neviction = 'lru'", 'policy.eviction = "lru": is now eviction.policy'),
    ("[policy]\nwindow = 4", "policy.window = 4: is now eviction.window"),
    ("[policy]\non_error = 'raise'", 'policy.on_error = "raise": is now eviction.on_error'),
    ("[policy]\nbudget_ms = 4", "policy.budget_ms = 4: is now eviction.budget_ms"),
    (
        "[policy.options.slru]\nprotected_uses = 3",
        f"policy.options = {{ slru = {{ protected_uses = 3 }} }}: is now eviction.options, {OLD}",
    ),
    ("\npolicy = 'lru'", 'policy = "lru": is now eviction'),
    (
        "[admission]\npolicy = 'second-use'\n[admission.options.second-use]\nuses = 3",
        "admission.options.second-use = { uses = 3 }: the options of the chosen policy now stand "
        "in admission.options itself, without a name",
    ),
    (
        "[prefix.options.min-hit]\nmin_tokens = 3",
        "prefix.options.min-hit = { min_tokens = 3 }: the options of the chosen policy now stand "
        "in prefix.options itself, without a name",
    ),
    ("[cache]\nfingerprint = 'x'", 'cache.fingerprint = "x": is now cache.weight_version'),
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\neviction = 'arc'",
        'tiers[0].eviction = "arc": must be a table: write tiers[0].eviction.policy',
    ),
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\nadmission_options = { uses = 3 }",
        "tiers[0].admission_options = { uses = 3 }: is now tiers[0].admission.options",
    ),
    (
        "[[tiers]]\nname = 'h'\ncapacity = 4\neviction_options = {}",
        "tiers[0].eviction_options = {}: is now tiers[0].eviction.options",
    ),
    IN_A_FILE,
]
"""Keys of before, and the sentence with the new one."""

FAULTS = [*UNKNOWN, *TYPES, *LIMITS, *CAPACITIES, *GROUPS, *POLICIES, *TIERS, *MOVED]
