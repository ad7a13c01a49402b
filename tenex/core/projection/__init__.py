"""The facts about a conversation that readers are shown. Each is computed here, once; readers only format it.

A reader takes the smallest of these values that has what it shows:

    glance    a conversation in a line                    the index, and with it `list` and `search`; `show`
    activity  what is under way, what is waited for       `status`, `watch`, `/status`, metrics, typing indicators
    kinds     what only conversations of one kind have    conversation.json, `status`
    whole     all of it                                   conversation.json, `replay`

A glance is taken at each append, and the whole at most once a second, so both cost some microseconds. The values are
immutable: a reader may keep them while the conversation goes on. Times are milliseconds.

What has happened is noted in the state (`core.history.state`) and passed on here. `store.stats` and
`telemetry.durations` add up records instead, also those that the state has dropped, as an import's. They share with the
state the rules of what is work (`phase_metrics`) and what it costs (`core.totals.costs`).
"""

from tenex.core.kind_format import KindShare

from .activity import (
    STUCK,
    Activity,
    RouterActivity,
    RunActivity,
    RunState,
    activity_of,
    condition_of,
    is_idle,
    is_settled,
    router_of,
    run_began,
    run_state,
    status_of,
    tools_of,
    undelivered,
    why_stuck,
)
from .fates import Fate, FateKind, Fates
from .glance import Glance, glance_of, partner, shown_status
from .kinds import PhasesShare, phase_of
from .whole import PlacedMessage, Projection, project

__all__ = [
    "STUCK",
    "Activity",
    "Fate",
    "FateKind",
    "Fates",
    "Glance",
    "KindShare",
    "PhasesShare",
    "PlacedMessage",
    "Projection",
    "RouterActivity",
    "RunActivity",
    "RunState",
    "activity_of",
    "condition_of",
    "glance_of",
    "is_idle",
    "is_settled",
    "partner",
    "phase_of",
    "project",
    "router_of",
    "run_began",
    "run_state",
    "shown_status",
    "status_of",
    "tools_of",
    "undelivered",
    "why_stuck",
]
