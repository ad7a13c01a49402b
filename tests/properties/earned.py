"""What a journal has to show of gates and of a person's words, from the records alone."""

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.projection import Fates
from tenex.workflows.phases import records as p


def pending_words(conversation: Conversation) -> list[str]:
    """The messages of people that wait for their turn; of each of the others it is known what became of it."""
    fates = Fates(conversation)
    pending = []
    for message in conversation.memory.recent:
        if message.role is None:
            continue
        fate = fates.of(message)
        assert fate is not None, f"nothing tells what became of “{message.text}”"
        assert fate.kind not in ("thanks", "waiver") or fate.words
        if fate.kind in ("open", "next_cycle"):
            pending.append(message.text)
    return pending


def is_worse(now: CheckResult, then: CheckResult | None) -> bool:
    """Whether a check speaks against the work: it fails, and it is not known that it failed so before."""
    told = ("failed", "timeout", "nothing")
    if now.outcome not in told:
        return False
    if then is None or then.outcome != now.outcome or then.environment != now.environment:
        return True
    if now.outcome != "failed":
        return False
    if now.failed and then.failed:
        return not set(now.failed) <= set(then.failed)
    if now.failures is not None and then.failures is not None:
        return now.failures > then.failures
    return now.status != then.status


class Earned:
    """Follows a journal, and fails where an end or a gate is not earned, or a rule passes over a person's word."""

    def __init__(self) -> None:
        self.phase = Phase.CHAT
        self.begins_turn()
        self.closed_turn = self.has_run, self.looked_at, self.verdicts
        self.begins()
        self.words: dict[int, str] = {}
        """What came in a gate, and was neither answered nor read by the router."""

    def begins(self) -> None:
        """A cycle begins."""
        self.touched: set[str] = set()
        self.has_fault = False
        self.has_tidied = False
        """Whether chores changed something: there is no way back from there, so the end says what they broke."""
        self.has_outside_effect = self.is_open = self.is_waived = False
        self.inspection: Inspection | None = None
        self.results: dict[tuple[str, str], CheckResult] = {}
        self.refused_tree = ""

    def begins_turn(self) -> None:
        """A turn begins."""
        self.has_run = False
        self.looked_at: set[str] = set()
        self.verdicts: set[str] = set()

    def follow(self, decision: tuple[r.Record, ...]) -> None:
        """Take the records of a decision."""
        is_command = any(isinstance(record, r.CommandGiven) for record in decision)
        for record in decision:
            self._work(record)
            self._needs(record)
            self._words(record)
            if isinstance(record, r.Ended) and not is_command and not self.is_waived:
                assert not self.is_open, "an end without evidence, waiver or an accepted `untried`"
                assert self.has_tidied or not self.touched or not self.worse(), "an end with a check that is worse"

    def worse(self) -> list[CheckResult]:
        """The checks that speak against what is there now."""
        seen = self.inspection
        if seen is None:
            return []
        ended = [result for (name, tree), result in self.results.items() if tree == seen.tree and name in seen.checks]
        return [now for now in ended if is_worse(now, self.results.get((now.name, seen.base)))]

    def _work(self, record: r.Record) -> None:
        match record:
            case r.CycleStarted():
                self.begins()
                self.phase = record.phase
            case r.PhaseTransition():
                self.phase = record.to
            case r.TurnOpened():
                self.phase = record.phase
                self.begins_turn()
            case r.ToolCallCompleted():
                self._call(record)
            case r.RunEnded():
                self.verdicts.add(record.verdict)
            case r.TurnClosed():
                self._closed(record)
            case p.Waived(phases=phases) if Phase.VERIFICATION in phases:
                self.is_waived = True
            case _:
                self._seen(record)

    def _seen(self, record: r.Record) -> None:
        match record:
            case p.WorkInspected():
                self.inspection = record.inspection
                if not self.has_outside_effect and not self._differs():
                    self.is_open = False
            case p.VerificationCounted(gate=Phase.CHORES):
                assert self.is_waived or not self.worse(), "chores that broke a check"
            case p.VerificationCounted():
                self.is_open = False
                self._met()
            case p.CheckEnded(result=result):
                assert (result.name, result.tree) not in self.results, "the same tree is checked twice"
                self.results[result.name, result.tree] = result

    def _closed(self, record: r.TurnClosed) -> None:
        self.closed_turn = self.has_run, self.looked_at, self.verdicts
        if record.gate is Phase.VERIFICATION:
            self.is_open = False
            if not self.is_waived:  # then no check is waited for
                self._met()
        elif self.phase is Phase.VERIFICATION and ("issues" in self.verdicts or self.worse()):
            self.refused_tree = self.inspection.tree if self.inspection is not None else ""

    def _differs(self) -> set[str]:
        """The files that were changed, and differ."""
        seen = self.inspection
        return self.touched if seen is None or seen.fault else self.touched & seen.paths

    def _met(self) -> None:
        """The gate is met: by a verdict on what was seen, as it is now."""
        has_run, looked_at, verdicts = self.closed_turn
        assert "verified" in verdicts, "a gate without a verdict"
        assert "issues" not in verdicts, "a gate beside issues"
        seen = self.inspection
        assert seen is not None, "a gate for what nobody has looked at since it was changed"
        assert not self.worse(), "a gate beside a check that is worse than before"
        assert not seen.tree or seen.tree != self.refused_tree, "a gate for what was refused and is as it was"
        ended = [self.results.get((name, seen.tree)) for name in seen.checks]
        assert self.is_waived or None not in ended, "a gate before each check has ended"
        is_checked = any(result is not None and result.outcome in ("passed", "failed") for result in ended)
        is_read = bool(self._differs()) and self._differs() <= looked_at
        assert is_checked or has_run or is_read, "a gate without evidence"

    def _call(self, record: r.ToolCallCompleted) -> None:
        self.touched |= {*record.touched}
        is_changed = bool(record.touched) or record.has_outside_effect
        if self.phase is Phase.EXECUTE and is_changed:
            self.is_open = True
            self.has_outside_effect = self.has_outside_effect or record.has_outside_effect
        if self.phase in (Phase.EXECUTE, Phase.CHORES) and is_changed:
            self.inspection = None
            self.has_tidied = self.phase is Phase.CHORES
        self.has_run = self.has_run or record.exit_status is not None
        self.looked_at |= {*record.read}

    def _needs(self, record: r.Record) -> None:
        """What a rule passes by need, in a project with lessons."""
        match record:
            case r.RunEnded(verdict="issues") | r.ToolCallRejected() | r.ToolCallCompleted(ok=False, exit_status=None):
                self.has_fault = True
            case r.PhaseTransition(gate=Phase.CHORES):
                made = (
                    {file.path for file in seen.changed if file.kind == "new"} if (seen := self.inspection) else set()
                )
                is_known = seen is not None and not seen.fault
                assert is_known or not self.touched, "chores were passed over files that nobody has looked at"
                assert self.touched.isdisjoint(made), "chores were passed over files that were made"
            case r.PhaseTransition(gate=Phase.REFLECTION):
                assert not self.has_fault, "reflection was passed over a fault"

    def _words(self, record: r.Record) -> None:
        match record:
            case r.MessageRecorded(is_correction=False):
                self.refused_tree = ""  # what they wrote may settle what was found
                if self.phase in QUALITY_PHASES:
                    self.words[record.seq] = record.event_id
            case r.RouteRequested() | r.Stopped() | r.CycleStarted():
                self.words = {}
            case r.QuestionAnswered() | p.PlanApproved() | p.WaiverDeclined() | r.MessageWithdrawn():
                self.words.pop(record.message, None)
            case p.WaiverRequested(settled=settled):
                for settlement in settled:
                    self.words.pop(settlement.message, None)
            case p.Waived():
                self.words = {seq: event for seq, event in self.words.items() if event != record.message_id}
            case r.Routed(by="rule"):
                assert not self.words, "a rule went on over what a person wrote in a gate"
