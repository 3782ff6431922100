"""From what vLLM's scheduler tells a connector to the steps of a set of shadows that do as it does.

For schedulers whose way of making up steps is not known (`kvframe_vllm.shadow.arrivals`).

This runs on the engine's thread, so calls only note, and what is noted is worked off some steps
together: code that runs once a step finds its caches cold. That a block of an answer is full is
said with the block after it, a step later than in vLLM, unless a request that finds it begins
before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvframe.shadow import ShadowSet
from kvframe.shadow.shadows import Begun, Progress
from kvframe_vllm.pool import use_of_request

BATCH = 16
"""Steps that are worked off together."""


class _Allocated(NamedTuple):
    """A request that has got its blocks: what vLLM found of it, and its tokens by then."""

    request: Any
    found: int
    tokens: int


class _Followed:
    """A running request, and how many of its keys were told."""

    __slots__ = ("live", "number", "request", "told")

    def __init__(self, number: int, request: Any) -> None:
        self.number, self.request, self.told, self.live = number, request, 0, True


class Traffic:
    """Follows the requests of a scheduler.

    Args:
        shadows: What is fed.
        block_size: Tokens of a block, and of a hash.
        asynchronous: Whether a step is scheduled before the tokens of the last one are there.
    """

    def __init__(self, shadows: ShadowSet, block_size: int, *, asynchronous: bool) -> None:
        self._shadows, self._size, self._asynchronous = shadows, block_size, asynchronous
        self._running: dict[str, _Followed] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._step = 0
        # By step: requests whose last block will be full by then, at a token a step.
        self._filling: dict[int, list[_Followed]] = {}
        # What is noted, and not worked off.
        self._found = 0
        self._allocated: list[_Allocated] = []
        self._ended: list[tuple[Any, int]] = []
        self._noted: list[tuple[Any, list[tuple[Any, int]], list[_Allocated]]] = []

    # --- notes ------------------------------------------------------------------------------------

    def came(self, request: Any) -> None:
        """A request came, and waits: to the shadows it is there when it begins."""

    def looked_up(self, found: int) -> None:
        """A request that waits was looked up; what counts is the last answer before its blocks."""
        self._found = found

    def allocated(self, request: Any) -> None:
        """The request that was looked up last has got its blocks."""
        self._allocated.append(_Allocated(request, self._found, request.num_tokens))

    def finished(self, request: Any) -> None:
        """A request has ended; its blocks are about to be freed."""
        # The last token was sampled, and is never computed.
        known = request.num_tokens - (request.num_output_tokens > 0)
        self._ended.append((request, min(request.num_computed_tokens, known)))

    def scheduled(self, output: Any) -> bool:
        """A step is scheduled. Whether what is noted was given to the shadows."""
        self._noted.append((output, self._ended, self._allocated))
        # New ones even where they are empty: what comes later belongs to the next step.
        self._ended, self._allocated = [], []
        if len(self._noted) < BATCH:
            return False
        self.work_off()
        return True

    # --- the work ---------------------------------------------------------------------------------

    def work_off(self) -> None:
        """Give the shadows what is noted."""
        noted, self._noted = self._noted, []
        for output, ended, allocated in noted:
            self._filling.pop(self._step - 1, None)
            self._step += 1
            scheduled = output.num_scheduled_tokens
            gone = [self._end(*each) for each in ended]
            grown = self._grown(output.scheduled_cached_reqs, scheduled)
            if not (grown or gone or allocated or output.preempted_req_ids):
                continue
            if allocated and self._filling:
                grown += self._filled(allocated)
            self._shadows.step(
                ended=[each for each in gone if each is not None],
                grown=grown,
                preempted=self._preempted(output.preempted_req_ids or ()),
                begun=[
                    self._begun(new, scheduled[new.request.request_id])
                    for new in allocated
                    if new.request.request_id in scheduled
                ],
            )

    def reset(self) -> None:
        """The prefix cache was reset."""
        self.work_off()
        self._shadows.reset()

    def _end(self, request: Any, computed: int) -> Progress | None:
        followed = self._running.pop(request.request_id, None)
        self._numbers.pop(request.request_id, None)
        if followed is None:
            return None
        followed.live = False
        return self._progress(followed, computed, computed)

    def _grown(self, cached: Any, scheduled: dict[str, int]) -> list[Progress]:
        """Running requests that got blocks. One loop without calls: most have got none."""
        names, lengths, size = cached.req_ids, cached.num_computed_tokens, self._size
        grown: list[Progress] = []
        for at, blocks in enumerate(cached.new_block_ids):
            # One that comes back after a preemption is not running yet.
            if blocks is None or (followed := self._running.get(names[at])) is None:
                continue
            request, told = followed.request, followed.told
            slots = lengths[at] + scheduled[names[at]]
            computed = min(slots, request.num_tokens)
            if slots > request.num_prompt_tokens:
                self._will_fill(followed, slots)
            keys = request.block_hashes[told : computed // size]
            followed.told = told + len(keys)
            grown.append((followed.number, keys, slots, computed))
        return grown

    def _will_fill(self, followed: _Followed, slots: int) -> None:
        """A request generates: note the step in which the block that it got is full.

        Asynchronously vLLM knows of that a step later, when the next block is told anyway.
        """
        if not self._asynchronous:
            due = self._step + -slots % self._size
            self._filling.setdefault(due, []).append(followed)

    def _filled(self, allocated: list[_Allocated]) -> list[Progress]:
        """Blocks of answers that are full by now, were not told, and begin what was allocated."""
        found = []
        steps = self._step - 1, self._step
        for followed in [each for step in steps for each in self._filling.get(step, ())]:
            told, own = followed.told, followed.request.block_hashes
            if followed.live and any(
                own[told : told + 1] == new.request.block_hashes[told : told + 1] != []
                for new in allocated
            ):
                slots = (told + 1) * self._size
                found.append(self._progress(followed, slots, slots))
        return found

    def _progress(self, followed: _Followed, slots: int, computed: int) -> Progress:
        until = computed // self._size
        keys = followed.request.block_hashes[followed.told : until]
        followed.told += len(keys)
        return followed.number, keys, slots, computed

    def _preempted(self, names: Any) -> list[int]:
        found = [self._running.pop(name, None) for name in names]
        gone = [followed for followed in found if followed is not None]
        for followed in gone:
            followed.live = False
        return [followed.number for followed in gone]

    def _begun(self, new: _Allocated, more: int) -> Begun:
        request, found, tokens = new
        name = request.request_id
        first = name not in self._numbers
        if first:
            self._numbers[name] = self._next
            self._next += 1
        followed = self._running[name] = _Followed(self._numbers[name], request)
        slots = found + more
        keys = request.block_hashes[: tokens // self._size]
        followed.told = len(keys)
        if slots >= tokens:
            self._will_fill(followed, slots)
        findable = 0 if request.skip_reading_prefix_cache else tokens - 1
        lengths = tokens, findable, slots, min(slots, tokens), found
        return followed.number, keys, *lengths, first, use_of_request(request).row()
