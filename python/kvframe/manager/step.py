"""`KVCacheManager.step`: passes a scheduler step to the core, and its result back to Python."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any, Never, Protocol

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.errors import UsageError
from kvframe.prompts import Prompts, Turns
from kvframe.request import Handles, Request, TokenIds
from kvframe.results import NO_COPIES, Allocation, CopyPlan, Remap, StepResult
from kvframe.spelling import did_you_mean


class Stepping(Protocol):
    """The parts of a manager that a step uses."""

    _core: Core
    _prompts: Prompts


def step(  # noqa: D417 self is the manager
    self: Stepping,
    *,
    done: Handles | None = None,
    failed: Handles | None = None,
    loaded: tuple[Handles, Handles] | None = None,
    truncate: tuple[Handles, Handles] | None = None,
    fill: tuple[Handles, TokenIds] | tuple[Handles, Handles, TokenIds] | None = None,
    commit: tuple[Handles, Handles] | None = None,
    fork: Handles | None = None,
    release: Handles | None = None,
    preempt: Handles | None = None,
    fence: int | None = None,
    passed: int | None = None,
    append: Handles | None = None,
    counts: Handles | None = None,
    tokens: TokenIds | None = None,
    extend: tuple[Handles, Handles] | None = None,
    allocate: Sequence[Request | TokenIds] | None = None,
    token_budget: int | None = None,
    batch_tokens: int | None = None,
    skip_refused: bool = False,
    tables: npt.NDArray[np.int32] | Sequence[npt.NDArray[np.int32]] | None = None,
    slots: npt.NDArray[np.int64] | Sequence[npt.NDArray[np.int64]] | None = None,
    rows: Handles | None = None,
    **strange: Never,
) -> StepResult:
    """Do all of a scheduler step in one call, in the order of the arguments.

    Only ``passed`` comes before all others. Sequences, tickets, lengths and counts are 1-d
    arrays of any integer dtype, or sequences of ints; so are token ids, and a uint32 array of
    these is read in place. Lengths and counts are in tokens.

    Args:
        done: Tickets of plans whose copies are queued ahead of later writes, of loads that
            came whole, and of leases that end.
        failed: Tickets of copies and loads that failed: sequences that need them are cut, see
            `StepResult.rewound`. A step settles a ticket once.
        loaded: (tickets, blocks): loads that ended with their first blocks good, as `loaded`.
        truncate: (sequences, their new lengths).
        fill: (sequences, ids) or (sequences, counts, ids): ids of the first tokens that were
            appended without ids, one sequence after the other; one each without counts.
        commit: (sequences, lengths computed and accepted).
        fork: Sequences to fork as they are now; `StepResult.forks` has the new ones.
        release: Sequences that end; they may be cut, committed and forked in the same step.
        preempt: Sequences that end for now; `StepResult.preempted` brings them back.
        fence: With steps in flight, the number of the last one that may touch what is
            released or cut, or lost with a copy that failed: its blocks wait until that step
            has ``passed``. From 0 up, below 2**64, by the engine's own count.
        passed: Steps up to this number have run; what waited for them is freed first.
        append: Sequences that grow. A step names a sequence at most once here and in
            ``extend``, as in every list of lengths; only ``fork`` may repeat one.
        counts: Tokens for each of them; one each if None.
        tokens: Their ids, one sequence after the other; None while they are being computed
            (asynchronous scheduling), until ``fill`` of a later step brings them.
        extend: (sequences, lengths) whose known tokens get slots (chunked prefill).
        allocate: Requests, or prompts, that begin if there is room, first come, first served.
            The type of each is checked at once; a request is hashed and a prompt read when its
            turn comes, so that a long queue behind a refusal costs little. A matcher in Python,
            or an admission policy with a ``start``, is asked about all of them. Behind the
            first, a prompt that holds something other than token ids is refused by itself
            (`Reason.WRONG`).
        token_budget: Tokens that the new sequences together may leave to be computed; the last
            one gets what is left of the budget as its chunk.
        batch_tokens: Tokens that the whole step may give slots to: appended ones come first,
            all or none of a sequence's; then each extension goes as far as is left, and no
            further than the pool could hold of the sequence alone; and so does each
            new sequence's chunk. `StepResult.extended` says how far.
        skip_refused: Try requests behind a refusal too, instead of none of them.
        tables: int32 (rows, blocks), one a layer group: row i gets the changed entries of
            ``append[i]``'s block table; what was written there before must still stand. Blocks
            from `allocate`, `extend` and `fork` are not written: `block_tables` fills a row then.
        slots: int64, one a layer group: where the appended tokens go, one sequence after the
            other; -1 for a sequence that was refused, and in a ``cross`` group.
        rows: The row of ``tables`` for each of ``append``, if the engine gives each sequence a
            row of its own; no row twice. If None, rows count up from 0.

    Raises:
        HandleError: A sequence is unknown or has ended, a ticket is unknown or settled, or
            either is named twice where it ends; nothing was done.
        UsageError: A length, a dtype, a shape or a buffer is wrong, or a list of lengths names
            a sequence twice; nothing was done.
        KeyboardInterrupt: It came while a policy in Python ran. The step is done all the same,
            except for growth that waited for the policy: the exception's ``stepped`` says what
            was done. So does that of a `UsageError` where a policy has changed the type, the
            shape or the memory of ``tables`` or ``slots``, which then miss what came after.
    """
    for name in strange:
        known = signature(step).parameters
        raise UsageError(f"{name}: a step has no such argument{did_you_mean(name, known)}")
    waiting: Sequence[Any] | None = None
    count, turns, answers = 0, None, []
    if allocate is not None:
        if self._prompts.unkept:
            self._prompts.tell_unkept()
        waiting = queue_of(allocate)
        count = len(waiting)
        if self._prompts.asks_of_queue:
            turns = self._prompts.turns(requests_of(waiting), skip_refused)
        if turns is not None:
            waiting, answers = turns.ready.cores, turns.ready.answers
            count = len(waiting)
    try:
        told = self._core.step(
            # By position: twenty keywords cost more than a step of twenty sequences.
            done,
            failed,
            loaded,
            truncate,
            fill,
            commit,
            fork,
            release,
            preempt,
            fence,
            passed,
            append,
            counts,
            tokens,
            extend,
            waiting,
            token_budget,
            batch_tokens,
            skip_refused,
            [tables] if isinstance(tables, np.ndarray) else tables,
            [slots] if isinstance(slots, np.ndarray) else slots,
            rows,
            answers,
        )
    except BaseException as error:
        if (left := error.__dict__.get("stepped")) is not None:
            error.__dict__["stepped"] = step_result(left, turns, count)
        raise
    tried, refused, rewound, plan, forks, preempted, extended, reasons, remaps = told
    if turns is None and not (count or tried or plan or preempted or remaps):
        # The common decode step: nothing to convert.
        same = (tried, refused, rewound, NO_COPIES, forks, preempted, extended, reasons, remaps)
        return StepResult._make(same)
    return step_result(told, turns, count)


def step_result(told: Any, turns: Turns | None, count: int) -> StepResult:
    """The core's answer to a step that got ``count`` requests, as Python's types."""
    tried, refused, rewound, plan, forks, preempted, extended, reasons, remaps = told
    result = StepResult(
        # The answer ends with the last request that was tried.
        [None if given is None else Allocation(*given) for given in tried]
        + [None] * (count - len(tried)),
        refused,
        rewound,
        NO_COPIES if plan is None else CopyPlan(*plan),
        forks,
        preempted,
        extended,
        reasons,
        [Remap(*entry) for entry in remaps],
    )
    return result if turns is None else turns.answer(result)


def queue_of(allocate: Sequence[Request | TokenIds]) -> Sequence[Request | TokenIds]:
    """The requests that a step is given, as a list or tuple."""
    # A single prompt, or a text, is no sequence of prompts.
    if isinstance(allocate, (list, tuple)):
        return allocate
    if not isinstance(allocate, Iterable) or isinstance(allocate, (str, bytes, np.ndarray)):
        limit = "must be a sequence of requests or prompts"
        raise UsageError(f"allocate = {reprlib.repr(allocate)}: {limit}")
    return list(allocate)


def requests_of(waiting: Sequence[Request | TokenIds]) -> list[Request]:
    """Requests; a prompt alone is a request without options."""
    requests = []
    for place, asked in enumerate(waiting):
        if asked is None:
            raise UsageError(f"allocate[{place}] = None: must be a request or a prompt")
        requests.append(asked if isinstance(asked, Request) else Request(asked))
    return requests
