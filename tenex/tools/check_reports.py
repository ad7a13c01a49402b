"""What a runner of tests tells about a run: how many there were, and which failed.

It is taken from reports that runners write for programs, where one was received, and else from the summary that they
print last. Both come from the project's own tests, which may write what they like: a report that is not whole, too
large or no XML tells nothing.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.cycle.checks import NAMES_KEPT

LARGEST_REPORT: Final = 8 * 1024**2
"""Bytes: a report of 20,000 tests that pass has 3 MB."""

LONGEST_NAME: Final = 300
"""Characters of the name of a test: parameters are in it."""

_DOCUMENT: Final = "<?xml"
"""How each report in JUnit's form begins, of several that follow one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCounts:
    """How many tests were run, without those that were skipped, and which failed. None is unknown."""

    __test__ = False  # a class of pytest's is not meant

    tests: int | None = None
    failures: int | None = None
    failed: tuple[str, ...] = ()


UNKNOWN: Final = TestCounts()


def total(counts: Iterable[TestCounts]) -> TestCounts:
    """The sum of several runs of tests; a number is unknown where that of one is, or there were none."""
    runs = list(counts)
    tests = [run.tests for run in runs if run.tests is not None]
    failures = [run.failures for run in runs if run.failures is not None]
    failed = sorted({name for run in runs for name in run.failed})
    return TestCounts(
        tests=sum(tests) if runs and len(tests) == len(runs) else None,
        failures=sum(failures) if runs and len(failures) == len(runs) else None,
        failed=tuple(failed[:NAMES_KEPT]),
    )


class _Unwanted(Exception):
    """A report has what no runner writes."""


@dataclass(slots=True)
class _JUnit:
    """What is collected while one report is read."""

    suites: list[str] = field(default_factory=list)
    case: dict[str, str] | None = None
    is_failed: bool = False
    is_skipped: bool = False
    tests: int = 0
    failed: list[str] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag:
            case "testsuite":
                self.suites.append(attributes.get("name", ""))
            case "testcase":
                self.case = attributes
                self.is_failed = False
                self.is_skipped = False
            case "failure" | "error":
                self.is_failed = True
            case "skipped":
                self.is_skipped = True

    def end(self, tag: str) -> None:
        if tag == "testsuite" and self.suites:
            self.suites.pop()
        if tag != "testcase" or self.case is None:
            return
        if not self.is_skipped:  # a test that is expected to fail counts as skipped too
            self.tests += 1
            if self.is_failed:
                self.failed.append(_shortened(_name_of(self.case, self.suites)))
        self.case = None

    def doctype(self, *_: object) -> None:
        raise _Unwanted


def _name_of(case: dict[str, str], suites: Sequence[str]) -> str:
    """The name of a test that is the same in each run."""
    name = case.get("name", "")
    group = case.get("classname", "")
    file = case.get("file", "")
    if file.endswith(".py"):  # pytest's own form, which can be given to it
        module = file.removesuffix(".py").replace("/", ".")
        inner = group.removeprefix(module).strip(".").split(".") if group != module else []
        return "::".join(filter(None, [file, *inner, name]))
    if group in ("", "test"):  # Node calls each so
        return " > ".join(filter(None, [*suites, name]))
    return f"{group}::{name}"


def _shortened(name: str) -> str:
    plain = "".join(char if char.isprintable() else "\ufffd" for char in name)
    return plain[:LONGEST_NAME]


def from_junit(report: bytes) -> TestCounts | None:
    """What reports in JUnit's form say that follow one another; None where one cannot be read."""
    if len(report) > LARGEST_REPORT:
        return None
    try:
        text = report.decode("utf-8")
    except UnicodeDecodeError:
        return None
    from xml.parsers import expat

    runs = []
    beginning, *documents = text.split(_DOCUMENT)
    if beginning.strip() or not documents:
        return None
    for document in documents:
        seen = _JUnit()
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = seen.start
        parser.EndElementHandler = seen.end
        parser.StartDoctypeDeclHandler = seen.doctype  # no entity can be declared without
        try:
            parser.Parse(_DOCUMENT + document, True)
        except (expat.ExpatError, _Unwanted):
            return None
        runs.append(TestCounts(tests=seen.tests, failures=len(seen.failed), failed=_numbered(seen.failed)))
    return total(runs)


def from_rspec(report: bytes) -> TestCounts | None:
    """What reports of RSpec in JSON say that follow one another; None where one cannot be read."""
    decoder = json.JSONDecoder()
    runs = []
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = report.decode("utf-8").strip() if len(report) <= LARGEST_REPORT else ""
        while text:
            document, end = decoder.raw_decode(text)
            runs.append(_of_rspec(document))
            text = text[end:].strip()
        return total(runs) if runs else None
    return None


def _of_rspec(document: Any) -> TestCounts:
    summary = document["summary"]
    examples = document["examples"]
    failed = _numbered(_shortened(one["full_description"]) for one in examples if one["status"] == "failed")
    return TestCounts(
        tests=int(summary["example_count"]) - int(summary["pending_count"]),
        failures=int(summary["failure_count"]) + int(summary.get("errors_outside_of_examples_count", 0)),
        failed=failed,
    )


def _numbers(**words: str) -> str:
    """Finds `3 failed` anywhere in the rest of a line, if it is there, by the name of its group."""
    return "".join(rf"(?:(?=.*?\b(?P<{group}>\d+) {word})|)" for group, word in words.items())


def _values(**words: str) -> str:
    """Finds `failures=3` or `Failures: 3`, likewise."""
    return "".join(rf"(?:(?=.*?\b{word}[:=]\s*(?P<{group}>\d+))|)" for group, word in words.items())


_EACH: Final = _numbers(passed="passed", failed="failed", errors="error")

_PRINTED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "unittest": (
        (r"^Ran (?P<total>\d+) tests? in [\d.]+s\n\n"
         + _values(failed="(?<!expected )failures", errors="errors", skipped="skipped"),),
        r"^(?:FAIL|ERROR): (\S+ \(.+)$",
    ),
    "pytest": (
        (r"^=* ?(?=\d)" + _EACH + r"(?:\d+ \w+(?:, )?)+ in [\d.]+s", r"^=* ?(?P<nothing>no tests ran) in [\d.]+s"),
        r"^(?:FAILED|ERROR) (\S+::\S.*?)(?: - .*)?$",
    ),
    "cargo": ((r"^test result: " + _EACH,), r"^test (.+) \.\.\. FAILED$"),
    "go": (
        (r"^\?\s+\S+\s+\[(?P<nothing>no test files)\]$", r"^ok .*\[(?P<nothing>no tests to run)\]$",
         r"^(?P<unknown>ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\))$"),
        r"^\s*--- FAIL: (\S+)|^FAIL\s+(\S+ \[(?:build|setup) failed\])$",
    ),
    "jest": ((r"^Tests: +" + _EACH,), r"^\s+● (?!Console$)(.+)$"),
    "vitest": ((r"^\s*Tests +" + _EACH + r".*\(\d+\)$",), r"^\s*FAIL\s+(\S+ > .+)$"),
    "mocha": ((r"^\s+(?P<passed>\d+) passing\b", r"^\s+(?P<failed>\d+) failing$"), r"^\s+\d+\) (.+?):?$"),
    "ava": (
        (r"^\s+(?P<passed>\d+) tests? passed$", r"^\s+(?P<failed>\d+) tests? failed$"),
        r"^\s+[✖✘] \[fail\]: (.+?)(?: \(.*\))?$",
    ),
    "tap": (
        (r"^1\.\.(?P<total>\d+)(?: |$)", r"^ok \d+.* # (?P<one_skipped>(?i:skip))",
         r"^ℹ pass (?P<passed>\d+)$", r"^ℹ fail (?P<failed>\d+)$"),  # Node, where a script wants it so
        r"^\s*not ok \d+ (?:- )?((?:(?! # (?i:todo|skip)).)+)$|^✖ (.+) \([\d.]+ms\)$",
    ),
    "prove": ((r"^Files=\d+, Tests=(?P<total>\d+),",), r"^(\S+)\s+\(Wstat: .*\)$"),
    "ctest": (
        (r"^\d+% tests passed, (?P<failed>\d+) tests failed out of (?P<total>\d+)$",
         r"^(?P<nothing>No tests were found!!!)$"),
        r"^\s*\d+ - (\S+) \((?!Disabled|Skipped)",
    ),
    "phpunit": (
        (r"^OK \((?P<total>\d+) tests?, ", r"^(?P<nothing>No tests executed!)$",
         r"^Tests: (?P<total>\d+), Assertions: \d+" + _values(errors="Errors", failed="Failures", skipped="Skipped")),
        r"^\d+\) (\S+::\S+)",
    ),
    "rspec": ((r"^(?P<total>\d+) examples?, " + _numbers(failed="failure", skipped="pending"),), r"^rspec \S+ # (.+)$"),
    "minitest": (
        (r"^(?P<total>\d+) (?:runs|tests), \d+ assertions, "
         + _numbers(failed="failure", errors="error", skipped="skip"),),
        r"^ *\d+\) (?:Failure|Error):\n(\w[^\s\[]*)",
    ),
    "mix": (
        (r"^(?:\d+ \w+, )*?(?P<total>\d+) tests?, (?P<failed>\d+) failures?" + _numbers(skipped="skipped"),),
        r"^\s+\d+\) (test .+)$",
    ),
    "dotnet": ((r"^(?:Passed|Failed)!\s+-\s" + _values(failed="Failed", passed="Passed"),),
               r"^\s+Failed (\S.*?) \[[\d<].*\]$"),
    "deno": ((r"^(?:ok|FAILED) \| " + _EACH,), r"^(.+ => \.\S+?):\d+:\d+$"),
    "bun": ((r"^\s*(?P<passed>\d+) pass$", r"^\s*(?P<failed>\d+) fail$"), r"^\(fail\) (.+?)(?: \[[\d.]+m?s\])?$"),
    "automake": (
        (r"^# TOTAL: +(?P<total>\d+)$", r"^# SKIP: +(?P<skipped>\d+)$", r"^# FAIL: +(?P<failed>\d+)$",
         r"^# ERROR: +(?P<errors>\d+)$"),
        r"^(?:FAIL|ERROR): (\S+)$",
    ),
}  # fmt: skip
"""By runner: how the lines look that have the numbers of its run, and those that name a test that failed.

`total` includes what was skipped; `nothing` is a run without tests, and `unknown` one whose tests are not counted.
"""


def from_output(text: str, without: Container[str] = ()) -> TestCounts:
    """What runners have printed, but for those of which there is a report."""
    runs = []
    for runner, (summaries, name) in _PRINTED.items():
        if runner in without:
            continue
        lines = [found.groupdict() for line in summaries for found in re.finditer(line, text, re.MULTILINE)]
        if lines:
            runs.append(_of_lines(lines, re.finditer(name, text, re.MULTILINE)))
    return total(runs)


def _of_lines(lines: Sequence[Mapping[str, str | None]], names: Iterable[re.Match[str]]) -> TestCounts:
    def sum_of(*groups: str) -> int:
        return sum(int(line.get(group) or 0) for line in lines for group in groups)

    failed = _numbered(_shortened(found[found.lastindex or 0]) for found in names)
    red = sum_of("failed", "errors")
    if any(line.get("unknown") for line in lines):
        return TestCounts(failed=failed)
    skipped = sum_of("skipped") + sum(1 for line in lines if line.get("one_skipped"))
    has_total = any(line.get("total") for line in lines)
    tests = sum_of("total") - skipped if has_total else red + sum_of("passed")
    return TestCounts(tests=max(0, tests), failures=red or len(failed), failed=failed)


def _numbered(names: Iterable[str]) -> tuple[str, ...]:
    """The names, sorted; one that comes again has a number, so that two failures of one name are two."""
    found = []
    for name, count in sorted(Counter(names).items()):
        found.append(name)
        found += [f"{name} ({number})" for number in range(2, count + 1)]
    return tuple(found)
