"""Which kinds of calls have always been allowed, so that a rule is proposed."""

from pathlib import Path
from typing import Any

from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.approvals.state import AskedCall, Outcome
from tenex.core.config import Replay
from tenex.core.ids import CallId, ConversationId, Millis, PublicKey, RunId
from tenex.features.approvals.checks import approvals
from tenex.features.approvals.requests import ENOUGH, Proposal, proposals
from tenex.store.format import CONVERSATION
from tests.operations.doctor_kit import case_of, found_by

RUN, CALL = RunId("turn-1.executor"), CallId("k")


def answered(number: int, outcome: Outcome, *words: str, **more: Any) -> list[r.Record]:
    """A request about one call, and its answer."""
    given: dict[str, Any] = {"tool": "shell", "prefixes": (words,) if words else (), **more}
    call = AskedCall(call=CALL, replay=Replay.ONCE, digest="d", line="x", rule="", **given)
    asked = r.ApprovalRequested(seq=number, at=Millis(0), run=RUN, calls=(call,), expires_at=Millis(1))
    answer = r.ApprovalAnswered(seq=number + 1, at=Millis(0), request=number, run=RUN, calls=(CALL,), outcome=outcome)
    return [asked, answer]


def journal(count: int, outcome: Outcome, *words: str, **more: Any) -> list[r.Record]:
    return [record for number in range(count) for record in answered(2 * number + 1, outcome, *words, **more)]


def test_what_was_allowed_each_time_is_proposed() -> None:
    half = ENOUGH // 2
    journals = [journal(half, "yes", "git", "push"), journal(ENOUGH - half, "yes", "git", "push")]
    assert proposals(journals) == [Proposal(tool="shell", words=("git", "push"), answers=ENOUGH)]


def test_what_a_call_needs_makes_it_another_kind() -> None:
    plain = journal(ENOUGH, "yes", "npm", "ci")
    with_network = journal(ENOUGH - 1, "yes", "npm", "ci", needs=("network",))
    assert proposals([plain, with_network]) == [Proposal(tool="shell", words=("npm", "ci"), answers=ENOUGH)]
    refused = journal(1, "no", "npm", "ci")
    with_network += journal(1, "yes", "npm", "ci", needs=("network",))
    assert [one.needs for one in proposals([plain, with_network, refused])] == [("network",)]


def test_a_single_no_or_too_few_answers_propose_nothing() -> None:
    assert proposals([journal(ENOUGH - 1, "yes", "git", "push")]) == []
    assert proposals([journal(ENOUGH, "yes", "git", "push"), journal(1, "no", "git", "push")]) == []
    assert proposals([journal(ENOUGH, "yes", is_exact=True)]) == [], "what is like nothing else"
    assert proposals([journal(ENOUGH, "expired", "git", "push")]) == []


def test_what_an_import_says_proposes_nothing() -> None:
    imported = r.ConversationImported(seq=99, at=Millis(0))
    assert proposals([[*journal(ENOUGH, "yes", "git", "push"), imported]]) == []


def test_calls_of_one_request_count_by_the_answer_that_each_has_got() -> None:
    def both(number: int) -> list[r.Record]:
        words: dict[str, tuple[str, ...]] = {"push": ("git", "push"), "publish": ("npm", "publish")}
        calls = tuple(
            AskedCall(
                call=CallId(name), tool="shell", replay=Replay.ONCE, digest="d", line="x", rule="", prefixes=(two,)
            )
            for name, two in words.items()
        )
        shared: dict[str, Any] = {"at": Millis(0), "run": RUN}
        return [
            r.ApprovalRequested(seq=number, calls=calls, expires_at=Millis(1), **shared),
            r.ApprovalAnswered(seq=number + 1, request=number, calls=(CallId("push"),), outcome="yes", **shared),
            r.ApprovalAnswered(seq=number + 2, request=number, calls=(CallId("publish"),), outcome="no", **shared),
        ]

    records = [record for number in range(ENOUGH) for record in both(3 * number + 1)]
    assert proposals([records]) == [Proposal(tool="shell", words=("git", "push"), answers=ENOUGH)]


def test_a_tool_without_commands_is_proposed_as_a_whole() -> None:
    assert proposals([journal(ENOUGH, "yes", tool="mail__send")]) == [
        Proposal(tool="mail__send", words=(), answers=ENOUGH)
    ]


async def test_the_doctor_proposes_the_rule_unless_there_is_one(tmp_path: Path) -> None:
    data = prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data
    name = ConversationId("c" * 64)
    began = r.ConversationStarted(seq=1, at=Millis(0), id=name, title="t", starter=PublicKey("a" * 64), address={})
    records = [record for number in range(ENOUGH) for record in answered(2 * number + 2, "yes", "git", "push")]
    folder = data / "conversations" / name
    folder.mkdir(parents=True)
    lines = CONVERSATION.encode_decisions([[began], *([record] for record in records)])
    (folder / "journal.jsonl").write_bytes(lines)
    (finding,) = await found_by(approvals, case_of(data))
    assert finding.message == f"`shell git push` was allowed {ENOUGH} times and never refused"
    assert finding.fix.endswith('{ tool = "shell", match = ["git", "push"], decision = "allow" } to `approve`')
    file = data / "tenex.toml"
    rule = '[[approve]]\ntool = "shell"\nmatch = ["git", "push"]\ndecision = "allow"\n'
    file.write_text(f"{file.read_text()}\n{rule}")
    assert await found_by(approvals, case_of(data)) == []
