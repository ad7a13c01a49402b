"""Recovers the state of a workflow or a mission from a view file, with the rules that are configured now.

A file has the position of its conversation, and of its rules only the name. What that name means is
taken from the configuration; where that cannot be, the conversation goes on in phases, and the loss is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.records.mission import MissionOutcome
from tenex.core.workflow.rounds import faults_of_value
from tenex.core.workflow_config import PERSON
from tenex.store.recovered_history import RecoveredHistory
from tenex.store.view_reader import MOST
from tenex.workflows.speakers.decide import opening

OF: Final = ("workflow", "mission")
"""The fields of a readable file that name rules."""
AGAIN: Final = "fix that and rebuild again, with --force; until then it goes on in phases"


def is_guided(view: Mapping[str, Any]) -> bool:
    """Whether a file is of a workflow or a mission."""
    return any(isinstance(view.get(name), dict) for name in OF)


def guided(past: RecoveredHistory, view: Mapping[str, Any], rules: Policy | None) -> RecoveredHistory:
    """The past with the rules its conversation went by.

    Args:
        past: what else the file has.
        view: the file.
        rules: as configured now; None where the configuration is faulty.
    """
    workflow, mission = (entry if isinstance(entry := view.get(name), dict) else None for name in OF)
    if workflow is not None:
        past = _in_workflow(past, workflow, rules)
    if mission is not None:
        past = _in_mission(past, mission, rules)
    return past


def _in_workflow(past: RecoveredHistory, entry: Mapping[str, Any], rules: Policy | None) -> RecoveredHistory:
    name = str(entry.get("name"))
    known = rules.workflows.get(Slug(name)) if rules is not None else None
    if rules is None or known is None:
        return _lost(past, _no_rules("workflow", name, rules))
    try:
        fields = opening(rules, known, past.starter)
    except ConfigurationError as fault:
        return _lost(
            past, f"the rules of the workflow {name}, which cannot be opened ({' '.join(fault.faults)}): {AGAIN}"
        )
    after = _position_records(entry, fields, _newest(past))
    if after is None:
        return _lost(
            past,
            f"the rules of the workflow {name} as they were: those configured now cannot lead to its position "
            f"(participants, turnCount, next, lastSpeaker and context of conversation.json): {AGAIN}",
        )
    there = [slug for slug in fields["participants"] if slug == PERSON or slug in rules.roster]
    return replace(
        past,
        before=[
            r.WorkflowOpened(seq=0, at=past.started_at, **fields),
            *(r.InviteAcknowledged(seq=0, at=past.started_at, participant=slug) for slug in there),
        ],
        after=[*past.after, *after],
        phases=(),
        transitions=(),
        lost=[
            *past.lost,
            f"the rules of the workflow {name} as they were when it began: it goes by those configured now",
        ],
    )


def _position_records(entry: Mapping[str, Any], fields: Mapping[str, Any], at: Millis) -> Sequence[r.Record] | None:
    """The facts that lead from the beginning of a workflow to its position; None where none can."""
    order: tuple[str, ...] = fields["participants"]
    context, rounds, last, speaks = (entry.get(name) for name in ("context", "turnCount", "lastSpeaker", "next"))
    closed = entry.get("closeReason")
    if not isinstance(context, dict) or [*faults_of_value(context, "context")]:
        return None
    if type(rounds) is not int or not 0 <= rounds < MOST or entry.get("participants") != list(order):
        return None
    if speaks not in (None, *order) or (rounds and last not in order) or not isinstance(closed, str | None):
        return None
    gone = tuple(key for key in fields["context"] if key not in context)
    found: list[r.Record] = [r.ContextSet(seq=0, at=at, by=fields["creator"], set_=context, delete=gone)]
    if rounds:
        found.append(
            r.RoundClosed(
                seq=0,
                at=at,
                speaker=Slug(str(last)),
                turn_count=rounds,
                next=Slug(speaks or ""),
                close_reason="" if speaks else closed or "",
            )
        )
    if closed:
        found.append(r.WorkflowClosed(seq=0, at=at, reason=closed))
    return found


def _in_mission(past: RecoveredHistory, entry: Mapping[str, Any], rules: Policy | None) -> RecoveredHistory:
    name, node = str(entry.get("workflow")), entry.get("node")
    known = rules.missions.get(name) if rules is not None else None
    if rules is None or known is None:
        return _lost(past, _no_rules("mission", name, rules))
    state, steps = entry.get("state"), entry.get("steps")
    outcome = next((one for one in get_args(MissionOutcome) if one == entry.get("outcome")), None)
    node = node if isinstance(node, str) else ""
    if not isinstance(state, dict) or (outcome is None and node not in known.nodes):
        return _lost(past, f"the position of the mission {name}, which those rules do not know: {AGAIN}")
    at, by = _newest(past), next((m.name for m in past.messages if not isinstance(m, r.MessageSent)), "somebody")
    is_alone = known.begin is not None and not past.turns and not past.transitions  # as a mention leaves it
    because = str(entry.get("because") or "")
    after: list[r.Record] = [r.NodeEntered(seq=0, at=at, node=node)] if node else []
    if outcome is not None:
        after.append(r.MissionEnded(seq=0, at=at, outcome=outcome, result=entry.get("result"), message=because))
        return _opened(past, name, state, by, known.pubkey if is_alone else PublicKey(""), after)
    did = (
        f", of which conversation.json names {', '.join(map(str, steps))}" if isinstance(steps, dict) and steps else ""
    )
    reason = f"The steps that {node} had taken are not known any more; going on takes all of them again."
    after.append(r.MissionPaused(seq=0, at=at, by="the program", reason=reason))
    lost = (
        f"what the mission's node {node} was given, and its steps{did}: it is paused, and `/continue` takes all again"
    )
    opened = _opened(past, name, state, by, known.pubkey if is_alone else PublicKey(""), after)
    return replace(_lost(opened, lost), waits_for="mission", has_ended=False)


def _opened(
    past: RecoveredHistory, name: str, state: Mapping[str, Any], by: str, pubkey: PublicKey, after: Sequence[r.Record]
) -> RecoveredHistory:
    if pubkey:  # a conversation of its own has no phases
        past = replace(past, phases=(), transitions=())
    opened = r.MissionOpened(seq=0, at=past.started_at, workflow=name, state=state, by=by, pubkey=pubkey)
    if pubkey:
        return replace(past, before=[opened], after=[*past.after, *after])
    return replace(past, after=[*past.after, opened, *after])


def _no_rules(kind: str, name: str, rules: Policy | None) -> str:
    why = "no such is configured" if rules is not None else "the configuration is faulty (`tenex config check`)"
    return f"the rules of the {kind} {name[:60]}, and its position, since {why}: {AGAIN}"


def _lost(past: RecoveredHistory, sentence: str) -> RecoveredHistory:
    return replace(past, lost=[*past.lost, sentence])


def _newest(past: RecoveredHistory) -> Millis:
    """The time of the newest thing that is known."""
    times = [*(m.at for m in past.messages), *(turn.timestamp for turn in past.turns), past.started_at]
    return max(times)
