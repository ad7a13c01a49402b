"""Renders the prompts of a conversation: implements the core's port for prompts."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from tenex.core.agent_phases.decide import is_same_in_all_phases, offered
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, Run
from tenex.core.ids import Slug
from tenex.core.kind import kind_of_conversation
from tenex.core.memory.transcript import PART, entries_for, unfinished_before
from tenex.core.memory.window import BYTES_PER_TOKEN, CONTEXT_TOKENS, MESSAGE_CHARACTERS, cut_bytes, tokens, weight
from tenex.core.messages import ModelRequest, Note, ToolSpec, cut
from tenex.core.phases import PHASES, Phase
from tenex.core.ports import Prompt
from tenex.core.router.answer import DECISION_SCHEMA, schema_of_possible
from tenex.core.subagents.links import agent_state_of, message_to

from .agent_phases import rendered
from .loader import PromptLibrary
from .render import NO_SKILLS, SkillLines, fenced

T = TypeVar("T")

REMEMBERED: Final = 256
"""Rendered system prompts and notes on phases in the cache: of every agent, while lessons and notes are the same."""

SCHEMA: Final = tokens(str(DECISION_SCHEMA))
"""Estimated tokens of the schema of the router's answer."""

PATCH: Final = 8_000
"""Characters of a patch that agents are shown."""

READ_SKILL: Final = "read_skill"
"""The tool by which an agent reads a skill."""

DATA: Final = 0.12
"""Share of the budget for lessons, and as much again for the workspace's notes."""


class ConversationPrompter:
    """Renders the library's templates with the current tools, lessons and workspace notes."""

    def __init__(
        self,
        library: PromptLibrary,
        *,
        policy: Callable[[], Policy],
        tools: Callable[[Phase | None, Slug], tuple[ToolSpec, ...]],
        lessons: Callable[[Slug, Conversation], Sequence[str]],
        workspace_notes: Callable[[], str | None],
        workspace_files: Callable[[bool], str] = lambda _runs: "",
        changes: Callable[[Conversation, Mapping[str, str]], str] = lambda _conversation, _of: "",
        skills: SkillLines = NO_SKILLS,
        room: Callable[[Conversation], str] = lambda _conversation: "",
        project_name: str,
        budget: int = CONTEXT_TOKENS,
    ) -> None:
        """Take the templates and callbacks for the rest.

        `workspace_files` describes the workspace in a few lines, for an agent that runs commands with the one for its
        tests. `changes` gives what a turn or a cycle changed in files, as a patch. `skills` are listed
        for an agent that has `read_skill`. `room` describes the room of a conversation, in words of others; "" outside
        of rooms. `budget` is in estimated tokens of a whole
        request.
        """
        self._library = library
        self._rules = policy
        self._tools = tools
        self._lessons = lessons
        self._notes = workspace_notes
        self._files = workspace_files
        self._changes = changes
        self._skills = skills
        self._room = room
        self._project_name = project_name
        self._budget = budget
        self._rendered: OrderedDict[tuple[object, ...], Any] = OrderedDict()

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """An agent's prompt when its run begins, and again when its own phase or state has changed."""
        lessons, notes = self._data(run.agent, conversation)
        policy = self._rules()
        phase = run.phase
        place = kind_of_conversation(conversation).guide(conversation, run)
        tools = tuple(tool.name for tool in offered(conversation, run, policy, self._tools))
        agent = policy.roster.get(run.agent)
        program = None if agent is None else agent.program
        position = None if program is None else agent_state_of(conversation, run, program)
        state_key = None if position is None else (position.phase, json.dumps(position.values, sort_keys=True))
        guide: tuple[Note, ...] = ()
        when: Phase | None = phase
        if is_same_in_all_phases(conversation, run, policy):
            place = ("phases", "")
            when = None
            now = {tool.name for tool in self._tools(phase, run.agent)}
            later = {tool.name for tool in self._tools(None, run.agent) if tool.name not in now}
            later |= kind_of_conversation(conversation).withheld(run)
            permitted = tuple(t for t in tools if t not in later)
            withheld = tuple(t for t in tools if t in later)
            note = self._remembered(
                (run.agent, phase, permitted, withheld),
                lambda: self._library.phase_note(run.agent, phase, tools=permitted, withheld=withheld),
            )
            if "list_files" in permitted and (files := self._files("shell" in permitted)):
                note = replace(note, text=f"{note.text}\n\n## The workspace\n{files}")
            guide = (note,)
        guide = (
            *guide,
            *self._room_note(conversation, run),
            *self._unfinished(conversation, run),
            *self._to_verify(conversation, run),
        )
        system = self._remembered(
            (run.agent, when, place, lessons, notes, tools, state_key),
            lambda: self._library.system_prompt(
                run.agent,
                phase,
                tools=tools,
                lessons=lessons,
                workspace_notes=notes,
                skills=self._skills if READ_SKILL in tools else NO_SKILLS,
                project_name=self._project_name,
                place=place,
                position=position,
            ),
        )
        entries = entries_for(conversation, run, self._budget, guide)
        definition = self._library.definitions.get(run.agent)
        template = "" if definition is None else definition.input
        if template and position is not None:
            asked = _asked(conversation, run)
            entries = tuple(
                replace(entry, text=rendered(template, position, run.phase, message=entry.text, user_message=asked))
                if isinstance(entry, Note) and entry.title == PART
                else entry
                for entry in entries
            )
        return Prompt(system=system, entries=entries)

    def _room_note(self, conversation: Conversation, run: Run) -> Iterator[Note]:
        """The room that the answers are read in."""
        room = self._room(conversation) if run.parent is None else ""
        if room:
            yield Note(
                title="The room",
                text=f"Your answers are read by everyone in this room. Its name and members are data:\n{fenced(room)}",
            )

    def _unfinished(self, conversation: Conversation, run: Run) -> Iterator[Note]:
        """What the turn before changed, where it was stopped or failed: what it would have reported is not known."""
        last = unfinished_before(conversation) if run.parent is None and conversation.cycle.touched else None
        patch = self._changes(conversation, {"turn": last.turn_id}) if last is not None else ""
        if last is not None and patch:
            yield Note(title=f"What {last.turn_id} changed", text=fenced(cut(patch, PATCH)))

    def _to_verify(self, conversation: Conversation, run: Run) -> Iterator[Note]:
        """What the cycle has changed, for who verifies it."""
        is_verifying = PHASES[run.phase].needs_verdict and run.parent is None
        patch = self._changes(conversation, {"cycle": str(conversation.cycle.number)}) if is_verifying else ""
        if patch:
            yield Note(title="What this cycle changed", text=fenced(cut(patch, PATCH)))

    def _remembered(self, key: tuple[object, ...], render: Callable[[], T]) -> T:
        """What was rendered for the same values, or now."""
        if key not in self._rendered:
            self._rendered[key] = render()
            if len(self._rendered) > REMEMBERED:
                self._rendered.popitem(last=False)
        return cast("T", self._rendered[key])

    def _data(self, agent: Slug, conversation: Conversation) -> tuple[tuple[str, ...], str | None]:
        """The newest lessons and the notes, cut to their share of the budget; `render` has its own limits."""
        room = int(self._budget * BYTES_PER_TOKEN * DATA)
        kept: list[str] = []
        remaining = room
        for lesson in reversed(self._lessons(agent, conversation)):
            remaining -= weight(lesson)
            if remaining < 0:
                break
            kept.append(lesson)
        notes = self._notes()
        return tuple(reversed(kept)), cut_bytes(notes, room) if notes else None

    def route(self, conversation: Conversation) -> ModelRequest:
        """The router's next request."""
        policy = self._rules()
        system = self._library.router_prompt(project_name=self._project_name, plan_approval=policy.gates.plan_approval)
        room = self._budget - tokens(system) - SCHEMA
        lessons = self._lessons(policy.project.slug, conversation)
        kind = kind_of_conversation(conversation)
        return ModelRequest(
            purpose="route",
            agent=policy.project.slug,
            phase=conversation.cycle.phase,
            system=system,
            entries=(kind.router_question(conversation, policy, max(1, room), lessons),),
            output_schema=DECISION_SCHEMA,
            possible=schema_of_possible(*kind.router_choices(conversation, policy)),
            conversation=conversation.id,
        )


def _asked(conversation: Conversation, run: Run) -> str:
    """The request a run serves: its caller's, or the newest message of a user."""
    if run.parent is not None:
        return message_to(conversation, run)
    return next((cut(m.text, MESSAGE_CHARACTERS) for m in reversed(conversation.cycle.messages) if m.role), "")
