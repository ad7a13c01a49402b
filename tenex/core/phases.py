"""The phases, as one table: which may follow which, what each permits, which are quality gates.

    chat ──► brainstorm ──► plan ──► execute ──► verification ──► chores ──► reflection ──► chat

is the longest way; `PHASES` has all ways, and a test compares the picture in docs/architecture.md with it.
What a phase is for, in words, is in `prompts/phases/<phase>.md`; what code asks about it is its row in `PHASES` below.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tenex.core.graph import Edge, TransitionGraph
from tenex.core.text.foreign import plain


class Phase(StrEnum):
    """The phase of a conversation."""

    CHAT = "chat"
    BRAINSTORM = "brainstorm"
    PLAN = "plan"
    EXECUTE = "execute"
    VERIFICATION = "verification"
    CHORES = "chores"
    REFLECTION = "reflection"

    @classmethod
    def _missing_(cls, value: object) -> "Phase | None":
        """`Phase("CHAT")`, as other programs write a phase."""
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None

    @classmethod
    def parse(cls, word: str) -> "Phase | None":
        """Read a phase from a user, a model or an old file: any case, marks around it ignored; None if it is none."""
        try:
            return cls(plain(word).strip(" \n`*_\"'.,;:!?").lower())
        except ValueError:
            return None


class Access(StrEnum):
    """What a tool does to the world, and so where it may be used."""

    SPEAK = "speak"
    """`complete`, `ask`: words to users and to the daemon; `search_conversation`: words of theirs, read again."""
    READ = "read"
    """Reads the workspace."""
    CHANGE = "change"
    """Changes files of the workspace."""
    RUN = "run"
    """Runs a program."""
    LEARN = "learn"
    """Records a lesson."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What is said of a quality gate: a phase that a cycle passes before its end, once it has changed something."""

    reason: str
    """Why a rule goes on to it."""
    risk: str
    """What it means to skip it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFacts:
    """What code asks about a phase."""

    icon: str
    """Before its name, in a terminal."""
    leads_to: tuple[Phase, ...]
    access: frozenset[Access]
    """The tools that may be used in it."""
    is_talk: bool = False
    """Whether agents and users talk in it and nothing is made: an agent may `hand_over` to work, the user is waited for
    after a turn, and what it uses does not count against the limits of a cycle."""
    follows_work: bool = False
    """Whether its agents look at what execute made, and carry out no message: a request that comes in it is carried out
    in the next cycle. A gate always does; this is for a phase after execute that is none."""
    gate: Gate | None = None
    needs_verdict: bool = False
    """Whether its agents judge what was made, and end with a verdict."""
    may_ask: bool = True
    """Whether its agents may say more to users than how their part ended."""
    may_fail: bool = False
    """Whether the work goes on all the same where an agent fails in it: nothing depends on what it would have said."""
    changes_only_own: bool = False
    """Whether only files of this cycle and documentation may be changed: `tools/write_policy.py` looks at the path."""

    @property
    def is_confined(self) -> bool:
        """Whether there are files of the workspace that a call may not change in it."""
        return self.changes_only_own or Access.CHANGE not in self.access


PHASES: Final[Mapping[Phase, PhaseFacts]] = {
    Phase.CHAT: PhaseFacts(
        icon="💬",
        leads_to=(Phase.EXECUTE, Phase.PLAN, Phase.BRAINSTORM),
        access=frozenset({Access.SPEAK}),
        is_talk=True,
    ),
    Phase.BRAINSTORM: PhaseFacts(
        icon="💡",
        leads_to=(Phase.CHAT, Phase.PLAN, Phase.EXECUTE),
        access=frozenset({Access.SPEAK, Access.READ}),
        is_talk=True,
    ),
    Phase.PLAN: PhaseFacts(
        icon="📐",
        leads_to=(Phase.EXECUTE,),
        access=frozenset({Access.SPEAK, Access.READ}),
    ),
    Phase.EXECUTE: PhaseFacts(
        icon="🔨",
        leads_to=(Phase.VERIFICATION, Phase.CHAT),
        access=frozenset({Access.SPEAK, Access.READ, Access.CHANGE, Access.RUN}),
    ),
    Phase.VERIFICATION: PhaseFacts(
        icon="🔎",
        leads_to=(Phase.CHORES, Phase.EXECUTE, Phase.CHAT),
        # running is how verification tests; what a run may leave behind is the sandbox's business
        access=frozenset({Access.SPEAK, Access.READ, Access.RUN}),
        gate=Gate(reason="what was changed has to be tried", risk="no one will have tried whether it works"),
        needs_verdict=True,
    ),
    Phase.CHORES: PhaseFacts(
        icon="🧹",
        leads_to=(Phase.REFLECTION,),
        access=frozenset({Access.SPEAK, Access.READ, Access.CHANGE, Access.RUN}),
        gate=Gate(reason="the work is verified", risk="documentation and leftovers stay as they are"),
        changes_only_own=True,
    ),
    Phase.REFLECTION: PhaseFacts(
        icon="🪞",
        leads_to=(Phase.CHAT,),
        access=frozenset({Access.SPEAK, Access.LEARN}),
        gate=Gate(reason="the work is done", risk="nothing will be remembered from this cycle"),
        may_ask=False,
        may_fail=True,
    ),
}

PHASE_TRANSITIONS = TransitionGraph(
    nodes=tuple(Phase),
    initial=Phase.CHAT,
    edges=tuple(Edge(phase, target) for phase in Phase for target in PHASES[phase].leads_to),
    terminal=frozenset(Phase),  # END is possible in any phase; the gates decide when
)
PHASE_ACCESS: Final = {phase: facts.access for phase, facts in PHASES.items()}
TALK_PHASES: Final = frozenset(phase for phase, facts in PHASES.items() if facts.is_talk)
GATES: Final = {phase: facts.gate for phase, facts in PHASES.items() if facts.gate is not None}
QUALITY_PHASES: Final = tuple(GATES)
"""The gates a cycle that executed must pass, in order."""
AFTER_WORK: Final = tuple(phase for phase, facts in PHASES.items() if facts.follows_work or facts.gate is not None)
"""The phases in which no message is carried out."""


def way(start: Phase, goal: Phase) -> tuple[Phase, ...]:
    """The phases of a shortest permitted way to another, the goal last; none to the same. There is always one."""
    ways: dict[Phase, tuple[Phase, ...]] = {start: ()}
    queue = [start]
    for phase in queue:
        for following in map(Phase, PHASE_TRANSITIONS.permitted(phase)):
            if following not in ways:
                ways[following] = (*ways[phase], following)
                queue.append(following)
    return ways[goal]
