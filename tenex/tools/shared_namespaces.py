"""Namespaces that several programs of one turn share, so that one reaches the ports of another and nobody else does.

    first background command ─► made: a network with a loopback alone, in a view also the overlay
                                      │
              later commands of the turn join them ─► the end of the turn closes the files, and they are gone

The daemon holds them as open files (`namespaces`); no process waits in them, so nothing is left when the daemon is
killed. Whether they can be entered is found by running a program in the sandbox within them: the filter of a container
may permit to make namespaces and not to enter them.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId
from tenex.core.ports import ExecutionContext
from tenex.log import get_logger

from . import sandbox
from .process import PROBE_DEADLINE, probe
from .sandbox import SandboxMissing
from .tool import Refusal, run_uncancellable

PROGRAM: Final = Path(__file__).with_name("namespaces.py")

_ENDED: Final = "Nothing was run: the turn has ended."

_log = get_logger(__name__)


class CannotShare(Exception):
    """The system does not permit to make such namespaces, or to enter them; says why."""


class SharedNamespaces:
    """Namespaces that programs can join. Belongs to one event loop."""

    def __init__(self, user: int, *, mount: int = -1, network: int = -1) -> None:
        """Take the open files, which are its own from now on; -1 for what it has not."""
        self._user = user
        self._mount = mount
        self._network = network
        self._users = 0
        self._is_closed = False

    @property
    def has_network(self) -> bool:
        """Whether there is a network among them."""
        return self._network >= 0

    @property
    def has_mount(self) -> bool:
        """Whether there is an overlay among them."""
        return self._mount >= 0

    def descriptors(self, *, network: bool = True) -> tuple[int, ...]:
        """The open files that a program which joins has to get by the same numbers; no others, which it would keep."""
        return tuple(number for number in self._entered(network=network) if number >= 0)

    def joining(self, *, network: bool = True) -> list[str]:
        """What is put before a command that joins them; without `network` it stays in the network where it is.

        Raises:
            Refusal: they are closed.
        """
        if self._user < 0:  # the command would run in the network of the machine
            raise Refusal(_ENDED)
        entered = self._entered(network=network)
        return [sys.executable, "-I", "-S", "-B", str(PROGRAM), "join", *map(str, entered)] if entered else []

    @contextmanager
    def used(self, *, network: bool = True) -> Iterator[tuple[int, ...]]:
        """Keep the files open for a program that is about to be started; these are what it gets.

        Raises:
            Refusal: they are closed.
        """
        if self._is_closed:
            raise Refusal(_ENDED)
        self._users += 1
        try:
            yield self.descriptors(network=network)
        finally:
            self._users -= 1
            self._close_unused()

    def close(self) -> None:
        """Close the files once no program is being started: they vanish with their last process."""
        self._is_closed = True
        self._close_unused()

    def _entered(self, *, network: bool) -> tuple[int, ...]:
        """The files of user, mounts and network, -1 for what a program does not enter; none where it enters nothing."""
        if not network and not self.has_mount:
            return ()
        return (self._user, self._mount, self._network if network else -1)

    def _close_unused(self) -> None:
        if not self._is_closed or self._users:
            return
        for number in self.descriptors():
            os.close(number)
        self._user = self._mount = self._network = -1

    def check(self, root: Path, *, is_sandboxed: bool) -> None:
        """See that a program can enter them; blocks.

        Raises:
            CannotShare: it cannot.
        """
        command = ["/bin/sh", "-c", "readlink /proc/self/ns/net"]
        environment = sandbox.clean_environment(sandbox.HOME)
        try:
            if is_sandboxed:
                command = sandbox.wrapped(root, command, environment, network=not self.has_network, joins=True)
            done = probe([*self.joining(), *command], cwd=root, environment=environment, descriptors=self.descriptors())
        except (OSError, SandboxMissing, subprocess.TimeoutExpired) as error:
            raise CannotShare(str(error) or type(error).__name__) from error
        entered = done.stdout.decode("ascii", "replace").strip()
        is_inside = not self.has_network or entered == f"net:[{os.fstat(self._network).st_ino}]"
        if done.returncode != 0 or not is_inside:
            said = done.stderr.decode("utf-8", "replace").strip()[:200]
            raise CannotShare(said or f"exit status {done.returncode}")


def make(
    root: Path, *, network: bool, overlay: Sequence[Path] = (), is_sandboxed: bool = True
) -> SharedNamespaces | None:
    """Make namespaces for programs of a workspace, and see that they can be entered; blocks, for some 100 ms.

    Args:
        root: the workspace, its real path.
        network: whether the programs get a network with nothing but a loopback.
        overlay: the folders of an overlay that lies over the workspace in them: what is written, and its work.
        is_sandboxed: whether the programs run in bubblewrap.

    Returns:
        None where there is nothing to share.

    Raises:
        CannotShare: the system does not permit it.
    """
    if not network and not overlay:
        return None
    layers = [str(root), *map(str, overlay)] if overlay else []
    received = _run_and_receive("make", [str(int(network)), *layers], count=1 + bool(overlay) + network)
    opened = iter(received)
    shared = SharedNamespaces(
        next(opened), mount=next(opened) if overlay else -1, network=next(opened) if network else -1
    )
    try:
        shared.check(root, is_sandboxed=is_sandboxed)
    except CannotShare:
        shared.close()
        raise
    return shared


def listen(shared: SharedNamespaces, count: int = 1) -> list[socket.socket]:
    """Listen at ports of the loopback of a shared network, on sockets of this process; blocks, for some 50 ms.

    Only programs in that network can connect. A socket keeps the network in being until it is closed.

    Raises:
        CannotShare: there is no network among the namespaces, or the system does not permit to enter it.
        Refusal: they are closed.
    """
    if not shared.has_network:
        raise CannotShare("they have no network")
    with shared.used() as descriptors:
        user, *_, network = descriptors  # the network is the last of them
        received = _run_and_receive("listen", [str(user), str(network), str(count)], count=count, passed=descriptors)
    return [socket.socket(fileno=number) for number in received]


def _run_and_receive(what: str, arguments: Sequence[str], *, count: int, passed: Sequence[int] = ()) -> list[int]:
    """The open files that a short process sends.

    Raises:
        CannotShare: it fails, or it has sent another number of them.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = [sys.executable, "-I", "-S", "-B", str(PROGRAM), what, str(theirs.fileno()), *arguments]
        try:
            done = subprocess.run(
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_DEADLINE,
                check=False,
                cwd="/",
                env={},
                pass_fds=[theirs.fileno(), *passed],
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotShare(str(error)) from error
        if done.returncode != 0:
            raise CannotShare(done.stderr.decode("utf-8", "replace").strip()[:200] or f"status {done.returncode}")
        _, received, _, _ = socket.recv_fds(ours, 1, count)
    for number in received:
        os.set_inheritable(number, False)
    if len(received) != count:  # this process may have no more files open
        for number in received:
            os.close(number)
        raise CannotShare("too many files are open")
    return received


@dataclass(slots=True, eq=False)
class _TurnNetwork:
    """The network of a turn, once it is made."""

    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    network: SharedNamespaces | None = None
    is_over: bool = False

    def end(self) -> None:
        """Close it, also where it is only being made."""
        self.is_over = True
        if self.network is not None:
            self.network.close()


class TurnNetworks:
    """The networks of turns, in which commands that have no other reach each other. Belongs to one event loop."""

    def __init__(self) -> None:
        self._turns: dict[tuple[ConversationId, str], _TurnNetwork] = {}

    def opened(self, context: ExecutionContext) -> SharedNamespaces | None:
        """The network of the turn that a call belongs to, if there is one."""
        turn = self._turns.get((context.conversation_id, context.turn))
        return turn.network if turn is not None else None

    async def open(self, context: ExecutionContext, root: Path) -> bool:
        """Make the network of the turn that a call belongs to, unless there is one; whether there is one then."""
        turn = self._turns.setdefault((context.conversation_id, context.turn), _TurnNetwork())

        def make_network() -> None:
            turn.network = make(root, network=True)  # here, so that a cancelled call leaves it known

        async with turn.busy:
            if turn.network is not None:
                return True
            try:
                await run_uncancellable(make_network)
            except CannotShare as error:
                _log.warning("network.not_shared", error=str(error))
            finally:
                if turn.is_over:
                    turn.end()
            return turn.network is not None

    def on_records(self, conversation: Conversation) -> None:
        """Close the networks of turns that are not open any more."""
        current = conversation.work.turn
        self._end(
            key for key in self._turns if key[0] == conversation.id and (current is None or key[1] != current.turn_id)
        )

    def end(self, conversation: ConversationId) -> None:
        """Close the networks of a conversation."""
        self._end(key for key in self._turns if key[0] == conversation)

    def close(self) -> None:
        """Close all of them."""
        self._end(self._turns)

    def _end(self, keys: Iterable[tuple[ConversationId, str]]) -> None:
        for key in list(keys):
            self._turns.pop(key).end()
