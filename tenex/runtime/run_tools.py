"""The tools of servers that a run is offered: those that there were when it began, also where a server changes them.

A provider reads from its cache what begins like the request before it, and tools come first. So within a run the list
does not change: what a server has added is offered from the agent's next turn on, and what it does not have any more
stays listed, while a call of it is refused. Two things are added in a run: tools of a server that had none when the run
began, because it was still starting; and, at the end, what `find_tools` finds.

It is kept in memory. After a restart a run is offered what there is then.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from tenex.core.config import Policy
from tenex.core.ids import ConversationId, Slug
from tenex.core.messages import ToolSpec
from tenex.core.phases import Phase
from tenex.core.work.run import Run
from tenex.core.work.tool_names import FIND_TOOLS, server_of

KEPT: Final = 512
"""Runs whose tools are kept: more than work at the same time."""

Specs = Callable[[Phase | None, Slug], Sequence[ToolSpec]]
"""Gives the tools of an agent in a phase."""


class RunTools:
    """Remembers what runs were offered."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[Policy, Sequence[ToolSpec]]] = OrderedDict()

    def of(self, conversation: ConversationId, run: Run, policy: Policy, specs: Specs) -> Specs:
        """The tools that a run is offered, where `specs` gives those there are now; a reload counts at once."""

        def steady(phase: Phase | None, agent: Slug) -> Sequence[ToolSpec]:
            return self._steady((conversation, run.id, phase, agent), policy, specs(phase, agent))

        return steady

    def _steady(self, key: tuple[object, ...], policy: Policy, now: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        servers = _servers(now)
        if not servers and key not in self._kept:
            return now
        as_configured, first = self._kept.get(key, (None, now))
        if as_configured is not policy or servers - _servers(first):
            self._keep(key, policy, now)
            return now
        names = {tool.name for tool in first}
        if FIND_TOOLS not in names:
            return first
        return (*first, *(tool for tool in now if server_of(tool.name) and tool.name not in names))

    def _keep(self, key: tuple[object, ...], policy: Policy, now: Sequence[ToolSpec]) -> None:
        self._kept[key] = policy, now
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _servers(tools: Sequence[ToolSpec]) -> frozenset[str]:
    return frozenset(filter(None, (server_of(tool.name) for tool in tools)))
