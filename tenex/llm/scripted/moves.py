"""What a phase's rules may answer: calls to make now, or an end. And the sentences all phases share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .tasks import short
from .transcript import Transcript

SELF = "I am tenex's offline model: rules, not a mind."
NOTHING_DONE = "Nothing was changed"
"""How the summary of a run begins that made nothing; the router reads it and does not go on to verification."""

OFFER = "Shall I make it?"
"""How chat ends where it understood what is wanted; the router reads it where the person only says yes."""

LEARNED = "Learned:"
"""How an agent's words begin that has looked back, which is the end of a piece of work."""

ABILITIES = (
    "I can write files with words you give me, make small Python programs (“Create hello.py that prints hello”), "
    "add functions whose formula I know (“add a function add(a, b) to calc.py”), replace words in a file "
    "(“change red to blue in colours.txt”) and make lists (“make a list of milk and eggs in todo.md”)."
)
CONFIGURE = "For anything that needs thought, set a model: `models.default` in tenex.toml."


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Tool calls, as pairs of name and arguments; never empty."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of a run. `verdict` and `issues` are for verification only, `summary` for all phases but reflection."""

    response: str
    summary: str = ""
    verdict: str = ""
    issues: str = ""

    def arguments(self) -> dict[str, str]:
        """The arguments of `complete`; fields without a value are left out."""
        fields = {"summary": self.summary, "verdict": self.verdict, "issues": self.issues}
        return {"response": self.response, **{name: value for name, value in fields.items() if value}}


Move = Act | Finish


def act(*calls: tuple[str, Mapping[str, Any]]) -> Act:
    """An `Act` of these calls."""
    return Act(calls=calls)


def acknowledged(finish: Finish, seen: Transcript) -> Finish:
    """The same end, saying that the messages that came in the meantime were seen."""
    if not seen.interjections:
        return finish
    quoted = ", ".join(f"“{short(text)}”" for text in seen.interjections if text.strip())
    response = f"{finish.response}\n\nI saw what you wrote while I was at work: {quoted or '(an empty message)'}."
    return Finish(response=response, summary=finish.summary, verdict=finish.verdict, issues=finish.issues)


def cannot(why: str = "") -> Finish:
    """The end of a run that made nothing: what was missing, what rules can do, and where a mind is configured."""
    reason = why or "I do not understand this request."
    return Finish(
        response=f"{SELF} {reason}\n\n{ABILITIES} {CONFIGURE}", summary=f"{NOTHING_DONE}: {short(reason, 200)}"
    )
