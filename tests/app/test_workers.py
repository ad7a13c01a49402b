"""What a daemon does with what it sees of the others: index it, take it over, share limits with them, or leave it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tenex.app.workers import EVERY, FULL, LEFT, PATIENT, WorkerWatch, WorkspaceShare, needs_workspace
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId
from tenex.core.phases import Phase
from tenex.core.work.state import Work
from tenex.store.conversations import Change
from tests.fakes.scenario import ID, policy
from tests.fakes.virtual import virtual_time
from tests.store.kit import longest_scenario

ONE = ConversationId("1" * 64)
TWO = ConversationId("2" * 64)


class Others:
    """The store, the index and the coordinator of a daemon."""

    def __init__(self) -> None:
        self.changed = [
            Change(id=ONE, bytes=10, is_free=True),
            Change(id=TWO, bytes=20, is_free=False),
        ]
        self.leases: Any = self
        self.drains = False
        self.daemons = 1
        self.is_full: list[bool] = []
        self.read: list[ConversationId] = []
        self.handed_over = 0
        self.wanted_of_us: list[ConversationId] = []
        self.undelivered_here: set[ConversationId] = set()
        self.wanted: list[ConversationId] = []
        self.taken: list[ConversationId] = []
        self.offered: list[list[ConversationId]] = []
        self.faults: list[Exception] = []
        """Of the next readings."""
        self.shared: list[int] = []
        self.followed = 0
        self.has_workspace = True
        self.now = 100.0
        parts: Any = self
        self.share = WorkspaceShare(parts, policy, lambda: self.now)

    def watch(self) -> WorkerWatch:
        parts: Any = self
        return WorkerWatch(parts, parts, parts, lambda _: None, self.shared.append, self.follow, self.share)

    async def follow(self) -> None:
        self.followed += 1

    async def changes(self, *, is_full: bool) -> list[Change]:
        self.is_full.append(is_full)
        return self.changed

    async def refresh(self, _: object, lengths: Mapping[ConversationId, int]) -> tuple[list[Any], set[ConversationId]]:
        if self.faults:
            raise self.faults.pop()
        self.read += lengths
        return [], set(lengths)

    def has_event(self, _: str) -> bool:
        return False

    def __contains__(self, _: ConversationId) -> bool:
        return False

    def hand_over(self) -> None:
        self.handed_over += 1

    def hand_over_wanted(self, wanted: Iterable[ConversationId]) -> None:
        self.wanted_of_us += wanted

    def undelivered(self, _: Callable[[str], bool]) -> frozenset[ConversationId]:
        return frozenset(self.undelivered_here)

    async def want(self, conversations: Iterable[ConversationId]) -> list[ConversationId]:
        self.wanted += conversations
        return []

    def take_over(self, free: Iterable[ConversationId], unfinished: Collection[ConversationId]) -> list[ConversationId]:
        self.offered.append(list(free))
        self.taken += [name for name in self.offered[-1] if name in unfinished]
        return []


async def test_what_is_free_and_unfinished_is_taken_over_and_read_once_while_it_does_not_change() -> None:
    others = Others()
    watch = others.watch()
    for _ in range(2):
        await watch.look()
    assert (others.read, others.taken) == ([ONE, TWO], [ONE, ONE])
    others.changed = [Change(id=ONE, bytes=11, is_free=True)]
    await watch.look()
    assert others.read == [ONE, TWO, ONE]


async def test_a_drained_daemon_takes_nothing_and_looks_at_everything_when_it_is_back() -> None:
    others = Others()
    watch = others.watch()
    others.drains = True
    for _ in range(2):
        await watch.look()
    assert (others.handed_over, others.taken, others.is_full) == (2, [], [False, False])
    assert others.offered == []
    others.drains = False
    for _ in range(2):
        await watch.look()
    assert (others.handed_over, others.taken, others.is_full[2:]) == (2, [ONE, ONE], [True, False])


@virtual_time
async def test_what_could_not_be_read_is_read_at_the_next_look_whatever_the_error() -> None:
    others = Others()
    others.faults = [RuntimeError("a fault of our own"), StoreError("away")]
    looking = asyncio.create_task(others.watch().run())
    await asyncio.sleep(2.5 * EVERY)
    assert not looking.done()
    assert others.read == [ONE, TWO]
    looking.cancel()


async def test_everything_is_looked_at_now_and_then() -> None:
    others = Others()
    watch = others.watch()
    for _ in range(2 * FULL + 2):
        await watch.look()
    assert others.is_full.index(True) == FULL
    assert others.is_full.count(True) == 2


async def test_the_limits_of_providers_are_shared_again_when_a_daemon_comes_or_goes() -> None:
    others = Others()
    watch = others.watch()
    for daemons in (1, 1, 3, 3, 2):
        others.daemons = daemons
        await watch.look()
    assert others.shared == [3, 2]


async def test_a_message_that_waits_for_long_makes_its_conversation_wanted_here() -> None:
    """The daemon that has it receives the same messages, as a rule: most are recorded before the next look."""
    others = Others()
    watch = others.watch()
    others.undelivered_here = {ONE}
    await watch.look()
    others.undelivered_here = {TWO}
    for _ in range(PATIENT):
        await watch.look()
    assert others.wanted == []
    await watch.look()
    assert others.wanted == [TWO]
    others.drains = True
    await watch.look()
    assert others.wanted == [TWO], "it would not be opened here"


async def test_what_another_daemon_wants_is_handed_over_and_what_it_leaves_is_taken_for_a_message_alone() -> None:
    others = Others()
    watch = others.watch()
    others.changed = [Change(id=ONE, bytes=10, is_free=True, is_wanted=True), Change(id=TWO, bytes=1, is_free=False)]
    await watch.look()
    assert others.wanted_of_us == [ONE]
    working = in_phase(Phase.EXECUTE)
    others.has_workspace = False
    assert others.share.is_for_another(working)
    others.changed = [Change(id=working.id, bytes=10, is_free=True)]
    await watch.look()
    assert others.offered[-1] == []
    others.undelivered_here = {working.id}
    await watch.look()
    assert others.offered[-1] == [working.id], "its message is recorded here; then it is left again"


async def test_what_needs_files_is_left_to_the_worker_that_has_them_and_looked_at_again_later() -> None:
    others = Others()
    watch = others.watch()
    working = in_phase(Phase.EXECUTE)
    others.changed = [Change(id=working.id, bytes=10, is_free=True)]
    assert not others.share.is_for_another(working), "it has the workspace"
    others.has_workspace = False
    assert not others.share.is_for_another(in_phase(Phase.CHAT))
    await watch.look()
    assert others.taken == [working.id], "it cannot know before it has read it"
    assert others.share.is_for_another(working)
    await watch.look()
    others.now += LEFT + 1
    await watch.look()
    assert len(others.taken) == 2, "left for a while, and then tried again"
    assert others.share.is_for_another(working)
    others.has_workspace = True
    await watch.look()
    assert len(others.taken) == 3, "at once where it gets the workspace"
    assert others.is_full[-1]


@pytest.mark.parametrize(
    ("phase", "uses"), [(Phase.CHAT, False), (Phase.PLAN, True), (Phase.EXECUTE, True), (Phase.REFLECTION, False)]
)
def test_the_workspace_is_needed_where_an_agent_is_offered_tools_for_files(phase: Phase, uses: bool) -> None:
    there = in_phase(phase)
    assert there.work.runs
    assert needs_workspace(there, policy()) == uses
    assert not needs_workspace(replace(there, work=Work()), policy())
    assert needs_workspace(there, replace(policy(), roster={})), "of an agent that is gone nothing is known"


def in_phase(phase: Phase) -> Conversation:
    """A conversation in which an agent is at work in a phase."""
    state = new_conversation(ID)
    for record in (record for decision in longest_scenario().journal for record in decision):
        state.apply(record)
        if state.work.runs and all(run.phase is phase for run in state.work.runs.values()):
            return state
    raise AssertionError(phase)
