"""A workflow of speakers: the graph, the participants, and what is expected by when."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from tenex.core.ids import PublicKey, Slug
from tenex.core.text.json_values import faults_of_value
from tenex.workflows.speakers import config as workflow_config
from tenex.workflows.speakers.config import DEFAULTS, EXPECTATIONS, View, Within
from tenex.workflows.speakers.transitions import named_agents

from .checks import checked
from .rules import SpeakerRules, faults_of_values

_LONGEST = 366 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow of speakers, for users who write one in Python.

    Args of the constructor: `participants` in the order of a round robin; by default all whom the graph name.
    `expectations`: by name (`turn_within`, `acks_within`, `reply_within`, `max_silence`, `ttl`) the seconds after which
    users are warned (`warn`) and after which it closes (`close`); a number alone is `close`, 0 is never.
    """

    graph: SpeakerRules
    participants: Sequence[str] = ()
    name: str = ""
    about: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    expectations: Mapping[str, Any] = field(default_factory=dict)
    view: str = "windowed"

    @property
    def everybody(self) -> tuple[Slug, ...]:
        """Who takes part."""
        named = named_agents(self.graph.initial_speaker, self.graph.transitions, self.graph.default_target)
        return tuple(map(Slug, dict.fromkeys(self.participants or (*self.graph.participants, *named))))

    def configured(self, slug: Slug, pubkey: PublicKey) -> workflow_config.Workflow:
        """The workflow as the core goes by it; for one without faults."""
        return workflow_config.Workflow(
            slug=slug,
            name=self.name or slug,
            pubkey=pubkey,
            participants=self.everybody,
            graph_data=self.graph.to_dict(),
            about=self.about,
            context_vars=dict(self.context),
            expectations=self.within(),
            view=next(view for view in get_args(View) if view == self.view),
        )

    def within(self) -> dict[str, Within]:
        """The expectations in ms, those that are not set at their defaults; for a workflow without faults."""
        return {**DEFAULTS, **{name: _within(value) for name, value in self.expectations.items()}}

    def faults(self) -> Iterator[str]:
        """Everything wrong with it, each as a sentence; Python has let pass whatever its author wrote."""
        yield from self.faults_beside_graph()
        yield from self._faults_of_graph(self.graph, self.participants)

    def faults_beside_graph(self) -> Iterator[str]:
        """What is wrong with all but the graph, and with who takes part in it."""
        for key in ("name", "about"):
            if not isinstance(getattr(self, key), str):
                yield f"`{key}` must be a text."
        if self.view not in get_args(View):
            yield f"`view` is {self.view!r}; it must be one of {', '.join(get_args(View))}."
        for key in ("context", "expectations"):
            if not isinstance(getattr(self, key), Mapping):
                yield f"`{key}` must be a dict."
        yield from faults_of_value(self.context, "context")
        given: object = self.expectations
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if name not in EXPECTATIONS:
                yield f"There is no expectation {name!r}; there are {', '.join(EXPECTATIONS)}."
            elif not _is_expectation(value):
                yield f"`expectations.{name}` must be seconds, or {{ warn = seconds, close = seconds }}; 0 is never."

    def _faults_of_graph(self, graph: object, participants: object) -> Iterator[str]:
        is_list = isinstance(participants, list | tuple) and all(isinstance(name, str) for name in participants)
        if not is_list:
            yield "`participants` must be a list of agents' slugs."
        if not isinstance(graph, SpeakerRules):
            yield f"`graph` is a {type(graph).__name__}; it must be a TransitionGraph."
        elif broken := [*faults_of_values(graph)]:  # else its names cannot be read
            yield from broken
        elif is_list:
            yield from checked(graph, self.everybody).faults

    def warnings(self) -> tuple[str, ...]:
        """What may not be meant so; for a workflow without faults."""
        return checked(self.graph, self.participants or self.everybody).warnings


def _is_expectation(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(key in ("warn", "close") and _is_seconds(part) for key, part in value.items())
    return _is_seconds(value)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST


def _within(value: Any) -> Within:
    given = value if isinstance(value, Mapping) else {"close": value}
    return Within(warn=round(given.get("warn", 0) * 1000), close=round(given.get("close", 0) * 1000))
