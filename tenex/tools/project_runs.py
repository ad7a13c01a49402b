"""When a person ran the commands of a project last and how they ended, in a file of the data folder."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tenex.log import get_logger

FOLDER: Final = "workspace-runs"
"""In the data folder."""
LONGEST: Final = 160
"""Characters kept of the last line that a command printed."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LastRun:
    """How a command ended."""

    at: int
    """Seconds since 1970."""
    status: int | None
    """None where it was stopped."""
    command: str
    """What was run; another command than the one that is set says nothing about it."""
    last_line: str = ""

    def __str__(self) -> str:
        """Give it as a part of a sentence."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        ended = "stopped before its end" if self.status is None else f"exit status {self.status}"
        return f"{when}, {ended}{f' ({self.last_line})' if self.last_line else ''}"


class ProjectRuns:
    """The last run of each command. All methods block."""

    def __init__(self, data: Path, now: Callable[[], float] = time.time) -> None:
        """Take the data folder, and a clock in seconds."""
        self.folder: Final = data / FOLDER
        self._file = self.folder / "last.json"
        self._now = now

    def log_of(self, name: str) -> Path:
        """Where the output of a command is kept."""
        return self.folder / f"{name}.log"

    def last(self, name: str, command: str) -> LastRun | None:
        """The last run of this line; None where it was never run."""
        found = self._read().get(name)
        return found if found is not None and found.command == command else None

    def record(self, name: str, command: str, status: int | None, output: str) -> None:
        """Keep how a line ended; a disk that does not take it is logged."""
        lines = [line for line in output.splitlines() if line.strip()]
        shown = "".join(char for char in lines[-1] if char.isprintable()).strip("= ")[:LONGEST] if lines else ""
        runs = self._read() | {name: LastRun(int(self._now()), status, command, shown)}
        text = json.dumps({key: asdict(run) for key, run in runs.items()}, indent=1)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, beside = tempfile.mkstemp(dir=self.folder, prefix=".last.", suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(beside).replace(self._file)
        except OSError as error:
            _log.warning("project.run_not_recorded", reason=error.strerror)

    def _read(self) -> dict[str, LastRun]:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            return {str(name): LastRun(**run) for name, run in json.loads(self._file.read_text("utf-8")).items()}
        return {}
