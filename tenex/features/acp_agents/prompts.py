"""What a prompt says to the program of an agent: it has a system prompt of its own, so all of ours is text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenex.core.messages import AgentText, CallResult, Entry, ModelStep, Note, UserText
from tenex.core.phases import PHASES, Phase

SERVER: Final = "tenex"
"""The name of the MCP server that serves our tools to the program."""

RESULT_CHARACTERS: Final = 2_000
"""Of a result that is repeated to a program that has lost it."""

COMPLETED: Final = "Recorded. End your turn now, without further calls."
"""What a program reads that has called `complete`: what comes of it is decided when its turn has ended."""


def opening(system: str, entries: Sequence[Entry], tools: Iterable[str], phase: str, *, can_write: bool) -> str:
    """The first prompt of a run."""
    return "\n\n".join([_about(tools, phase, can_write=can_write), system.strip(), *map(_shown, texts_of(entries))])


def resumed(entries: Sequence[Entry], *, is_same_session: bool, opening_text: str) -> str:
    """The first prompt after the process of a run was lost; `entries` are what came since its newest step."""
    lost = (
        "Your process was stopped in the middle of this work and has been started again. What you had begun may be "
        "done, done in part, or not done: look before you repeat anything."
    )
    results = [_result(entry) for entry in entries if isinstance(entry, CallResult)]
    news = [*results, *map(_shown, texts_of(entries))]
    if is_same_session:
        return "\n\n".join([lost, *news])
    return "\n\n".join([opening_text, lost, *results])


def going_on(entries: Iterable[Entry], remarks: Iterable[str]) -> str:
    """A further prompt of a session: what was written since, and what the daemon has to say."""
    return "\n\n".join([*remarks, *map(_shown, entries)])


def allowed_later(arguments: Mapping[str, Any]) -> str:
    """The prompt after a person has allowed what a process asked that is gone."""
    return (
        "Your process was stopped while you waited for a permission, and has been started again. A person has now "
        f"allowed this, once: {arguments}. Look whether it is done already. If it is not, do exactly that now; asking "
        "for it again is answered at once. Then go on with your work."
    )


def texts_of(entries: Iterable[Entry]) -> list[Entry]:
    """What others have written, without the steps of the run and the results of its calls."""
    return [entry for entry in entries if isinstance(entry, UserText | Note | AgentText)]


def since_newest_step(entries: Sequence[Entry]) -> Sequence[Entry]:
    """What has come after the newest step of the run."""
    steps = [index for index, entry in enumerate(entries) if isinstance(entry, ModelStep)]
    return entries[steps[-1] + 1 :] if steps else entries


def _about(tools: Iterable[str], phase: str, *, can_write: bool) -> str:
    names = ", ".join(f"`{name}`" for name in tools)
    sentences = [
        "You are one agent of several in a conversation that the program tenex runs. What is below comes from it.",
        "Where they name tools that you do not have, use your own instead.",
        "The person reads your last message only, and no message that you write before a call.",
        "You are in a sandbox without a network. Your own tools work in it.",
    ]
    if names:
        sentences.append(f"The tools of tenex are those of the MCP server `{SERVER}`: {names}.")
    if not can_write:
        sentences.append("You can read the files of the workspace and cannot change them in this phase.")
    elif PHASES[Phase(phase)].is_confined:
        sentences.append("What you change in files is seen by you alone and does not stay in this phase.")
    if PHASES[Phase(phase)].needs_verdict:
        sentences.append("Your verdict counts only as an argument of the tool `complete`.")
    return " ".join(sentences)


def _shown(entry: Entry) -> str:
    from tenex.llm.messages import marked  # half a second that a daemon without such agents does not need

    return marked(entry) if isinstance(entry, UserText | AgentText | Note) else ""


def _result(entry: CallResult) -> str:
    return f"The call {entry.tool} {'gave' if entry.ok else 'did not succeed'}: {entry.content[:RESULT_CHARACTERS]}"
