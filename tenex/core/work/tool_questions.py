"""Questions of a tool to a person, in the middle of its call.

The call is parked until the answer, as one of `ask`. The answer is its result, and the model calls the tool again with
the same arguments: then the tool is given all answers to these questions, read from the results in the transcript. Each
answer comes with the question that it was given to, and counts for no other: the tool may ask something else this time.
"""

from collections.abc import Iterable
from typing import Final

from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep
from tenex.core.port_values import QuestionReply

_ANSWERED: Final = "A person has answered. Call {tool} again with the same arguments, it gets the answer: "


def answered(tool: str, answer: str) -> str:
    """The result of a call whose question was answered."""
    return _ANSWERED.format(tool=tool) + answer


def answers_to(entries: Iterable[Entry], asked: CallRequest) -> tuple[QuestionReply, ...]:
    """The answers that calls like this one have got since one of them had another result, oldest first."""
    beginning = answered(asked.tool, "")
    requests: dict[str, CallRequest] = {}
    answers: list[QuestionReply] = []
    for entry in entries:
        if isinstance(entry, ModelStep):
            requests |= {call.id: call for call in entry.calls}
        elif isinstance(entry, CallResult):
            request = requests.get(entry.id)
            if request is None or request.tool != asked.tool or request.arguments != asked.arguments:
                continue
            if entry.question:  # no result of a tool has one, whatever its words
                answers.append(QuestionReply(question=entry.question, text=entry.content.removeprefix(beginning)))
            else:
                answers.clear()
    return tuple(answers)
