"""The supervisor: a small process between the daemon and a program, which sees that nothing of the program outlives it.

It is run as a file, `python -I -S -B supervisor.py <pid of the daemon> <limits> <command> ...`, and ends as the program
ends. The limits are `file,address space,data`: bytes that one file and one process may have, 0 for no limit. When the
program has ended, when the daemon asks (SIGTERM) and when the daemon is gone (the kernel then sends SIGTERM), it kills
every process the program has started, also those that left its group: as a subreaper it inherits them.
It is a process of its own because a `preexec_fn` is not safe in a process with threads.
"""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run the command and everything it starts; return how it ended, or end by the signal it ended by."""
    daemon, limits, command = int(arguments[0]), [int(most) for most in arguments[1].split(",")], arguments[2:]
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != daemon:
        return 1  # it was gone before the kernel could be asked to signal it
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    supervisor = os.getpid()
    program = os.fork()
    if program == 0:
        _become(command, limits, supervisor)
    with suppress(OSError):  # the child does the same; the first one wins
        os.setpgid(program, program)
    ended = None
    while ended is None and signal.sigwait(signals) != signal.SIGTERM:
        # left unreaped for now, so that the number of its group stays its own
        ended = os.waitid(os.P_PID, program, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    _sweep(program)
    if ended is None:
        return 1
    if ended.si_code == os.CLD_EXITED:
        return int(ended.si_status)
    with suppress(OSError):  # what cannot be caught has no handler to reset
        signal.signal(ended.si_status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(supervisor, ended.si_status)
    return 128 + int(ended.si_status)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _become(command: list[str], limits: list[int], supervisor: int) -> None:
    """Turn the forked child into the program; does not return."""
    try:
        os.setpgid(0, 0)
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
    """Kill the program's group, then whatever else has become ours, until nothing is left."""
    with suppress(OSError):
        os.killpg(program, signal.SIGKILL)
    while True:
        for child in _children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    mine, found = os.getpid(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                # the second field is a name in brackets that may hold anything
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                if int(fields[1]) == mine:
                    found.append(int(entry.name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
