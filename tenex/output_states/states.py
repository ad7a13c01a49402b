"""What an agent's output is made of: states, each with delimiters, limits, looks and words for the model.

The names are those of Proxy Base Agent, whose users write subclasses of `AgentState`. The graph of states is in
`machine`.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.core.messages import ToolSpec
from tenex.log import get_logger

from .content import (
    EncapsulatedStateMachine,
    FencedFreeformStateMachine,
    PythonStateMachine,
    StateMachine,
    ToolCallStateMachine,
)

log = get_logger(__name__)

CHAR_MIN: Final = 50
"""Characters below which a thought is no thought; Proxy Base Agent's own number."""


class AgentState(ABC):
    """One state an agent's output can be in."""

    def __init__(
        self, identifier: str, readable_name: str, delimiters: tuple[str, str], color: str, emoji: str
    ) -> None:
        """Take what the state is called and how it looks.

        Args:
            identifier: Unique name for programs; its segments carry it.
            readable_name: The name for users.
            delimiters: What the model writes before and after the content; `endings` has the rules.
            color: A colour of Rich.
            emoji: One emoji.
        """
        self.identifier = identifier
        self.readable_name = readable_name
        self.delimiters = delimiters
        self.color = color
        self.emoji = emoji

    @property
    @abstractmethod
    def state_machine(self) -> StateMachine:
        """What the content may be; requested for every output, so it may follow what changes."""

    @property
    @abstractmethod
    def state_prompt(self) -> str:
        """The instructions for the model: purpose, delimiters, what belongs in the state."""

    def format(self, string: str) -> str:
        """A content between the delimiters, as the model should have written it."""
        return f"{self.delimiters[0]}{string}{self.delimiters[1]}"

    def readable_format(self, string: str) -> str:
        """Return a content as a Markdown block for users, with a longer fence where it holds fences."""
        longest = max(map(len, re.findall("`+", string)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}markdown\n{string}\n{fence}"

    def shown(self, string: str) -> str:
        """A content as users see it: by `readable_format` where the class has its own, else as it is."""
        if type(self).readable_format is AgentState.readable_format:
            return string
        try:
            return str(self.readable_format(string))
        except Exception:  # user code may fail in any way
            log.exception("output.readable_format_failed", state=self.identifier)
            return string

    def __str__(self) -> str:
        return f"{self.readable_name.title()}: {self.state_prompt}"


class _Freeform(AgentState):
    """A planning state: free text in a fence."""

    name = ""
    looks = ("", "")
    purpose = ""
    longest = 1000

    def __init__(
        self,
        delimiters: tuple[str, str] | None = None,
        character_max: int | None = None,
        *,
        character_min: int | None = None,
    ) -> None:
        identifier = self.name.replace(" ", "_")
        super().__init__(identifier, self.name, delimiters or (f"```{identifier}\n", "\n```"), *self.looks)
        for name, number in (("character_max", character_max), ("character_min", character_min)):
            if number is not None and type(number) is not int:
                raise ConfigurationError([f"{type(self).__name__}: {name} is {number!r}; it must be a whole number."])
        self.character_max = self.longest if character_max is None else character_max
        # half of a narrow limit: a state that must be exactly so long cannot be written
        least = min(CHAR_MIN, self.character_max // 2)
        self.character_min = least if character_min is None else character_min

    @property
    def state_machine(self) -> StateMachine:
        """Text within the limits."""
        return FencedFreeformStateMachine(self.identifier, self.delimiters, self.character_min, self.character_max)

    @property
    def state_prompt(self) -> str:
        """The purpose, the limits, the delimiters."""
        limits = f"{self.character_min} to {self.character_max} characters"
        return f"{self.purpose} No one but you reads it. {limits}, written so:\n{self.format('...')}"


class Thinking(_Freeform):
    """Deliberate reasoning."""

    name = "thinking"
    looks = ("dim cyan", "🧠")
    purpose = "Reason step by step about what is asked and what to do next."


class Scratchpad(_Freeform):
    """Temporary notes."""

    name = "scratchpad"
    looks = ("dim white", "📝")
    purpose = "Note what you need in a moment: figures, names, a draft, a list."


class InnerMonologue(_Freeform):
    """A detailed narrative of one's own."""

    name = "inner monologue"
    looks = ("dim magenta", "💬")
    purpose = "Talk to yourself: doubts, other ways, what you have learnt, what could go wrong."
    longest = 1500


class ToolCallState(AgentState):
    """The call of one of the tools it has at that moment."""

    def __init__(self, tools: Sequence[ToolSpec] = (), delimiters: tuple[str, str] | None = None) -> None:
        super().__init__("tool_call", "tool call", delimiters or ("```tool\n", "\n```"), "dim yellow", "🔧")
        self.tools = tools

    @property
    def state_machine(self) -> StateMachine:
        """A call of one of the tools there are now."""
        tools = {tool.name: tool.parameters for tool in self.tools}
        return ToolCallStateMachine(tools, identifier=self.identifier, delimiters=self.delimiters)

    @property
    def state_prompt(self) -> str:
        """The form of a call, and the tools there are now."""
        form = self.format('{"name": "...", "arguments": {...}}')
        tools = "\n".join(
            f"- {tool.name}: {tool.description} Arguments: {json.dumps(dict(tool.parameters), ensure_ascii=False)}"
            for tool in self.tools
        )
        return f"Call exactly one tool, as one JSON object, written so:\n{form}\nThe tools:\n{tools}"

    def readable_format(self, string: str) -> str:
        """A call as JSON on several lines, if it is JSON."""
        try:
            shown = json.dumps(json.loads(string), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            shown = string
        return super().readable_format(shown).replace("markdown", "json", 1)


class Python(AgentState):
    """A program that is to be run."""

    def __init__(self, delimiters: tuple[str, str] | None = None, character_max: int | None = None) -> None:
        super().__init__("python", "python", delimiters or ("```python\n", "\n```"), "yellow", "🐍")
        self.character_max = character_max

    @property
    def state_machine(self) -> StateMachine:
        """A program that can be parsed."""
        program = PythonStateMachine(char_max=self.character_max)
        return EncapsulatedStateMachine(program, self.delimiters, identifier=self.identifier)

    @property
    def state_prompt(self) -> str:
        """What becomes of the program."""
        return (
            f"Write one program of Python and print what you want to know; it is run in the workspace's sandbox."
            f" A line that begins with {self.delimiters[1].strip()} ends it: build such a line in code."
            f" Written so:\n{self.format('...')}"
        )

    def readable_format(self, string: str) -> str:
        """The program as a block of Python."""
        return super().readable_format(string).replace("markdown", "python", 1)
