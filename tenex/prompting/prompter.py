"""Fills in the prompts of a conversation: the port the flow renders through.

Never: choose what of a conversation is shown; `core.transcript` does.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from tenex.core.conversation import Conversation, Run
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.ports import Prompt
from tenex.core.roster import Rules
from tenex.core.routing import DECISION_SCHEMA
from tenex.core.steps import ModelRequest, ToolSpec
from tenex.core.transcript import entries_for, question_for

from .library import PromptLibrary

REMEMBERED: Final = 64
"""Rendered prompts kept: every agent in every phase, while lessons and notes stay as they are."""


class ConversationPrompter:
    """Joins the library's words with what is known now: tools, lessons, the workspace's notes."""

    def __init__(
        self, library: PromptLibrary, *, rules: Callable[[], Rules],
        tools: Callable[[Phase, Slug], tuple[ToolSpec, ...]], lessons: Callable[[Slug], Sequence[str]],
        workspace_notes: Callable[[], str | None], project_name: str,
    ) -> None:  # fmt: skip
        self._library = library
        self._rules = rules
        self._tools = tools
        self._lessons = lessons
        self._notes = workspace_notes
        self._project_name = project_name
        self._rendered: OrderedDict[tuple[object, ...], str] = OrderedDict()

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """What an agent is told at the start of its run; the same for the whole run."""
        lessons, notes = tuple(self._lessons(run.agent)), self._notes()
        key = (run.agent, run.phase, lessons, notes)
        system = self._rendered.get(key)
        if system is None:
            system = self._library.system_prompt(
                run.agent, run.phase, tools=self._tools(run.phase, run.agent), lessons=lessons, workspace_notes=notes,
                project_name=self._project_name,
            )  # fmt: skip
            self._rendered[key] = system
            if len(self._rendered) > REMEMBERED:
                self._rendered.popitem(last=False)
        return Prompt(system=system, entries=entries_for(conversation, run))

    def route(self, conversation: Conversation) -> ModelRequest:
        """The question the router is asked now."""
        rules = self._rules()
        system = self._library.router_prompt(project_name=self._project_name, plan_approval=rules.gates.plan_approval)
        return ModelRequest(
            purpose="route", agent=rules.project.slug, phase=conversation.phase, system=system,
            entries=(question_for(conversation, rules),), output_schema=DECISION_SCHEMA,
            conversation=conversation.id,
        )  # fmt: skip
