"""The seven phases: which may follow which, what each forbids, which are quality gates.

    chat ──► brainstorm ──► plan ──► execute ──► verification ──► chores ──► reflection ──► chat

is the longest way; `PHASE_TRANSITIONS` has all ways, and a test compares the picture in docs/architecture.md with it.
What a phase is for, in words, is in `prompts/phases/<phase>.md`; what code forbids in it is `PHASE_ACCESS` below.
"""

from enum import StrEnum

from .graph import Edge, TransitionGraph
from .text import plain


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
    def parse(cls, word: str) -> "Phase | None":
        """Read a phase from a user, a model or an old file: any case, marks around it ignored; None if it is none."""
        try:
            return cls(plain(word).strip(" \n`*_\"'.,;:!?").lower())
        except ValueError:
            return None


PHASE_TRANSITIONS = TransitionGraph(
    nodes=tuple(Phase),
    initial=Phase.CHAT,
    edges=tuple(
        Edge(source, target)
        for source, targets in (
            (Phase.CHAT, (Phase.EXECUTE, Phase.PLAN, Phase.BRAINSTORM)),
            (Phase.BRAINSTORM, (Phase.CHAT, Phase.PLAN, Phase.EXECUTE)),
            (Phase.PLAN, (Phase.EXECUTE,)),
            (Phase.EXECUTE, (Phase.VERIFICATION, Phase.CHAT)),
            (Phase.VERIFICATION, (Phase.CHORES, Phase.EXECUTE, Phase.CHAT)),
            (Phase.CHORES, (Phase.REFLECTION,)),
            (Phase.REFLECTION, (Phase.CHAT,)),
        )
        for target in targets
    ),
    terminal=frozenset(Phase),  # END is possible in any phase; the gates decide when
)


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


TALK_PHASES = frozenset({Phase.CHAT, Phase.BRAINSTORM})
"""In which nothing is made: what they use does not count against the limits of a cycle."""
QUALITY_PHASES = (Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION)
"""The gates a cycle that executed must pass, in order."""


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


PHASE_ACCESS: dict[Phase, frozenset[Access]] = {
    Phase.CHAT: frozenset({Access.SPEAK}),
    Phase.BRAINSTORM: frozenset({Access.SPEAK, Access.READ}),
    Phase.PLAN: frozenset({Access.SPEAK, Access.READ}),
    Phase.EXECUTE: frozenset({Access.SPEAK, Access.READ, Access.CHANGE, Access.RUN}),
    # running is how verification tests; what a run may leave behind is the sandbox's business
    Phase.VERIFICATION: frozenset({Access.SPEAK, Access.READ, Access.RUN}),
    # changes only to files of this cycle and to documentation: `tools/write_policy.py` looks at the path
    Phase.CHORES: frozenset({Access.SPEAK, Access.READ, Access.CHANGE, Access.RUN}),
    Phase.REFLECTION: frozenset({Access.SPEAK, Access.LEARN}),
}
