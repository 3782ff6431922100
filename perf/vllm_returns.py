"""Which requests of a load return to a prefix, by what a cache could know of it then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvframe_vllm.replay.workload import Families

BLOCK = 16
ANSWER = 16

USES = ((1, "used once"), (2, "twice"), (8, "3 to 8 times"))
WAITS = ((0.5, "waited < 1/2"), (1, "1/2 to 1"), (2, "1 to 2"), (4, "2 to 4"))


class Kind(NamedTuple):
    """How often the prefix was used, and how long it waited.

    Attributes:
        uses: Place among `USES`; beyond them, their number.
        wait: The same of `WAITS`, in blocks that came meanwhile, over the pool's.
    """

    uses: int
    wait: int

    def __str__(self) -> str:
        uses = [name for _, name in USES] + ["more"]
        waits = [name for _, name in WAITS] + ["more"]
        return f"{uses[self.uses]}, {waits[self.wait]}"


def returns(prompts: Sequence[Sequence[int]], capacity: int) -> Iterator[Kind | None]:
    """The kind of each request; None where no request before it had its prefix.

    Args:
        prompts: Of `Families`, in the order of arrival.
        capacity: Blocks of the pool.
    """
    shared = Families.prefix // BLOCK
    uses: dict[tuple[int, ...], int] = {}
    last: dict[tuple[int, ...], int] = {}
    # A prefix once, and of each request what it alone has.
    own = [-(-(len(prompt) + ANSWER) // BLOCK) for prompt in prompts]
    heads = [tuple(prompt[: Families.prefix]) for prompt in prompts]
    families = {head for head, count in Counter(heads).items() if count > 1}
    for at, head in enumerate(heads):
        if head in last:
            between = range(last[head] + 1, at)
            again = [heads[one] for one in between if heads[one] in families]
            blocks = sum(own[one] for one in between)
            blocks -= shared * (len(again) - len(set(again)))
            yield Kind(
                _place(uses[head], [most for most, _ in USES]),
                _place(blocks / capacity, [most for most, _ in WAITS]),
            )
        else:
            yield None
        uses[head] = uses.get(head, 0) + 1
        last[head] = at


def _place(value: float, limits: Sequence[float]) -> int:
    return next((at for at, most in enumerate(limits) if value <= most), len(limits))
