"""The requests of the control socket about calls that wait for a person: the list, and the operator's answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenex.app import Application
from tenex.app.control import OPERATOR
from tenex.app.extension import Extension
from tenex.core.conversation import Conversation
from tenex.core.errors import TenexError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.records import ApprovalAnswered, Record
from tenex.core.signals import ApprovalDecided
from tenex.service.control import Handler

from .requests import open_requests

ANSWERED: Final = 20.0
"""Seconds until an answer is durable at most."""


def extend(app: Application) -> Extension:
    """Answer the requests for the list of what waits, and for an answer."""
    orders = ApprovalOrders(app)
    return Extension(observers=[orders], orders=orders.handlers)


class ApprovalOrders:
    """Lists what waits, and delivers the operator's answers; sees when they are durable. An `Observer`."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._waiting: dict[tuple[ConversationId, int], asyncio.Future[ApprovalAnswered]] = {}

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Complete the requests that wait for one of these."""
        for record in records:
            if isinstance(record, ApprovalAnswered):
                waiting = self._waiting.get((conversation.id, record.request))
                if waiting is not None and not waiting.done():
                    waiting.set_result(record)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by request."""
        return {"approvals": self._list, "approve": self._answer}

    async def _list(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """`approvals`: every request that waits; those of the files are in memory, since each has a timer."""
        states = [actor.conversation for actor in self._app.coordinator]
        return open_requests([state for state in states if state is not None], self._app.clock.now())

    async def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`approve`: `id`, `request`, `yes` and if wanted `reason` and the number of a `call`.

        Raises:
            UsageError: there is no such request.
            TenexError: it was not recorded within `ANSWERED` seconds.
        """
        name = asked.get("id")
        request = asked.get("request")
        is_yes = asked.get("yes")
        call = asked.get("call", 0)
        if not isinstance(name, str) or type(request) is not int or not isinstance(is_yes, bool):
            raise UsageError('the order needs "id", a conversation\'s, "request", a number, and "yes", true or false')
        if type(call) is not int:
            raise UsageError('"call" is the number of a call, or 0 for all')
        conversation = ConversationId(name)
        state = self._app.coordinator.conversation(conversation)
        waits = state.approvals.open.get(request) if state is not None else None
        if waits is None or (call and call not in waits.left):
            raise UsageError("This is not asked any more. `tenex approvals list` shows what is.")
        key = (conversation, request)
        waiting = self._waiting.setdefault(key, asyncio.get_running_loop().create_future())
        reason = str(asked.get("reason") or "")
        signal = ApprovalDecided(request=request, is_yes=is_yes, by=OPERATOR, reason=reason, call=call)
        try:
            self._app.coordinator.deliver(conversation, signal)
            async with asyncio.timeout(ANSWERED):
                record = await asyncio.shield(waiting)
        except TimeoutError as fault:
            raise TenexError(
                f"The answer is not recorded after {ANSWERED:g} s; it may be when the disk takes it. Look with "
                "`tenex approvals list`."
            ) from fault
        finally:
            self._waiting.pop(key, None)
        return {"outcome": record.outcome, "by": record.name}
