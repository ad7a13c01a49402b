"""Settings as the values the rest of the program goes by."""

from collections.abc import Callable

from tenex.core.config import Expectation, GateRules, Limits, PeerGroup
from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.ids import PublicKey
from tenex.core.phases import Phase

from .sections import ExpectedTime, Models, Settings


def limits(settings: Settings) -> Limits:
    """The core's limits, in its milliseconds."""
    given = settings.limits
    return Limits(
        turns_per_message=given.turns_per_message,
        same_route=given.same_route,
        steps_per_run=given.steps_per_run,
        link_depth=given.link_depth,
        nodes_per_mission=given.nodes_per_mission,
        steps_per_node=given.steps_per_node,
        tokens_per_run=given.tokens_per_run,
        cost_per_run_usd=given.cost_per_run_usd,
        tokens_per_cycle=given.tokens_per_cycle,
        cost_per_cycle_usd=given.cost_per_cycle_usd,
        tokens_per_conversation=given.tokens_per_conversation,
        cost_per_conversation_usd=given.cost_per_conversation_usd,
        tokens_per_guests_day=given.tokens_per_guests_day,
        cost_per_guests_day_usd=given.cost_per_guests_day_usd,
        tokens_per_member_day=given.tokens_per_member_day,
        cost_per_member_day_usd=given.cost_per_member_day_usd,
        tokens_per_owner_day=given.tokens_per_owner_day,
        cost_per_owner_day_usd=given.cost_per_owner_day_usd,
        tokens_per_day=given.tokens_per_day,
        cost_per_day_usd=given.cost_per_day_usd,
        routing_attempts=given.routing_attempts,
        router_warn_after=_ms(given.router_warn_after),
        handoff_window=_ms(given.handoff_window),
        announce_after=_ms(given.announce_after),
        expectations={
            phase: _expectation(expected)
            for phase in Phase
            if (expected := getattr(given.expectations, phase.value)) is not None
        },
        default_expectation=_expectation(given.expectations.default),
        retry_delays=tuple(_ms(delay) for delay in given.retry_delays),
        hold_for=_ms(given.hold_for),
    )


def gate_rules(settings: Settings) -> GateRules:
    """The core's rules for quality gates."""
    given = settings.gates
    return GateRules(members_may_waive=given.members_may_waive, plan_approval=given.plan_approval)


def circle(settings: Settings, parse_key: Callable[[str], PublicKey]) -> PeerGroup:
    """The people of the settings, by key.

    Raises:
        ConfigurationError: a key is none, or nobody at all may talk here.
    """
    source = str(settings.file or settings.data)
    faults: list[str] = []
    found: dict[str, set[PublicKey]] = {"owners": set(), "members": set()}
    for group, keys in found.items():
        for index, text in enumerate(getattr(settings.people, group)):
            try:
                keys.add(parse_key(text))
            except (ValueError, TenexError) as fault:
                faults.append(f"{source}: people.{group}[{index}]: {fault}")
    if not faults and not any(found.values()) and not settings.people.open:
        faults.append(f"{source}: people.owners: nobody may talk here; list your npub, or run `tenex init`")
    if faults:
        raise ConfigurationError(faults)
    return PeerGroup(
        owners=frozenset(found["owners"]),
        members=frozenset(found["members"] - found["owners"]),
        is_open=settings.people.open,
    )


def model_for(models: Models, slug: str, phase: Phase, own: str | None = None) -> tuple[str, ...]:
    """The models of an agent in a phase, the first to be asked first; the most specific setting wins.

    `own` is what the agent's definition names: it counts where the settings say nothing about
    this agent.
    """
    agent = models.agents.get(slug)
    candidates = (
        getattr(agent.phases, phase.value) if agent else None,
        agent.model if agent else None,
        own or None,
        getattr(models.phases, phase.value),
    )
    return _chain(next((name for name in candidates if name is not None), models.default))


def router_model(models: Models) -> tuple[str, ...]:
    """The models that route, the first to be asked first."""
    return _chain(models.router if models.router is not None else models.default)


def named_models(models: Models) -> dict[str, tuple[str, ...]]:
    """Every model the settings name, by the setting that names it."""
    named = {"models.default": _chain(models.default)}
    if models.router is not None:
        named["models.router"] = _chain(models.router)
    tables = {"models.phases": models.phases}
    for slug, agent in models.agents.items():
        if agent.model is not None:
            named[f"models.agents.{slug}.model"] = _chain(agent.model)
        tables[f"models.agents.{slug}.phases"] = agent.phases
    for table, phases in tables.items():
        named |= {f"{table}.{phase}": _chain(name) for phase, name in phases if name is not None}
    return named


def _chain(name: str | list[str]) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(dict.fromkeys(name))


def _expectation(expected: ExpectedTime) -> Expectation:
    return Expectation(warn_after=_ms(expected.warn_after), close_after=_ms(expected.close_after))


def _ms(seconds: float) -> int:
    return max(round(seconds * 1000), 1) if seconds > 0 else 0
