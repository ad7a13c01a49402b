"""The registry: which tools an agent is offered, and how calls reach them.

The gate is checked twice, when tools are listed and when one is called, because an answer of a model may hold two
calls of which the first changes what the second is permitted. `permissions.may_use` is the rule both times.

Tools of MCP servers come and go while it is in use (`changing.ToolSource`). They are after all others and in a fixed
order, so an agent that names none of them is offered the same bytes as without servers.
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tenex.core.config import Agent, ToolRule
from tenex.core.errors import InternalError, words_of
from tenex.core.ids import Slug
from tenex.core.messages import ToolSpec
from tenex.core.people.permissions import may_use
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.work.found_tools import are_too_many
from tenex.core.work.tool_names import FIND_TOOLS, server_of
from tenex.log import get_logger

from .arguments import Arguments
from .ask_complete import ASK, ASK_SPEC, COMPLETE, COMPLETE_SPEC
from .changing import RuleView, ToolSource
from .find_tools import find_tools_tool, spec_naming
from .serialized_calls import Transactions
from .tool import Refusal, Tool, log_fields
from .witness import plain

TIME_CAP: Final = 30.0
"""Seconds a call may take by default: file work takes milliseconds, a dead mount takes for ever."""

OUTPUT_CAP: Final = 320 * 1024
"""Characters of a result: above the largest read (256 KiB) with its remark, so this only cuts what has no cap."""

_log = get_logger(__name__)

ERROR_CHARACTERS: Final = 300
"""Of what a tool raised, for the model that called it."""


class ToolRegistry:
    """Implements `core.ports.Tools` over a fixed set of tools, and those of a source that come and go."""

    def __init__(
        self,
        tools: Iterable[Tool],
        find_agent: Callable[[Slug], Agent | None],
        transactions: Transactions | None = None,
        *,
        methods: Mapping[Slug, Iterable[Tool]] | None = None,
        source: ToolSource | None = None,
        time_cap: float = TIME_CAP,
        output_cap: int = OUTPUT_CAP,
    ) -> None:
        """Take the tools, a way to look an agent up as it is configured now, and the turns of their workspace.

        Without transactions, calls are not serialized and changes of programs are not recorded: for tests of one tool.
        `methods` are the tools that only one agent has; `source` has those of MCP servers.

        Raises:
            InternalError: two tools of an agent have one name, or a schema is invalid.
        """
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools or tool.name in (COMPLETE.name, ASK.name):
                raise InternalError(f"there are two tools named {tool.name}")
            self._tools[tool.name] = tool
        self._methods = {slug: {tool.name: tool for tool in own} for slug, own in (methods or {}).items()}
        for own in self._methods.values():
            twice = sorted({*self._tools, COMPLETE.name, ASK.name} & set(own))
            if twice:
                raise InternalError(f"there are two tools named {', '.join(twice)}")
        self._rules = {name: tool.rule for name, tool in self._tools.items()} | {ASK.name: ASK, COMPLETE.name: COMPLETE}
        self._arguments: dict[tuple[Slug, str], Arguments] = {}
        for slug, own in {Slug(""): self._tools, **self._methods}.items():
            for name, tool in own.items():
                self._arguments[slug, name] = Arguments(name, tool.parameters)
        self._source = source
        self._more: dict[str, Tool] = {}
        """The tools of the source."""
        self._seen: Mapping[str, Tool] | None = None
        """What the source gave last."""
        self._every = self._rules
        """The rules of all tools but the methods."""
        self._find = find_tools_tool(self._hidden_from)
        self._hidden: dict[Slug, tuple[Agent, tuple[ToolSpec, ...]]] = {}
        """The tools of servers that agents are shown by name first, each as it was configured then."""
        self._specs: dict[tuple[Slug, Phase | None], tuple[Agent, tuple[ToolSpec, ...]]] = {}
        """What agents are offered, each as it was configured then: it is asked for some times a turn."""
        self._find_agent = find_agent
        self._transactions = transactions
        self._time_cap = time_cap
        self._output_cap = output_cap

    def rules(self) -> Mapping[str, ToolRule]:
        """What the core goes by, for every tool and the two words; with a source it changes with its tools."""
        return dict(self._rules) if self._source is None else RuleView(self)

    def current_rules(self) -> Mapping[str, ToolRule]:
        """The rules of the tools that there are now."""
        self._refresh()
        return self._every

    def specs(self, phase: Phase | None, agent: Agent | Slug) -> tuple[ToolSpec, ...]:
        """The tools an agent may use in a phase, always in the same order; none for an unknown slug.

        None gives those that it may use in any phase.
        """
        if not isinstance(agent, Agent):
            configured = self._find_agent(agent)
            if configured is None:
                return ()
            agent = configured
        self._refresh()

        as_configured, specs = self._specs.get((agent.slug, phase), (None, ()))
        if as_configured is not agent:
            tools = {**self._tools, **self._methods.get(agent.slug, {}), **self._more}
            named = {ASK.name: ASK_SPEC, COMPLETE.name: COMPLETE_SPEC}
            named |= {name: tool.spec for name, tool in tools.items()}
            named[FIND_TOOLS] = spec_naming(self._find, self._hidden_specs(agent))
            specs = tuple(named[name] for name in self._permitted(agent, phase))
            self._specs[agent.slug, phase] = agent, specs
        return specs

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Check the gate and the arguments, then carry the call out under the caps.

        Cancelling ends the work: a program dies with its task, a file is changed whole or not at all.
        """
        started = time.monotonic()
        result = self._cut(plain(await self._carry_out(name, arguments, context)))
        _log.info(
            "tool.returned",
            tool=name if self._tool(name, context.agent) else "unknown",
            ok=result.ok,
            ms=round((time.monotonic() - started) * 1000),
            **log_fields(context),
        )
        return result

    def _permitted(self, agent: Agent, phase: Phase | None) -> tuple[str, ...]:
        methods = {name: tool.rule for name, tool in self._methods.get(agent.slug, {}).items()}
        rules = {**self._rules, **methods, **self.current_rules()}
        if FIND_TOOLS in rules and not self._hidden_specs(agent):
            del rules[FIND_TOOLS]
        phases = Phase if phase is None else (phase,)
        return tuple(name for name, rule in rules.items() if any(may_use(rule, each, agent) for each in phases))

    def _tool(self, name: str, agent: Slug) -> Tool | None:
        """The tool that an agent calls by a name; None for a word, and where there is none."""
        if name == FIND_TOOLS and name in self._every:
            return self._find
        return self._tools.get(name) or self._methods.get(agent, {}).get(name) or self._more.get(name)

    def _refresh(self) -> None:
        """Take the tools of the source as they are now; one that has the name of another, or no schema, is left out."""
        if self._source is None:
            return
        tools = self._source.tools()
        if tools is self._seen:
            return
        taken = {*self._rules, *(name for own in self._methods.values() for name in own)}
        more: dict[str, Tool] = {}
        for name, tool in tools.items():
            if name in taken:
                _log.error("tool.left_out", tool=name, reason="another tool has its name")
                continue
            try:
                self._arguments[Slug(""), name] = Arguments(name, tool.parameters)
            except InternalError as error:
                _log.error("tool.left_out", tool=name, reason=str(error))
                continue
            more[name] = tool
        self._more = more
        self._seen = tools
        rules = {name: tool.rule for name, tool in more.items()}
        self._every = {**self._rules, **({FIND_TOOLS: self._find.rule} if rules else {}), **rules}
        self._arguments[Slug(""), FIND_TOOLS] = Arguments(FIND_TOOLS, self._find.parameters)
        self._hidden.clear()
        self._specs.clear()

    def _hidden_from(self, slug: Slug) -> tuple[ToolSpec, ...]:
        agent = self._find_agent(slug)
        return self._hidden_specs(agent) if agent is not None else ()

    def _hidden_specs(self, agent: Agent) -> tuple[ToolSpec, ...]:
        """The tools of servers that an agent is shown by name first; none where they are few enough."""
        self._refresh()
        as_configured, hidden = self._hidden.get(agent.slug, (None, ()))
        if as_configured is not agent:
            usable = (tool for tool in self._more.values() if any(may_use(tool.rule, phase, agent) for phase in Phase))
            specs = tuple(tool.spec for tool in usable)
            hidden = specs if are_too_many(specs) else ()
            self._hidden[agent.slug] = agent, hidden
        return hidden

    def _gate(self, name: str, context: ExecutionContext, permitted: Collection[str]) -> str | None:
        agent = self._find_agent(context.agent)
        if agent is None:
            return f"The agent {context.agent} is no longer in the roster; {name[:80]} was not called."
        offer = f"You may use: {', '.join(permitted)}." if permitted else "You may use no tools now."
        if name not in self._every and name not in self._methods.get(context.agent, {}):
            if server_of(name):
                return (
                    f"There is no tool {name[:80]} now: its server was removed, does not run, or does not have it any "
                    f"more. {offer}"
                )
            return f"There is no tool {name[:80]}. {offer}"
        if name not in permitted:
            return (
                f"The tool {name} may not be used by {agent.slug} in the {context.phase} phase; nothing was done. "
                f"{offer}"
            )
        return None

    async def _carry_out(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        if self._source is not None and server_of(name):
            await self._source.wait_for(name)
        agent = self._find_agent(context.agent)
        permitted = self._permitted(agent, context.phase) if agent is not None else ()
        context = replace(context, tools=frozenset(permitted))
        fault = self._gate(name, context, permitted)
        tool = self._tool(name, context.agent)
        if fault is None and tool is None:
            fault = f"{name} is carried out by the daemon itself and cannot be called like a tool."
        if fault is not None or tool is None:
            return ToolResult(ok=False, content=fault or "")

        sent: Any = arguments  # what a model sent may be anything
        has_begun = False

        def call() -> Coroutine[Any, Any, ToolResult]:
            nonlocal has_begun
            has_begun = True
            return self._bounded(tool, sent, context)

        try:
            if isinstance(sent, Mapping):
                sent = dict(sent)
                fault = tool.rule.refusal(sent, context.phase)
                if fault:
                    return ToolResult(ok=False, content=fault)
            own = name in self._methods.get(context.agent, {})
            fault = self._arguments[context.agent if own else Slug(""), name].fault(sent)
            if fault is not None:
                return ToolResult(ok=False, content=fault)
            if self._transactions is None:
                return await call()
            return await self._transactions.run(tool, context, call)
        except Exception as error:  # noqa: BLE001 - a broken tool must not end a run
            self._log_failure(name, error, context)
            words = words_of(error)[:ERROR_CHARACTERS]
            cause = f"{type(error).__name__}: {words}" if words else type(error).__name__
            failed = "failed; it may have done a part, so check before repeating" if has_begun else "was not called"
            return ToolResult(ok=False, content=f"{name} {failed}. The error: {cause}")

    async def _bounded(self, tool: Tool, sent: Any, context: ExecutionContext) -> ToolResult:
        cap = tool.time_cap or self._time_cap
        deadline = asyncio.timeout(cap)
        try:
            async with deadline:
                return await tool.body(sent, context)
        except Refusal as refusal:
            return ToolResult(ok=False, content=str(refusal))
        except TimeoutError:
            if not deadline.expired():
                raise
            return ToolResult(
                ok=False, content=f"{tool.name} did not end within {cap:g} s and was given up; check before repeating."
            )

    def _log_failure(self, name: str, error: Exception, context: ExecutionContext) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        # the type and the place only: an exception's message may hold a person's text
        where = f"{frame.filename}:{frame.lineno}"
        _log.error("tool.failed", tool=name, error=type(error).__name__, where=where, **log_fields(context))

    def _cut(self, result: ToolResult) -> ToolResult:
        # names on disk may hold bytes that are no text, and the journal takes none
        content = result.content.encode("utf-8", "replace").decode("utf-8")
        if len(content) > self._output_cap:
            content = f"{content[: self._output_cap]}\n[Cut: {len(content) - self._output_cap} more characters.]"
        if content == result.content:
            return result
        return replace(result, content=content)
