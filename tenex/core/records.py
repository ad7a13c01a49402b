"""The records of a journal: what has happened, kept for ever, in the past tense.

Every record carries its `seq` (position in its journal, from 1) and `at` (ms). The field names are the journal's
format: camelCase in JSON, snake_case here. A record whose meaning changes gets a higher `version` and a migration;
fields may be added with a default. Each record is in the `records.py` of its subject; here are those of every
conversation, together. Those of a kind of conversation are in its folder.
"""

from tenex.core.agent_phases.records import (
    AgentPhaseChanged,
    AgentStateInitialized,
    AgentStateSet,
    ConditionFailed,
    PromptRerendered,
)
from tenex.core.approvals.records import ApprovalAnswered, ApprovalRequested, ApprovalWithdrawn, PermissionsRevoked
from tenex.core.cycle.records import (
    ClockAdjusted,
    Continued,
    CycleStarted,
    Ended,
    HandedOff,
    LimitReached,
    PhaseTransition,
    ProcessRestarted,
    Stopped,
    Waiting,
)
from tenex.core.delivery.records import (
    Ask,
    ButtonsClosed,
    CostReported,
    Delivered,
    FileRequested,
    FileShown,
    MessageSent,
    OutboxExpired,
    Purpose,
    QuietHoursEnded,
    QuietHoursInterrupted,
    QuietHoursPostponed,
    VerbositySet,
)
from tenex.core.identity.records import ConversationStarted
from tenex.core.inbox.records import (
    AnswerUncounted,
    CommandGiven,
    MessageRecorded,
    MessageWithdrawn,
    PicturesUnseen,
)
from tenex.core.rebuild.records import ConversationImported, JournalRebuilt
from tenex.core.record import Record
from tenex.core.router.records import Routed, RouteDelayed, RouterCorrected, RouteRejected, RouteRequested
from tenex.core.undo.records import FilesUndone, UndoRequested, UndoScope
from tenex.core.work.records import (
    AnswerCorrected,
    CallOutdated,
    ModelCallCancelled,
    ModelReprompted,
    ModelResponded,
    Outcome,
    QuestionAnswered,
    QuestionAsked,
    RetryDue,
    RetryScheduled,
    RunEnded,
    RunStarted,
    RunWarned,
    ToolCallCompleted,
    ToolCallQueued,
    ToolCallRejected,
    ToolCallStarted,
    TurnClosed,
    TurnOpened,
    WorkVerdict,
)

RECORDS: dict[str, type[Record]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Record) and value is not Record
}
"""Every kind of record by its name in the journal."""
