"""Turns of the workspace: owners before guests, and a guest's call ends where others wait. Mostly on virtual time."""

import asyncio
import time
from pathlib import Path

import pytest

from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools import turn_queue as module
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.turn_queue import GUEST_SECONDS, TurnQueue
from tenex.tools.workspace import Workspace
from tests.fakes.virtual import virtual_time
from tests.programs import needs_git

from .conftest import Bench, every_tool, make_context, make_tool


def of(role: Role | None, number: int = 0) -> ExecutionContext:
    """The context of a call on behalf of one of the users of a role."""
    return make_context(role=role, author=PublicKey(f"{number:064x}"))


OWNER, MEMBER, GUEST, OTHER_GUEST = of(Role.OWNER), of(Role.MEMBER, 1), of(Role.GUEST, 2), of(Role.GUEST, 3)


class Busy:
    """A workspace whose calls last for a given time; notes who had the turn, and when each began and ended."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.served: list[tuple[Role | None, float, float]] = []
        self.workspace = Workspace(Path("/tmp"))  # nothing is written there
        tool = make_tool("shell", Access.RUN, self._body, time_cap=3_600.0)
        self.tools = Bench([tool], Transactions(self.workspace))

    async def _body(self, _: object, context: ExecutionContext) -> ToolResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.served.append((context.role, began, loop.time()))
        return ToolResult(ok=True, content="done")

    def call(self, context: ExecutionContext) -> "asyncio.Task[ToolResult]":
        return asyncio.create_task(self.tools.do("shell", context))


@virtual_time
async def test_an_owners_call_goes_before_all_guests_that_wait_and_a_members_too() -> None:
    busy = Busy(5.0)
    calls = [busy.call(context) for context in (GUEST, *[OTHER_GUEST] * 20, MEMBER, OWNER)]
    await asyncio.sleep(20)
    assert [role for role, _, _ in busy.served[:3]] == [Role.GUEST, Role.OWNER, Role.MEMBER]
    assert all(result.ok for result in await asyncio.gather(*calls))
    assert len(busy.served) == len(calls), "no guest waits for ever"


@virtual_time
async def test_a_guests_long_call_ends_soon_after_an_owner_waits_and_says_why() -> None:
    busy = Busy()
    guest = busy.call(GUEST)
    await asyncio.sleep(3)
    owner = busy.call(OWNER)
    result = await guest
    assert not result.ok
    assert asyncio.get_running_loop().time() == pytest.approx(GUEST_SECONDS)
    assert "someone with more rights waits" in result.content
    assert (await owner).ok
    assert [began for _, began, _ in busy.served] == pytest.approx([0.0, GUEST_SECONDS])


@virtual_time
async def test_an_owner_who_comes_late_has_the_turn_at_once_also_if_guests_stand_before() -> None:
    busy = Busy()
    guests = [busy.call(GUEST), busy.call(OTHER_GUEST)]
    await asyncio.sleep(30)
    owner = busy.call(OWNER)
    assert not (await guests[0]).ok
    assert asyncio.get_running_loop().time() == pytest.approx(30)
    assert (await owner).ok
    assert (await guests[1]).ok


@virtual_time
async def test_a_guest_is_not_cut_short_for_a_guest_nor_a_member_for_an_owner() -> None:
    for contexts in ((GUEST, OTHER_GUEST, GUEST), (MEMBER, OWNER), (OWNER, OWNER), (of(None), GUEST)):
        busy = Busy()
        assert all(result.ok for result in await asyncio.gather(*map(busy.call, contexts)))
        assert all(ended - began == pytest.approx(60) for _, began, ended in busy.served)


@virtual_time
async def test_a_wait_that_is_cancelled_leaves_no_trace() -> None:
    turns = TurnQueue()
    await turns.acquire()
    waiting = [asyncio.create_task(turns.acquire("someone", 2)) for _ in range(3)]
    await asyncio.sleep(1)
    waiting[0].cancel()
    await asyncio.sleep(1)
    turns.release()
    waiting[1].cancel()  # it has the turn and has not run since
    await asyncio.wait(waiting[:2])
    await waiting[2]
    assert turns.locked()
    turns.release()
    assert not turns.locked()


@needs_git
async def test_a_guests_program_dies_and_what_it_changed_is_known(
    workspace: Workspace, root: Path, folder: Path, policy: RunPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GUEST_SECONDS", 0.5)
    tools = every_tool(workspace, folder, policy)
    began = time.monotonic()
    guest = asyncio.create_task(tools.run("echo 1 > mine.txt; sleep 50; echo 2 > late.txt", GUEST))
    while not (root / "mine.txt").exists():
        await asyncio.sleep(0.01)
    owner = await tools.run("echo 3 > owners.txt", OWNER)
    assert time.monotonic() - began < 40
    result = await guest
    assert (result.ok, result.touched) == (False, ("mine.txt",))
    assert (owner.ok, owner.touched) == (True, ("owners.txt",))
    assert not (root / "late.txt").exists()
