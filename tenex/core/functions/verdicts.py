"""What functions of operators answered. A decision reads answers that are on record; it never calls such a function.

Where an answer is missing, the decision raises `Unanswered` and is made again once the answer is there.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.errors import words_of

ERROR_CHARACTERS = 500
"""Of what a function raised: the traceback is in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a function returned, as JSON, or the name of the exception and its message."""

    owner: str = ""
    """The key of the agent's state that it was called for; "" for none."""
    function: str
    given: str
    """A digest of what it was called with."""
    value: Any = None
    kind: str = ""
    """The exception's class; "" where it returned."""
    error: str = ""

    @property
    def key(self) -> str:
        """Distinguishes the call from others of one decision."""
        return f"{self.owner} {self.function} {self.given}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionQuestion:
    """A call of a function that a decision depends on. `call` returns a JSON value and changes nothing."""

    owner: str = ""
    function: str
    given: str
    code: Any
    """The function itself: it is not called again while an earlier call of it has not returned."""
    call: Callable[[], Any]

    def returned(self, value: Any) -> Verdict:
        """The verdict of a call that returned."""
        return Verdict(owner=self.owner, function=self.function, given=self.given, value=value)

    def failed(self, error: BaseException) -> Verdict:
        """The verdict of a call that raised, or was given up."""
        return Verdict(
            owner=self.owner,
            function=self.function,
            given=self.given,
            kind=type(error).__name__,
            error=words_of(error)[:ERROR_CHARACTERS],
        )


class Unanswered(Exception):
    """The answer to a question is not on record."""

    def __init__(self, question: FunctionQuestion) -> None:
        super().__init__(question.function)
        self.question = question


Ask = Callable[[FunctionQuestion], Verdict]


def answer(verdicts: Mapping[str, Verdict], question: FunctionQuestion) -> Verdict:
    """The recorded verdict.

    Raises:
        Unanswered: there is none.
    """
    verdict = verdicts.get(f"{question.owner} {question.function} {question.given}")
    if verdict is None:
        raise Unanswered(question)
    return verdict


def call_now(question: FunctionQuestion) -> Verdict:
    """Call the function here and now, for callers outside a decision."""
    try:
        return question.returned(question.call())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an operator's function may fail in any way
        return question.failed(error)


def digest(facts: object) -> str:
    """Marks what a function is called with; `facts` are values JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest()[:16]
