"""The server and the replicas that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvframe.bench.configured import Configured
from kvframe.bench.options import keyed, one_of, split_list
from kvframe.bench.server.below import Returns, parse_moves, parse_returns
from kvframe.bench.server.cards import Card
from kvframe.bench.server.cells import LAST_ADMITTED, NEVER, PREEMPTIONS, Server
from kvframe.bench.server.fleet import (
    ALONE,
    FEWEST,
    Fleet,
    Routing,
    check_fleets,
    check_heard,
    fleets,
    parse_feed,
    parse_handover,
    parse_peer_link,
    parse_routing,
)
from kvframe.bench.server.parallel import Parallel
from kvframe.bench.server.profiles import parse_profile
from kvframe.bench.server.request import ORDERS, PREEMPTION_ORDERS, ServerRequest
from kvframe.bench.server.shape import Served
from kvframe.bench.server.sla import parse_sla
from kvframe.bench.server.speculation import parse_speculation
from kvframe.bench.traces import Source
from kvframe.config.sizes import whole
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

MOST_PRIORITY = 2**31 - 1


def server_of(
    request: ServerRequest,
    card: Card,
    model: tuple[Served, Parallel],
    found: Configured | None,
) -> Server:
    """The server of these options.

    Args:
        request: The options, as text.
        card: Whose data sheet step times are by, where they are not measured.
        model: What is served, and over how many cards.
        found: What a configuration file says.

    Raises:
        ConfigError: A value, or two options that contradict each other; names the option.
    """
    shape, over = model
    profile = parse_profile(request.profile, card, shape, over, cascade=request.cascade_attention)
    order = one_of([request.order], "--order", ORDERS)[0]
    if profile.is_fixed:
        _check_fixed(request, order, profile.label)
    speculation = None if request.speculate is None else parse_speculation(request.speculate)
    if speculation is not None and not profile.knows_drafts:
        raise ConfigError(
            f"--speculate: --profile {profile.label} says nothing of steps that verify drafts: use "
            "roofline or measured terms"
        )
    if request.long_prefill_token_threshold and not request.chunked_prefill:
        raise ConfigError(
            f"--long-prefill-token-threshold {request.long_prefill_token_threshold} and "
            "--no-chunked-prefill: a prompt that is not cut has no longest chunk: leave one out"
        )
    if (request.class_priority is not None) != (order == "priority"):
        raise ConfigError("--class-priority and --order priority: one needs the other")
    return Server(
        profile=profile,
        sla=None if request.sla is None else parse_sla(request.sla),
        max_num_seqs=request.max_num_seqs,
        max_num_batched_tokens=request.max_num_batched_tokens,
        long_prefill_token_threshold=request.long_prefill_token_threshold,
        chunked_prefill=request.chunked_prefill,
        order=order,
        class_priority=_class_priority(request.class_priority),
        class_share=_class_share(request.class_share),
        closed_loop=request.closed_loop,
        cache_generated=request.cache_generated,
        preemption=one_of([request.preemption], "--preemption", PREEMPTIONS)[0],
        preemption_order=one_of(
            [request.preemption_order], "--preemption-order", PREEMPTION_ORDERS
        )[0],
        load_layers=shape.layers if request.layerwise else 0,
        returns=_returns(request),
        join=request.join,
        tell_next_use=request.tell_next_use,
        token_bytes=shape.token_bytes,
        moves=parse_moves(
            request.prefetch, request.promote_fill, request.storage_prefetch, request.hit_refresh
        )._replace(live=request.live_writes, evict_backed_first=request.evict_backed_first),
        configured=found,
        speculation=None if speculation is None else speculation.table(card, over.cards),
        handover=parse_handover(request.disaggregate),
        decode_routing=_decode_routing(request),
        peer_link=parse_peer_link(request.peer_link),
        feed=parse_feed(request.event_delay, request.event_loss, request.tell_copies),
    )


def _check_fixed(request: ServerRequest, order: str, profile: str) -> None:
    """A server of fixed rates has no steps that these options could change."""
    asked = {
        "--closed-loop": request.closed_loop,
        f"--order {order}": order != "fcfs",
        f"--preemption-order {request.preemption_order}": (
            request.preemption_order != LAST_ADMITTED
        ),
        "--join": request.join,
        "--no-chunked-prefill": not request.chunked_prefill,
        f"--preemption {NEVER}": request.preemption == NEVER,
        "--class-share": request.class_share is not None,
    }
    option = next((option for option, is_asked in asked.items() if is_asked), None)
    if option is not None:
        raise ConfigError(
            f"{option}: the server of --profile {profile} computes one prompt "
            "after the other, by the clock: use roofline or a table"
        )


def check_never(server: Server, found: Configured | None) -> None:
    """Without preemption, what requests need up to their ends is known.

    Raises:
        ConfigError: Layer groups or tenants, whose blocks are not counted ahead.
    """
    if server.preemption != NEVER or found is None:
        return
    config = found.resolved.config
    counted = len(config.groups) == 1 and config.groups[0].kind == "full"
    if not counted or config.tenants:
        what = "[[tenants]]" if counted else "[[groups]]"
        raise ConfigError(
            f"--preemption never: the blocks of {what} of --config are not counted ahead: take "
            "another"
        )


def _returns(request: ServerRequest) -> Returns | None:
    if request.prefetch_sessions is not None and request.disaggregate is not None:
        raise ConfigError(
            "--prefetch-sessions and --disaggregate: servers that compute prompts do not know when "
            "a turn ends: leave one out"
        )
    return parse_returns(request.prefetch_sessions)


def _decode_routing(request: ServerRequest) -> Routing:
    if request.decode_routing is None:
        return FEWEST
    if request.disaggregate is None:
        raise ConfigError(
            f"--decode-routing {request.decode_routing}: there are no servers that only decode: "
            "add --disaggregate prefill=N"
        )
    return parse_routing(request.decode_routing, "--decode-routing")


def fleets_of(request: ServerRequest, server: Server) -> list[Fleet]:
    """How many replicas there are, and who gets which request: one fleet for each to compare.

    Raises:
        ConfigError: Of replicas that cannot be, or options that need several; names the option.
    """
    replicas = split_list(request.replicas, "--replicas")
    prefill = server.handover.prefill if server.handover else 0
    made = fleets(replicas, split_list(request.routings, "--routing"), prefill)
    if server.profile.is_fixed and made != [ALONE]:
        raise ConfigError(
            f"--replicas {','.join(replicas)}: the server of --profile {server.profile.label} has "
            "no steps: use roofline or a table"
        )
    check_fleets(made, {
        f"--peer-link {request.peer_link}": server.peer_link is not None,
        f"--routing {','.join(request.routings)}": request.routings != ServerRequest.routings,
        "--tell-copies": request.tell_copies,
    })  # fmt: skip
    if not request.tell_copies and not server.decode_routing.hears:
        delay, loss = request.event_delay, request.event_loss
        check_heard(made, {
            f"--event-delay {delay}": delay != ServerRequest.event_delay,
            f"--event-loss {loss}": loss != ServerRequest.event_loss,
        })  # fmt: skip
    return made


def check_classes(option: str, wanted: Mapping[str, object], sources: Sequence[Source]) -> None:
    """Classes that an option names are in a trace.

    Raises:
        ConfigError: One is not; says which there are.
    """
    known = [name for source in sources for name in source.trace.classes]
    for name in wanted:
        if name not in known:
            have = f"the traces have {', '.join(known)}" if known else "no trace names classes"
            raise ConfigError(f"{option}: no class {name}: {have}{did_you_mean(name, known)}")


def _class_priority(text: str | None) -> dict[str, int]:
    found = {}
    for name, value in keyed((text or "").split(","), "--class-priority").items() if text else ():
        number = whole(value.removeprefix("-"))
        if number is None or number > MOST_PRIORITY:
            raise ConfigError(
                f"--class-priority {text}: {name} = {value}: must be a whole number from "
                f"-{MOST_PRIORITY} to {MOST_PRIORITY}"
            )
        found[name] = -number if value.startswith("-") else number
    return found


def _class_share(text: str | None) -> dict[str, float]:
    found = {}
    for name, value in keyed((text or "").split(","), "--class-share").items() if text else ():
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] <= 1:
            raise ConfigError(
                f"--class-share {text}: {name} = {value}: must be a share above 0, up to 1"
            )
    return found
