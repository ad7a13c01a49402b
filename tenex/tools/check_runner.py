"""Looks at the workspace after a turn, and runs the project's checks in views of it (`core.ports.Checks`).

A check runs in a view of its own, so that it changes nothing, and sees the workspace as it is at each moment. Somebody
may change that while it runs; then the result says nothing about any tree, and the check is run again on what there is
then. What a runner of tests knows about each test is received through pipes that its environment names: a command is
never changed, and of several runs that one command starts each is received.
"""

import asyncio
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from tenex.core.cycle.checks import LOCK_FILES, ChangedFile, CheckOutcome, CheckResult, Inspection
from tenex.core.effects import Check, Inspect
from tenex.core.ids import ConversationId
from tenex.log import get_logger

from . import earlier_tree, process, stale_bytecode
from .attribution import as_recorded
from .check_reports import UNKNOWN, TestCounts, from_output, total
from .checkpoints import Change, Checkpoints
from .named_documents import documents_naming
from .namespaces import NOT_MOUNTED
from .path_patterns import fits
from .process import plain_text
from .project_checks import ProjectCheck
from .project_environment import SYSTEM_PATH
from .received_reports import Reports, from_files, receiving
from .sandbox import RunPolicy
from .shadow_git import CheckpointFailed
from .shell_runner import Programs
from .snapshots import Snapshot
from .tool import Refusal, run_uncancellable
from .turn_views import TOO_LARGE, TurnViews
from .workspace import NEW
from .workspace_view import Way, WorkspaceView, is_changed_since

ATTEMPTS: Final = 3
"""Runs of a check during each of which somebody changed the workspace; then somebody else has to decide."""

MOST_CHANGED: Final = 1_000
"""Files named in an inspection: they are recorded, and a command may unpack a whole archive."""

CLUE_DEPTH: Final = 2
"""Names in the path of a file that says which checks there are, at most: `tests/test_a.py`."""

LARGEST_LOG: Final = 8 * 1024**2
"""Bytes kept of what a check prints: its beginning and its end."""

LOGS_KEPT: Final = 50
"""Of a conversation: the newest. A record of an older run names a file that is gone."""

LAST_LINES: Final = 20
"""Lines at the end of what a check prints that are recorded."""

LONGEST_LAST_LINES: Final = 2_000
"""Characters of them."""

PROBE_DEADLINE: Final = 30.0
"""Seconds to find out whether a program is there: Python can take some to start in an overlay."""

_PACKAGE_LISTS: Final = re.compile(
    rb"(?:.*/)?(?:%s|requirements[^/]*\.txt)" % b"|".join(re.escape(name.encode()) for name in sorted(LOCK_FILES))
)
"""Files on which it depends what packages a check runs with."""

_NO_TESTS: Final = 5
"""The exit status of pytest, and of unittest since Python 3.12, where there were no tests."""

_NOT_STARTED: Final = (126, 127)
"""The exit statuses of a shell that cannot start a program, or does not find it."""

_LACKING: Final = 90
_LACKS_MODULE: Final = f"""\
import importlib.util, sys
sys.exit({_LACKING} if importlib.util.find_spec(sys.argv[1]) is None else 0)
"""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """How one run of a check has ended."""

    outcome: process.Outcome
    text: str
    """What it printed, without colours."""
    seconds: float
    way: Way
    counts: TestCounts
    has_failed_report: bool = False
    """Whether a report names a test that failed: such a run is red, whatever its exit status."""
    missing: str = ""
    """What it needs and is not there."""


class CheckRunner:
    """The checks of one workspace. Belongs to one event loop; one check runs at a time."""

    def __init__(
        self,
        programs: Programs,
        checkpoints: Checkpoints | None,
        views: TurnViews,
        checks: Callable[[Mapping[str, bytes | None]], Sequence[ProjectCheck]],
        logs_of: Callable[[ConversationId], Path],
    ) -> None:
        """Keep them.

        Args:
            programs: how programs are run in the workspace.
            checkpoints: of the workspace; None where there are none.
            views: of the workspace.
            checks: those that the project has, or had with these files as they were: their bytes by path, None for
                one that was not there. It is called in a thread.
            logs_of: the folder in which the output of a conversation's checks is kept; it need not exist.
        """
        self._programs = programs
        self._checkpoints = checkpoints
        self._views = views
        self._checks = checks
        self._logs_of = logs_of
        self._one = asyncio.Lock()

    async def inspect(self, effect: Inspect) -> Inspection:
        """What differs since the cycle began, and which checks apply."""
        if self._checkpoints is None:
            return Inspection(fault="there are no checkpoints")
        checkpoints = self._checkpoints
        try:
            return await run_uncancellable(lambda: self._inspected(checkpoints, effect))
        except (CheckpointFailed, OSError) as error:
            _log.warning("inspection.failed", conversation=effect.conversation, error=str(error))
            return Inspection(fault=str(error))

    async def run(self, effect: Check) -> CheckResult:
        """Run a check in a view; cancelled, it ends its programs and removes the view."""
        result = await self._result(effect)
        _log.info(
            "check.ended",
            conversation=effect.conversation,
            check=effect.name,
            outcome=result.outcome,
            seconds=round(result.seconds, 3),
        )
        return result

    def _inspected(self, checkpoints: Checkpoints, effect: Inspect) -> Inspection:
        snapshot = checkpoints.take()
        # no line names the cycle: what a person changed since its last call is none of its calls' work
        checkpoints.keep(snapshot, effect.conversation, f"before inspection\n\nconversation: {effect.conversation}\n")
        base = checkpoints.base_of(effect.conversation, effect.cycle)
        if not base:
            return Inspection(tree=snapshot.tree, fault="there is no checkpoint of the beginning of this cycle")
        changes = checkpoints.changes(checkpoints.read(base)[0], snapshot)
        lines = checkpoints.line_counts(base, snapshot.tree)
        changed = [_changed(change, lines) for change in changes[:MOST_CHANGED]]
        changed += self._in_no_checkpoint(checkpoints, effect, snapshot, base)
        paths = [as_recorded(change.path) for change in changes] or [file.path for file in changed]
        named_in = documents_naming(self._programs.workspace, paths)
        return Inspection(
            tree=snapshot.tree,
            base=base,
            changed=tuple(changed),
            checks=tuple(self._applying(checkpoints, changes, paths)),
            named_in=tuple(document for document in named_in if document not in paths),
        )

    def _applying(self, checkpoints: Checkpoints, changes: Sequence[Change], paths: Sequence[str]) -> Iterator[str]:
        """The names of the checks that apply, those of the cycle's beginning that are gone too.

        A check whose last test, or whose line, was removed is so reported as one that cannot run any more.
        """
        now = self._checks({})
        yield from (check.name for check in now if _applies(check, paths))
        earlier: dict[str, bytes | None] = {as_recorded(change.path): None for change in changes if change.is_new}
        of_interest = [change for change in changes if change.path.count(b"/") < CLUE_DEPTH]
        for path, copy in checkpoints.earlier_copies(of_interest):
            earlier[as_recorded(path)] = copy.content
        if earlier:
            names = {check.name for check in now}
            yield from (check.name for check in self._checks(earlier) if check.name not in names)

    def _in_no_checkpoint(
        self, checkpoints: Checkpoints, effect: Inspect, snapshot: Snapshot, base: str
    ) -> list[ChangedFile]:
        """The files that calls have changed and that no checkpoint holds, such as ignored ones: how is not known."""
        kept = checkpoints.files(snapshot.tree).keys() | checkpoints.files(base).keys() | snapshot.unkept.keys()
        unknown = [path for path in effect.touched if path.encode("utf-8", "surrogateescape") not in kept]
        root = self._programs.workspace.root
        return [ChangedFile(path=path) for path in unknown if os.path.lexists(root / path)]

    async def _result(self, effect: Check) -> CheckResult:
        checks = await asyncio.to_thread(self._checks, {})
        check = next((one for one in checks if one.name == effect.name), None)
        if check is None:
            nothing = CheckResult(name=effect.name, command="", tree=effect.tree, outcome="missing")
            return replace(nothing, reason="the project has no such check any more")
        not_run = CheckResult(name=check.name, command=check.run, tree=effect.tree, outcome="uncontained")
        if self._checkpoints is None:
            return replace(not_run, reason="there are no checkpoints")
        if self._programs.rules.policy is RunPolicy.OFF:
            return replace(not_run, reason="commands are switched off here, or there is no sandbox")
        async with self._one:
            try:
                return await self._attempts(self._checkpoints, check, effect)
            except earlier_tree.NotShown as error:
                return replace(not_run, outcome="missing", reason=str(error))
            except (Refusal, CheckpointFailed, OSError) as error:
                return replace(not_run, reason=str(error))

    async def _attempts(self, checkpoints: Checkpoints, check: ProjectCheck, effect: Check) -> CheckResult:
        """Run a check again while somebody changes the workspace meanwhile; the result names the tree on which it ran.

        Raises:
            NotShown: the earlier tree cannot be shown.
            Refusal: the disk does not take the view.
            CheckpointFailed: git failed.
            OSError: the disk does not take the earlier tree.
        """
        before = await run_uncancellable(checkpoints.take)
        for _ in range(ATTEMPTS):
            earlier: Snapshot | None = None
            if effect.is_earlier and effect.tree != before.tree:
                earlier = (await asyncio.to_thread(checkpoints.read, effect.tree))[0]
            ran, began = await self._ran(checkpoints, check, earlier, before)
            after = await run_uncancellable(checkpoints.take)
            tree = effect.tree if effect.is_earlier else before.tree
            if not await asyncio.to_thread(_was_changed, checkpoints, before, after, began):
                return await self._as_result(checkpoints, check, ran, effect.conversation, tree)
            before = after
        return CheckResult(
            name=check.name,
            command=check.run,
            tree=effect.tree,
            outcome="changed",
            reason=f"somebody changed the workspace during each of {ATTEMPTS} runs",
        )

    async def _ran(
        self, checkpoints: Checkpoints, check: ProjectCheck, earlier: Snapshot | None, today: Snapshot
    ) -> tuple[_Ran, int]:
        """Run a check once, in a view of its own; also when that began, as the disk of the views notes it."""
        is_sandboxed = self._programs.rules.policy is RunPolicy.SANDBOXED
        async with self._views.separate(is_sandboxed=is_sandboxed) as view:
            began = await asyncio.to_thread(view.clock)
            if earlier is not None:
                if view.way is Way.READ_ONLY:
                    raise Refusal(TOO_LARGE)
                await run_uncancellable(lambda: earlier_tree.show(view, checkpoints, earlier, today))
            await run_uncancellable(lambda: stale_bytecode.hide(view))
            ran, is_of_report = await self._run_in(view, check, asks_for_reports=True)
            if is_of_report:
                ran, _ = await self._run_in(view, check, asks_for_reports=False)
            return ran, began

    async def _run_in(self, view: WorkspaceView, check: ProjectCheck, *, asks_for_reports: bool) -> tuple[_Ran, bool]:
        """Run a check in a view.

        The second value says whether it failed, without a report, and names an option that asks for one: that it does
        not take this may be why.
        """
        is_sandboxed = self._programs.rules.policy is RunPolicy.SANDBOXED
        async with receiving(view, Path("/tmp") if is_sandboxed else view.tmp) as reports:  # noqa: S108 - in the sandbox
            line = self._line(check.run, reports if asks_for_reports else None)
            started = time.monotonic()
            outcome = await self._programs.run_in(line, view, check.timeout, most_output=LARGEST_LOG)
            seconds = time.monotonic() - started

        reported = reports.counts()
        files = await asyncio.to_thread(from_files, view)
        if files is not None:
            reported["files"] = files
        text = plain_text(outcome.output)
        printed = await asyncio.to_thread(from_output, text, reported.keys())
        has_failed = outcome.status not in (0, None)
        ran = _Ran(
            outcome=outcome,
            text=text,
            seconds=seconds,
            way=view.way,
            counts=total([*reported.values(), *([printed] if printed != UNKNOWN else [])]),
            has_failed_report=any(counts.failed for counts in reported.values()),
            missing="" if reported else await self._missing(check, outcome.status, view),
        )
        return ran, asks_for_reports and has_failed and not reported and reports.are_named_in(text)

    def _line(self, run: str, reports: Reports | None) -> list[str]:
        """The program that runs the line of a check, at a low priority, so that turns stay quick."""
        nice = _system_program("nice")
        env = _system_program("env")
        bash = _system_program("bash")
        variables = reports.variables() if reports is not None and env is not None else {}
        has_node = bool(variables) and self._programs.project.find("node") is not None
        return [
            *((nice, "-n", "10") if nice else ()),
            *((env, *(f"{name}={value}" for name, value in variables.items())) if env else ()),
            "/bin/sh",
            "-c",
            (reports.prelude() if reports is not None and has_node else "") + 'exec "$0" "$@"',
            *((bash, "-o", "pipefail") if bash else ("/bin/sh",)),
            "-c",
            run,
        ]

    async def _missing(self, check: ProjectCheck, status: int | None, view: WorkspaceView) -> str:
        """The program or module by which a check begins, if that is not there; the shell and Python are asked."""
        words = _words(check.run)
        if not words:
            return ""
        shell = _system_program("bash") or "/bin/sh"
        if status in _NOT_STARTED:
            line = [shell, "-c", 'command -v -- "$0"', words[0]]
            outcome = await self._programs.run_in(line, view, PROBE_DEADLINE)
            return words[0] if outcome.status not in (0, None) else ""
        is_module = re.fullmatch(r"(?:.*/)?python[\d.]*", words[0]) and words[1:2] == ["-m"] and len(words) > 2
        if status == 1 and is_module:
            module = words[2].partition(".")[0]
            line = [shell, "-c", 'exec "$0" "$@"', words[0], "-c", _LACKS_MODULE, module]
            outcome = await self._programs.run_in(line, view, PROBE_DEADLINE)
            return f"the module {module}" if outcome.status == _LACKING else ""
        return ""

    async def _as_result(
        self, checkpoints: Checkpoints, check: ProjectCheck, ran: _Ran, conversation: ConversationId, tree: str
    ) -> CheckResult:
        outcome, reason = _judged(check, ran)
        return CheckResult(
            name=check.name,
            command=check.run,
            tree=tree,
            outcome=outcome,
            status=ran.outcome.status,
            seconds=ran.seconds,
            has_tests=check.has_tests,
            tests=ran.counts.tests,
            failures=ran.counts.failures,
            failed=ran.counts.failed,
            last_lines=_last_lines(ran.text),
            output=await asyncio.to_thread(_keep_log, self._logs_of(conversation), check.name, ran.text),
            reason=reason,
            environment=await asyncio.to_thread(_environment, checkpoints, tree),
        )


def _judged(check: ProjectCheck, ran: _Ran) -> tuple[CheckOutcome, str]:
    """How a run has ended, and why there is no exit status, or none that counts."""
    outcome = ran.outcome
    if outcome.shortage:
        return "uncontained", outcome.shortage
    if outcome.most_processes:
        return "timeout", f"it had more than {outcome.most_processes} processes and threads at once"
    if outcome.status is None:
        return "timeout", f"it was still running after {check.timeout:g} s"
    if outcome.status == NOT_MOUNTED and ran.way is Way.OVERLAY:
        return "uncontained", "the overlay was not mounted"
    has_nothing = ran.counts.tests == 0 and not ran.has_failed_report
    if check.has_tests and has_nothing and outcome.status in (0, _NO_TESTS):
        return "nothing", ""
    if outcome.status == 0:
        return ("failed", "its report names tests that failed") if ran.has_failed_report else ("passed", "")
    if ran.missing:
        return "missing", f"{ran.missing} is not installed"
    if ran.way is Way.READ_ONLY:
        return "uncontained", TOO_LARGE  # that nothing could be written may be why
    return "failed", f"it was ended by signal {-outcome.status}" if outcome.status < 0 else ""


def _last_lines(text: str) -> str:
    """The end of what a check printed: whole lines, unless one alone is too long."""
    lines = text.splitlines()[-LAST_LINES:]
    while len(lines) > 1 and len("\n".join(lines)) > LONGEST_LAST_LINES:
        del lines[0]
    return "\n".join(lines)[-LONGEST_LAST_LINES:]


def _was_changed(checkpoints: Checkpoints, before: Snapshot, after: Snapshot, began: int) -> bool:
    """Whether somebody changed the workspace during a run, also where it is now what it was before."""
    if checkpoints.changes(before, after):
        return True
    paths = (*checkpoints.files(after.tree), *after.unkept)
    return any(is_changed_since(checkpoints.root, path, began) for path in paths)


def _changed(change: Change, lines: Mapping[bytes, tuple[int, int]]) -> ChangedFile:
    added, removed = lines.get(change.path, (0, 0))
    path = as_recorded(change.path)
    if change.is_new:
        return ChangedFile(path=path, added=added, removed=removed, kind="new")
    return ChangedFile(path=path, added=added, removed=removed, kind="changed" if change.is_there else "deleted")


def _applies(check: ProjectCheck, paths: Sequence[str]) -> bool:
    """Whether a check is to run after these paths have changed."""
    if not check.when:
        return bool(paths)
    return any(fits(path, pattern) for path in paths for pattern in check.when)


def _environment(checkpoints: Checkpoints, tree: str) -> str:
    """A digest of the lock files of a tree; "" where it has none."""
    locks = sorted(
        (path, kept.blob) for path, kept in checkpoints.files(tree).items() if _PACKAGE_LISTS.fullmatch(path)
    )
    if not locks:
        return ""
    return sha256(b"".join(b"%s\0%s\0" % (path, blob.encode()) for path, blob in locks)).hexdigest()


def _keep_log(folder: Path, name: str, text: str) -> str:
    """Keep what a check has printed in the next file of a folder, and remove the oldest of too many; returns its path.

    A disk that does not take it is logged, and the path is "".
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        logs = sorted((int(entry.name.partition("-")[0]), entry) for entry in folder.glob("[0-9]*-*.log"))
        for _, old in logs[: max(0, len(logs) - LOGS_KEPT + 1)]:
            old.unlink(missing_ok=True)
        number = logs[-1][0] + 1 if logs else 1
        place = folder / f"{number}-{re.sub(r'[^A-Za-z0-9_-]', '-', name)}.log"
        with os.fdopen(os.open(place, NEW, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace") + b"\n")
    except OSError as error:
        _log.warning("check.output_not_kept", folder=str(folder), reason=error.strerror)
        return ""
    return str(place)


def _words(line: str) -> list[str]:
    """The words of a line without the variables that it sets first; none of one that no shell takes."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        del words[0]
    return words


def _system_program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join(SYSTEM_PATH))
