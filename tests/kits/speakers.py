"""What is recorded of a workflow of speakers."""

from tenex.core import records as r
from tenex.workflows.speakers import records as w
from tests.fakes.scenario import Scenario


def speakers(one: Scenario) -> list[str]:
    return [record.speaker for record in one.records(w.RoundClosed)]


def closed(one: Scenario) -> str:
    """The reason of the one end there was."""
    (record,) = one.records(w.WorkflowClosed)
    (message,) = [
        record for record in one.records(r.MessageSent) if "close-reason" in dict(tag[:2] for tag in record.tags)
    ]
    assert dict(tag[:2] for tag in message.tags)["close-reason"] == record.reason
    assert one.records(r.MessageSent)[-1] is message, "the reason is in the last message"
    assert one.conversation.cycle.status == "ended"
    return str(record.reason)
