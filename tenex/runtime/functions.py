"""Calls functions of operators (conditions, targets, `begin`, factories) that a decision depends on, outside of it.

Each call has a thread of its own and `TIMEOUT` seconds. One that takes longer is interrupted by `SystemExit`, which
ends a loop of Python but no call of C such as `time.sleep`: that thread is abandoned. The verdict is a
`TimeoutError`, and the same function fails at once as long as an abandoned call of it runs. A failed rule ends its
workflow (`rule_failed`); a failed condition of an agent is false (`ConditionFailed`).
"""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.dispatch import next_question
from tenex.core.effects import Evaluate
from tenex.core.errors import UsageError
from tenex.core.functions.verdicts import FunctionQuestion, Verdict
from tenex.core.ids import Millis
from tenex.core.signals import Evaluated
from tenex.core.text.json_values import faults_of_value
from tenex.log import get_logger

TIMEOUT: Final = 1.0
"""Seconds: such a function looks at values and takes microseconds; no decision should wait longer for one."""

log = get_logger(__name__)


class FunctionCalls:
    """Carries out `Evaluate`, for all conversations of a process."""

    def __init__(self) -> None:
        self._abandoned: dict[Any, threading.Thread] = {}
        """By function, the thread that does not return."""

    async def evaluate(self, conversation: Conversation, effect: Evaluate, policy: Policy, now: Millis) -> Evaluated:
        """The verdicts that the first undecided signal of the conversation depends on, as it is now."""
        verdicts: list[Verdict] = []
        try:
            while (question := next_question(conversation, verdicts, policy, now)) is not None:
                verdicts.append(await self._in_thread(question))
        except Exception:  # an internal error, which the actor finds and reports when it decides
            log.exception("functions.failed", conversation=conversation.id)
        return Evaluated(key=effect.key, verdicts=tuple(verdicts))

    async def _in_thread(self, question: FunctionQuestion) -> Verdict:
        try:
            verdict: Verdict = await in_thread(lambda: self.verdict(question))
        except RuntimeError as error:  # the system gives no more threads
            return question.failed(error)
        return verdict

    def verdict(self, question: FunctionQuestion) -> Verdict:
        """Call a function and wait for it, in a thread that may block for `TIMEOUT`."""
        before = self._abandoned.get(question.code)
        if before is not None and before.is_alive():
            return question.failed(TimeoutError("an earlier call of it has not returned yet"))
        self._abandoned.pop(question.code, None)
        ended: list[Verdict] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                ended.append(question.returned(question.call()))
            except BaseException as error:  # noqa: BLE001 - an operator's function may fail in any way
                errors.append(error)
                ended.append(question.failed(error))

        thread = threading.Thread(target=body, name="tenex-function", daemon=True)
        thread.start()
        thread.join(TIMEOUT)
        if not ended:
            self._abandoned[question.code] = thread
            interrupt(thread)
            log.warning("function.abandoned", function=question.function, after=TIMEOUT)
            return question.failed(TimeoutError(f"it took longer than {TIMEOUT:g} s and was given up"))
        if errors and not isinstance(errors[0], UsageError):  # that is for who wrote the message
            log.warning("function.failed", function=question.function, error=ended[0].kind, exc_info=errors[0])
        fault = next(faults_of_value(ended[0].value, "what it returned"), "")
        return question.failed(TypeError(fault)) if fault else ended[0]


def interrupt(thread: threading.Thread) -> None:
    """Raise `SystemExit` in a thread, so that a loop in Python ends; a call outside Python code goes on."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


async def in_thread(work: Callable[[], Any]) -> Any:
    """Do blocking work in a thread of its own, which is abandoned when its caller is cancelled.

    A pool would be used up by calls that never end, and the process would wait for them when it ends.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.get_running_loop().create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def body() -> None:
        value = None
        error = None
        try:
            value = context.run(work)
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the result is awaited
            error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=body, name="tenex-operator-code", daemon=True).start()
    return await done
