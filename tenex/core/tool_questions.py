"""Questions of a tool to a person, in the middle of its call.

The call is parked until the answer, as one of `ask`. The answer is its result, and the model calls the tool again with
the same arguments: then the tool is given all answers to these questions, read from the results in the transcript.
"""

from collections.abc import Iterable
from typing import Final

from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep

_ANSWERED: Final = "A person has answered. Call {tool} again with the same arguments, it gets the answer: "


def answered(tool: str, answer: str) -> str:
    """The result of a call whose question was answered."""
    return _ANSWERED.format(tool=tool) + answer


def answers_to(entries: Iterable[Entry], asked: CallRequest) -> tuple[str, ...]:
    """The answers that calls like this one have got since one of them had another result, oldest first."""
    beginning = _ANSWERED.format(tool=asked.tool)
    requests: dict[str, CallRequest] = {}
    answers: list[str] = []
    for entry in entries:
        if isinstance(entry, ModelStep):
            requests |= {call.id: call for call in entry.calls}
        elif isinstance(entry, CallResult):
            request = requests.get(entry.id)
            if request is None or request.tool != asked.tool or request.arguments != asked.arguments:
                continue
            if entry.content.startswith(beginning):
                answers.append(entry.content.removeprefix(beginning))
            else:
                answers.clear()
    return tuple(answers)
