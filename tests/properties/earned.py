"""What a journal has to show of gates and of a person's words, from the records alone."""

from tenex.core import records as r
from tenex.core.messages import CallRequest
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.workflows.phases import records as p


class Earned:
    """Follows a journal, and fails where an end or a gate is not earned, or a rule passes over a person's word."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], CallRequest] = {}
        self.phase = Phase.CHAT
        self.has_trial = False
        self.failed: set[str] = set()
        self.looked_at: set[str] = set()
        self.has_verdict = False
        self.begins()
        self.words: dict[int, str] = {}
        """What came in a gate, and was neither answered nor read by the router."""

    def begins(self) -> None:
        """A cycle begins."""
        self.touched: set[str] = set()
        self.is_open = self.is_waived = False

    def follow(self, decision: tuple[r.Record, ...]) -> None:
        """Take the records of a decision."""
        is_command = any(isinstance(record, r.CommandGiven) for record in decision)
        for record in decision:
            self._work(record)
            self._words(record)
            if isinstance(record, r.Ended) and not is_command:
                assert self.is_waived or not self.is_open, "an end without evidence, waiver or an accepted `untried`"

    def _work(self, record: r.Record) -> None:
        match record:
            case r.CycleStarted():
                self.begins()
                self.phase = record.phase
            case r.PhaseTransition():
                self.phase = record.to
            case r.TurnOpened():
                self.phase, self.has_trial, self.looked_at, self.has_verdict = record.phase, False, set(), False
                self.failed = set()
            case r.ModelResponded():
                self.calls |= {(record.run, call.id): call for call in record.step.calls}
            case r.ToolCallCompleted():
                self._call(record)
            case r.RunEnded():
                self.has_verdict = self.has_verdict or record.verdict == "verified"
            case r.TurnClosed(gate=Phase.VERIFICATION):
                is_read = bool(self.touched) and self.touched <= self.looked_at
                is_text = all(path.endswith(".md") for path in self.touched)
                assert self.has_verdict, "a gate without a verdict"
                assert self.has_trial or (is_text and is_read), "a gate without evidence"
                assert not self.failed, "a gate beside a trial that failed"
                self.is_open = False
            case p.Waived(phases=phases) if Phase.VERIFICATION in phases:
                self.is_waived = True

    def _call(self, record: r.ToolCallCompleted) -> None:
        self.touched |= {*record.touched}
        if self.phase is Phase.EXECUTE and (record.touched or record.has_outside_effect):
            self.is_open = True
        self.has_trial = self.has_trial or record.exit_status == 0
        call = self.calls.get((record.run, record.call))
        named = str(call.arguments.get("path", "")) if call is not None else ""
        self.looked_at |= {*record.read, named}
        if record.exit_status is not None:
            (self.failed.add if record.exit_status else self.failed.discard)(named)

    def _words(self, record: r.Record) -> None:
        match record:
            case r.MessageRecorded() if self.phase in QUALITY_PHASES:
                self.words[record.seq] = record.event_id
            case r.RouteRequested() | r.Stopped() | r.CycleStarted():
                self.words = {}
            case r.QuestionAnswered() | p.PlanApproved() | p.WaiverDeclined():
                self.words.pop(record.message, None)
            case p.Waived():
                self.words = {seq: event for seq, event in self.words.items() if event != record.message_id}
            case r.Routed(by="rule"):
                assert not self.words, "a rule went on over what a person wrote in a gate"
