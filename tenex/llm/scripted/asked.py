"""The router's question as values: the JSON document of the note titled `routing`.

Everything is optional and unknown keys are ignored: an answer is owed to any question, and a model cannot raise.
"""

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenex.core.messages import ModelRequest, Note


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)


class Message(_Lenient):
    """A message of the person; `after_turn` is the last turn opened before it."""

    id: str = ""
    text: str = ""
    after_turn: str | None = None


class Completion(_Lenient):
    """How one agent's work in a turn ended."""

    agent: str = ""
    outcome: str = "finished"
    text: str | None = None
    summary: str | None = None
    verdict: str | None = None


class Turn(_Lenient):
    """A turn that has closed."""

    turn: str | None = None
    phase: str = "chat"
    agents: list[str] = Field(default_factory=list)
    completions: list[Completion] = Field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether anyone finished."""
        return any(completion.outcome == "finished" for completion in self.completions)

    @property
    def is_stopped(self) -> bool:
        """Whether a person stopped it."""
        return any(completion.outcome == "stopped" for completion in self.completions)


class Worker(_Lenient):
    """A line of the roster."""

    slug: str = ""
    kind: str = "worker"
    phases: list[str] | None = None


class Question(_Lenient):
    """All the router is told."""

    phase: str = "chat"
    permitted: list[str] = Field(default_factory=list)
    messages: list[Message] = Field(default_factory=list)
    turns: list[Turn] = Field(default_factory=list)
    open_gates: list[str] = Field(default_factory=list)
    can_end: bool = False
    participants: list[str] = Field(default_factory=list)
    still_to_reflect: list[str] | None = None
    waived: list[str] = Field(default_factory=list)
    roster: list[Worker] = Field(default_factory=list)
    rejections: list[str] = Field(default_factory=list)


def read_question(request: ModelRequest) -> Question | None:
    """Read the routing note; None where there is none or it is no such document."""
    notes = [entry for entry in request.entries if isinstance(entry, Note) and entry.title == "routing"]
    if not notes:
        return None
    try:
        return Question.model_validate_json(notes[-1].text)
    except (ValidationError, ValueError):  # ValueError: a lone surrogate is no UTF-8
        return None
