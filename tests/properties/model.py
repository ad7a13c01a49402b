"""What a conversation must look like, so simple that one look shows it is right."""

from dataclasses import dataclass, field

from tenex.core.phases import AFTER_WORK, QUALITY_PHASES

WAYS = {
    "chat": {"execute", "plan", "brainstorm"},
    "brainstorm": {"chat", "plan", "execute"},
    "plan": {"execute"},
    "execute": {"verification", "chat"},
    "verification": {"chores", "execute", "chat"},
    "chores": {"reflection"},
    "reflection": {"chat"},
}
GATES = tuple(map(str, QUALITY_PHASES))
GATED = (("verification", "chores"), ("chores", "reflection"))
"""Of these phases the gate must be met before one goes on there."""


@dataclass
class Model:
    """One conversation, from a user's side: what is asked, who works, where it is."""

    needed: frozenset[str] = frozenset(GATES)
    """The gates in which agents work after each change; the others are passed by a rule."""
    status: str = "new"
    phase: str = "chat"
    is_asking: bool = False
    attempts: int = 0
    working: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    """Outcomes of the open turn."""
    callers: dict[str, str] = field(default_factory=dict)
    """Who was called by one of those who work, and by whom."""
    parked: set[str] = field(default_factory=set)
    """Who waits for the user's answer."""
    participants: set[str] = field(default_factory=set)
    reflected: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    executed: bool = False
    wrote_here: bool = False
    """A user has written since the phase was entered."""
    is_newer: bool = False
    """A user has written while the last turn was open that could work on it: perhaps its agents were shown that."""
    has_request: bool = False
    """A user has written what no turn could work on so far: the end begins a cycle with it."""
    came_at_rest: bool = False
    """It came in execute while nothing was under way: to verify may be what it asks for."""
    has_turns: bool = False
    """An agent has had a turn in this cycle."""
    messages: list[str] = field(default_factory=list)
    has_checks: bool = False
    """The project has a check, which runs once on each content of the workspace."""
    content: int = 0
    """How often the workspace was changed."""
    is_inspected: bool = False
    """It has been looked at since it was changed."""
    is_looked_at: bool = False
    """A turn of this cycle that may change it has ended, after which it is looked at."""
    results: dict[int, bool] = field(default_factory=dict)
    """Whether the check passed, by content, in this cycle; where it failed it had not before."""
    verified_last: bool = False
    """The last turn that was closed verified the work."""

    @property
    def is_checking(self) -> bool:
        """Whether the check is to be run on what there is."""
        return self.has_checks and self.is_inspected and self.content not in self.results

    @property
    def runs_check(self) -> bool:
        """Whether it runs now."""
        return self.is_checking and self.status == "active"

    @property
    def is_worse(self) -> bool:
        """Whether it has failed on what there is."""
        return self.is_inspected and not self.results.get(self.content, True)

    @property
    def thinking(self) -> set[str]:
        """Whose model is asked."""
        return (self.working | self.callers.keys()) - self.parked - set(self.callers.values())

    def wrote(self, event_id: str, to: str = "") -> None:
        """A user's message: it begins, wakes, is kept for later, or answers the question of `to`."""
        self.messages.append(event_id)
        if self.status == "ended":
            self._new_cycle()
        self.wrote_here = True
        if not to and self.working and not self.thinking:
            (to,) = self.parked if len(self.parked) == 1 else ("",)
        if to:
            self.parked.discard(to)
            return
        self.came_at_rest = self.status == "waiting" and self.phase == "execute"
        if self.working and self.phase not in AFTER_WORK:
            self.is_newer = True
        else:
            self.has_request = True
        if not self.working and not self.is_asking:
            self._ask()

    def asked_person(self, agent: str) -> None:
        self.parked.add(agent)

    def called(self, caller: str, agent: str) -> None:
        """An agent has another look into something."""
        self.callers[agent] = caller

    def permitted(self) -> list[tuple[str, list[str]]]:
        """The decisions a good router may take: (phase, agents), and the two words."""
        found = [(phase, ["executor", "helper"]) for phase in sorted(WAYS[self.phase]) if self._may_go(phase)]
        found = [(p, sorted(self.participants)) if p == "reflection" else (p, agents) for p, agents in found]
        if self.phase != "reflection":
            found.append((self.phase, ["planner"]))
        if not self.is_newer and not self.has_request:
            found.append(("", ["USER"]))
        may_end = self.has_turns and (not self.executed or self.needed <= self.met)
        if may_end and (self.has_request or not self.is_newer):
            found.append(("", ["END"]))
        return found

    def forbidden(self) -> list[tuple[str, list[str]]]:
        """Decisions the table or a gate bars: there is no way from here, not yet, or no end yet."""
        ways = [phase for phase in sorted(WAYS) if phase not in WAYS[self.phase] | {self.phase}]
        ways = [phase for phase in ways if (self.phase, phase) not in self._through()]
        ways += [phase for gate, phase in GATED if gate == self.phase and not self._is_closed(gate)]
        barred = [(phase, ["planner"]) for phase in ways]
        # all may have reflected in a turn that was stopped: then the gate is not in the way, though nothing met it
        left = self.needed - self.met - ({"reflection"} if self.participants <= self.reflected else set())
        if self.executed and left:
            barred.append(("", ["END"]))
        return barred

    def _may_go(self, phase: str) -> bool:
        if self.phase == "brainstorm":
            return self.wrote_here
        if (self.phase, phase) in GATED and not self._is_closed(self.phase):
            return False
        if phase == "reflection":
            return bool(self.participants - self.reflected)
        return self.phase != "reflection"  # a way to chat from there begins another cycle: END is better

    def _is_closed(self, gate: str) -> bool:
        return gate in self.met or (self.executed and gate not in self.needed)

    def _through(self) -> set[tuple[str, str]]:
        """The ways from here that lead through gates which need nobody."""
        here, ways = self.phase, set()
        for gate in GATES:
            if self._is_closed(gate) and gate in WAYS[here]:
                here = gate
                ways |= {(self.phase, target) for target in WAYS[gate]}
        return ways

    def decided(self, phase: str, agents: list[str]) -> None:
        self.is_asking = False
        if agents == ["USER"]:
            self.status = "waiting"
        elif agents == ["END"]:
            self.status = "ended"
            is_after_work = self.phase in ("execute", *GATES) and "verification" in self.met
            if is_after_work and not self.needed | self.met >= set(GATES):
                self.phase, self.wrote_here = "reflection", False
            if self.has_request:
                self._new_cycle()
                self._ask()
        else:
            if phase == "verification" and self.came_at_rest:
                self.has_request = False
            self.came_at_rest = False
            if phase != self.phase:
                self.phase, self.wrote_here = phase, False
            self.working, self.done, self.has_turns = set(agents), [], True
            if phase not in AFTER_WORK:
                self.is_newer = self.has_request = False
            if phase != "reflection":
                self.participants |= set(agents)

    def refused(self) -> None:
        """An answer of no use: asked again, three times in all."""
        self.attempts += 1
        if self.attempts >= 3:
            self.status, self.is_asking = "waiting", False

    def ended(self, agent: str, outcome: str) -> None:
        """An agent came to its end, and who called it goes on; the last one closes the turn.

        In execute, one that finishes has changed a file, which opens the gates.
        """
        if self.phase == "execute" and outcome == "finished":
            self.executed, self.met, self.reflected = True, set(), set()
            self.content += 1
            self.is_inspected = False
        if self.callers.pop(agent, None) is not None:
            return
        self.working.discard(agent)
        self.done.append(outcome)
        if self.phase == "reflection":
            self.reflected.add(agent)
        if self.working:
            return
        is_met = "finished" in self.done if self.phase != "reflection" else self.participants <= self.reflected
        self.verified_last = self.phase == "verification" and is_met
        is_held = self.phase == "verification" and (self.is_checking or self.is_worse)
        if self.executed and self.phase in GATES and is_met and not is_held:
            self.met.add(self.phase)
        if self.executed and self.phase in ("execute", "chores"):
            self._inspect()
        self._ask(is_told=not self.is_checking)

    def check_ended(self, *, is_passed: bool) -> None:
        """A check has ended; a verdict that was given while it ran counts if it passed."""
        self.results[self.content] = is_passed
        if is_passed and self.verified_last and self.executed:
            self.met.add("verification")
        if not self.is_asking and not self.working:
            self._ask()

    def _inspect(self) -> None:
        self.is_inspected = self.is_looked_at = True

    def stopped(self) -> None:
        """`/stop`: all that is open ends, and the user is next."""
        if self.status == "active":
            if self.phase == "reflection":
                self.reflected |= self.working
            if self.working and self.executed and self.phase in ("execute", "chores"):
                self.is_looked_at = True
            self.status, self.is_asking, self.working, self.is_newer = "waiting", False, set(), False
            self.has_request = False
            self.parked, self.callers = set(), {}
            self.is_inspected = False

    def _ask(self, *, is_told: bool = True) -> None:
        """The router is asked, unless only a check is waited for; what was stopped is looked at again."""
        self.status, self.is_asking, self.attempts = "active", is_told, 0
        if self.is_looked_at and self.executed:
            self.is_inspected = True

    def _new_cycle(self) -> None:
        self.phase, self.executed, self.wrote_here, self.has_turns = "chat", False, False, False
        self.participants, self.reflected, self.met = set(), set(), set()
        self.is_inspected = self.is_looked_at = self.verified_last = False
        self.results = {}
