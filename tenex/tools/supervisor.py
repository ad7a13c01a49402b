"""The supervisor: a small process between the daemon and a program, which sees that nothing of the program outlives it.

It is run as a file, `python -I -S -B supervisor.py <pid of the daemon> <limits> <command> ...`, and ends as the program
ends. The limits are `file,address space,data,processes`: bytes that one file and one process may have, and how many
processes and threads there may be at once; 0 for no limit. When the program has ended, when there are too many
processes, when the daemon asks (SIGTERM) and when the daemon is gone (the kernel then sends SIGTERM), it kills every
process the program has started, also those that left its group: as a subreaper it inherits them.
It is a process of its own because a `preexec_fn` is not safe in a process with threads.

Processes are counted here because the kernel's own limit (RLIMIT_NPROC) holds for a user, counts what else that user
runs, and does not hold for root at all; limits of control groups are not ours to set in most containers.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LOOK_EVERY = 0.05
"""Seconds between two counts: what forks without end makes some hundred processes in that time."""

TOO_MANY = signal.SIGRTMAX
"""The signal by which the supervisor ends after it has stopped too many processes; hardly a program ends by it."""


def main(arguments: list[str]) -> int:
    """Run the command and everything it starts; return how it ended, or end by the signal it ended by."""
    daemon = int(arguments[0])
    limits = [int(most) for most in arguments[1].split(",")]
    command = arguments[2:]
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != daemon:
        return 1  # it was gone before the kernel could be asked to signal it
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    supervisor = os.getpid()
    program = os.fork()
    if program == 0:
        _become(command, limits[:3], supervisor)
    with suppress(OSError):  # root may; else it would be one among the thousands that a program can start
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    ended = _attend(program, signals, limits[3])
    _sweep(program)
    if ended is None:
        return 1
    if isinstance(ended, signal.Signals):
        return _end_by(ended)
    if ended.si_code == os.CLD_EXITED:
        return int(ended.si_status)
    return _end_by(ended.si_status)


def _attend(program: int, signals: set[signal.Signals], most: int) -> os.waitid_result | signal.Signals | None:
    """Wait until the program has ended, and return how; None at the daemon's wish, `TOO_MANY` where that was so."""
    fewest = _threads_here()
    next_look = time.monotonic()
    while True:
        received = signal.sigtimedwait(signals, LOOK_EVERY)
        if received is not None and received.si_signo == signal.SIGTERM:
            return None
        if ended := _reap_others(program):
            return ended
        if not most or time.monotonic() < next_look:
            continue
        # one line about the whole machine costs nothing; each process is looked at only if there are more than before
        threads = _threads_here()
        fewest = min(fewest, threads)
        if (not threads or threads - fewest >= most) and sum(
            process.threads for process in _descendants().values()
        ) > most:
            return TOO_MANY
        next_look = time.monotonic() + LOOK_EVERY


def _reap_others(program: int) -> os.waitid_result | None:
    """Reap what has become ours and is dead; return how the program ended, if it has.

    The program is left unreaped for now, so that the number of its group stays its own.
    """
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == program:
            return ended
        os.waitpid(ended.si_pid, 0)


def _end_by(number: int) -> int:
    with suppress(OSError):  # what cannot be caught has no handler to reset
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), number)
    return 128 + number


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _become(command: list[str], limits: list[int], supervisor: int) -> None:
    """Turn the forked child into the program; does not return."""
    try:
        os.setsid()  # a group that is never the supervisor's, and for the scheduler one party among others
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should somebody kill the supervisor itself
        if os.getppid() != supervisor:
            os._exit(1)
        for kind, most in zip((resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_DATA), limits, strict=True):
            if most:
                _limit(kind, most)
        _limit(resource.RLIMIT_CORE, 0)
        with suppress(OSError):  # where memory runs out, the kernel takes the program and not the daemon
            Path("/proc/self/oom_score_adj").write_text("1000")
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would hand that on
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except BaseException as error:  # noqa: BLE001 - a forked child must not go on as a second supervisor
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode("utf-8", "replace"))
    os._exit(127)


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, limit))


def _sweep(program: int) -> None:
    """Kill the program's group, then whatever else it has started, until nothing is left.

    What forks without end makes new processes while others are killed. So all are killed in each round, not only those
    that are ours by now.
    """
    with suppress(OSError):
        os.killpg(program, signal.SIGKILL)
    while True:
        for number, process in _descendants().items():
            _kill(number, process)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _kill(number: int, process: "_Process") -> None:
    """Kill a process unless its number has become another's; that of a child stays its own until we reap it."""
    with suppress(OSError):
        if process.parent == os.getpid():
            os.kill(number, signal.SIGKILL)
            return
        handle = os.pidfd_open(number)
        try:
            if _process(number).started == process.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _threads_here() -> int:
    """How many threads there are on the machine; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


class _Process:
    """What the kernel says of a process; `typing` would take longer to load than all the rest here."""

    def __init__(self, parent: int, threads: int, started: int) -> None:
        self.parent = parent
        self.threads = threads
        self.started = started


def _descendants() -> dict[int, _Process]:
    """The program and all it has started, by number, parents first."""
    processes = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - there may be thousands
        if name.isdigit():
            with suppress(OSError):
                processes[int(name)] = _process(int(name))
    children: dict[int, list[int]] = {}
    for number, process in processes.items():
        children.setdefault(process.parent, []).append(number)
    found: dict[int, _Process] = {}
    waiting = [os.getpid()]
    while waiting:
        for child in children.pop(waiting.pop(), []):
            found[child] = processes[child]
            waiting.append(child)
    return found


def _process(number: int) -> _Process:
    with open(f"/proc/{number}/stat", "rb") as file:  # noqa: PTH123 - twice as fast
        # the second field is a name in brackets that may hold anything
        fields = file.read().rpartition(b")")[2].split()
    return _Process(parent=int(fields[1]), threads=int(fields[17]), started=int(fields[19]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
