"""Whether a run is as its scenario expects."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenex.core import records as r
from tenex.core.history.facts import Fact, facts_of
from tenex.core.ids import CallId, RunId
from tenex.core.text.lines import shorten
from tenex.core.work.evidence import line_of

from .figures import Figures
from .scenario import REST, Expectations


@dataclass(slots=True)
class Run:
    """What was seen of a conversation."""

    status: str = "active"
    turns: int = 0
    phases: list[str] = field(default_factory=list)
    """Of the turns, without repetition of one in a row."""
    reason: str = ""
    """Why the newest turn was begun."""
    agents: dict[str, set[str]] = field(default_factory=dict)
    """Who had a turn, by phase."""
    results: dict[str, str] = field(default_factory=dict)
    """The last result of each tool."""
    succeeded: set[str] = field(default_factory=set)
    replies: list[str] = field(default_factory=list)
    notes: int = 0
    """Messages published to the person."""
    verdicts: list[str] = field(default_factory=list)
    ran: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Commands with their exit status, by phase, in order."""
    _commands: dict[tuple[RunId, CallId], str] = field(default_factory=dict)

    def add(self, record: r.Record) -> None:
        """Take a record."""
        if isinstance(record, r.ModelResponded):
            self._commands.update({(record.run, call.id): line_of(call) for call in record.step.calls})
        if isinstance(record, r.ToolCallCompleted) and record.exit_status is not None:
            command = self._commands.get((record.run, record.call), record.tool)
            self.ran.setdefault(self.phases[-1], []).append((command, record.exit_status))
        if isinstance(record, r.RunEnded) and record.verdict:
            self.verdicts.append(record.verdict)
        for fact in facts_of(record):
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        match fact.kind, fact.outcome:
            case "turn", "began":
                self.reason = fact.reason
                if self.phases[-1:] != [str(fact.phase)]:
                    self.phases.append(str(fact.phase))
                self.agents.setdefault(str(fact.phase), set()).update(map(str, fact.agents))
            case "turn", "ended":
                self.turns += 1
            case "tool", "ok" | "failed" | "refused":
                self.results[fact.tool] = fact.text
                self.succeeded.update([fact.tool] if fact.outcome == "ok" else [])
            case "said", _ if fact.is_published:
                self.replies.append(fact.text)
                self.notes += 1
            case _:
                pass


def failures(expect: Expectations, run: Run, figures: Figures, workspace: Path) -> list[str]:
    """A sentence for each expectation that does not hold."""
    return [
        *_course(expect, run),
        *_said(expect, run),
        *_evidence(expect, run),
        *_files(expect.files, workspace),
        *_bounds(expect, run, figures),
    ]


def _course(expect: Expectations, run: Run) -> Iterator[str]:
    if expect.status is not None and run.status != expect.status:
        yield f"status is {run.status}, not {expect.status}"
    if expect.phases is not None and not _matches(expect.phases, run.phases):
        yield f"phases were {_listed(run.phases)}, not {_listed(expect.phases)}"
    everyone = sorted(set().union(*run.agents.values()))
    wanted = expect.agents if isinstance(expect.agents, dict) else {"": expect.agents}
    for phase, agents in wanted.items():
        there = sorted(run.agents.get(phase, ())) if phase else everyone
        if set(agents) - set(there):
            yield f"agents{f' in {phase}' if phase else ''} were {_listed(there)}, not {_listed(agents)}"
    for tool in expect.tools:
        if tool not in run.succeeded:
            yield f"{tool} was called without success" if tool in run.results else f"{tool} was not called"
    for tool, text in expect.results.items():
        if text not in run.results.get(tool, ""):
            yield f"the last result of {tool} does not contain {text!r}: {shorten(run.results.get(tool, 'none'))}"


def _said(expect: Expectations, run: Run) -> Iterator[str]:
    """What the messages to the person contain."""
    for text in expect.replies:
        if not any(text in reply for reply in run.replies):
            yield f"no reply contains {text!r}; the last: {shorten(next(reversed(run.replies), 'none'))}"
    for text in expect.never:
        for reply in run.replies:
            if text in reply:
                yield f"a reply contains {text!r}: {shorten(reply)}"


def _evidence(expect: Expectations, run: Run) -> Iterator[str]:
    """What the verdicts were, and which programs ran before them."""
    if expect.verdicts is not None and run.verdicts != expect.verdicts:
        yield f"verdicts were {_listed(run.verdicts)}, not {_listed(expect.verdicts)}"
    for phase, programs in expect.ran.items():
        wanted = [(text, status) for program in programs for text, status in program.items()]
        left = iter(run.ran.get(phase, ()))
        if not all(any(text in line and status == ended for line, ended in left) for text, status in wanted):
            yield f"programs in {phase} were {_programs(run.ran.get(phase, ()))}; not {_programs(wanted)}"


def _programs(ran: Iterable[tuple[str, int]]) -> str:
    """Commands with their exit status."""
    return _listed([f"`{shorten(line)}`: {status}" for line, status in ran])


def _matches(wanted: Sequence[str], phases: Sequence[str]) -> bool:
    pattern = "".join(r"(\w+,)*" if word == REST else f"{word}," for word in wanted)
    return re.fullmatch(pattern, "".join(f"{phase}," for phase in phases)) is not None


def _files(wanted: Mapping[str, str | None], workspace: Path) -> Iterator[str]:
    for name, text in wanted.items():
        path = workspace / name
        content = path.read_text("utf-8", "replace") if path.is_file() else None
        if text is None and content is not None:
            yield f"{name} exists"
        elif text is not None and content is None:
            yield f"{name} does not exist"
        elif text is not None and content is not None and text not in content:
            yield f"{name} does not contain {text!r}: {shorten(content)}"


def _bounds(expect: Expectations, run: Run, figures: Figures) -> Iterator[str]:
    if expect.notes is not None and run.notes > expect.notes:
        yield f"notes: {run.notes:,} of at most {expect.notes:,}"
    for name in ("calls", "sequential_calls", "prompt_tokens", "cost"):
        most = getattr(expect, name)
        found = getattr(figures, name)
        if most is not None and found is not None and found > most:
            yield f"{name.replace('_', ' ')}: {found:,} of at most {most:,}"
    if expect.cached is not None and figures.cached is not None and figures.cached < expect.cached:
        yield f"cached: {figures.cached:.1%} of at least {expect.cached:.1%}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"
