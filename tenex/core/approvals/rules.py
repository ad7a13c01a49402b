"""Which rule decides whether a call runs, is refused, or is put to a person. Pure: no state, no configuration.

The rules are the operator's settings (`[[approve]]`); permissions are what a person has allowed in the conversation. In
this order, whatever their place in the file:

    1. a refuse rule that matches
    2. permissions, if together they match all of the call
    3. an ask rule that matches
    4. allow rules, if together they match all of the call
    5. what the tool itself says (`ToolRule.asks`), and what the call needs beyond the sandbox (`ToolRule.needs`)

A rule matches by what it names: the tool, the first words of a command, a path, a host, the phase, the agent. Refuse
and ask rules match if any part of the call fits, allow rules and permissions only if every part does. A command line is
read by `shell_text`; what is not plain words is allowed by no rule that names words. A call that needs something is
allowed only by rules and permissions that name exactly that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final
from unicodedata import normalize

from tenex.core.phases import Phase

from .shell_text import ShellText, Words, may_run_others, parsed, words_of

COMMAND: Final = "command"
"""The argument that holds a command line, whatever the tool."""
SHELLS: Final = frozenset({"shell", "shell_start"})
"""Our tools whose command line a shell reads: only of these the first words say what is like a call."""
_AS: Final = {"shell_start": "shell"}
"""Tools that rules about another are about too, since they run the same: by the name, that of the other."""
PATHS: Final = words_of("""
    cwd destination dir directory file file_path file_paths filename files folder from path paths root source target to
    """)
"""Arguments that hold paths, at any depth."""
_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://([^\s/?#\\'\"]{0,2000})(\\?)", re.IGNORECASE)
_NESTED: Final = 8
"""Levels of an argument in which addresses are looked for."""


class Verdict(StrEnum):
    """What is done with a call."""

    REFUSE = "refuse"
    ASK = "ask"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call that a rule is tried on."""

    arguments: Mapping[str, Any]
    matches: bool
    """Whether the rule is meant to match it."""

    @property
    def text(self) -> str:
        """It in a line."""
        line = self.arguments.get(COMMAND)
        return line if isinstance(line, str) and len(self.arguments) == 1 else str(dict(self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """A rule of the operator, or a permission of a person; what it leaves empty fits everything."""

    decision: Verdict
    name: str
    """What a person calls it."""
    tool: str = "*"
    """A name, or a pattern such as `github__*`."""
    match: Words = ()
    """The first words of a command."""
    path: str = ""
    """A pattern of paths relative to the workspace, such as `infra/*`."""
    host: str = ""
    """A host, or `*.example.org` for those below it."""
    phase: str = ""
    agent: str = ""
    digest: str = ""
    """Only a call with exactly these arguments."""
    needs: frozenset[str] = frozenset()
    """What a call needs beyond the sandbox: to allow it exactly this, to ask or to refuse at least this."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is done with a call, and by which rule."""

    verdict: Verdict
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A call as rules see it."""

    tool: str
    arguments: Mapping[str, Any]
    text: ShellText | None
    """Its command line; None where it has none."""
    digest: str = ""
    needs: frozenset[str] = frozenset()


def subject_of(
    tool: str, arguments: Mapping[str, Any], digest: str = "", needs: frozenset[str] = frozenset()
) -> Subject:
    """A call as rules see it."""
    line = arguments.get(COMMAND)
    text = parsed(line) if isinstance(line, str) else None
    return Subject(tool=tool, arguments=arguments, text=text, digest=digest, needs=needs)


def judge(
    rules: Sequence[ApprovalRule],
    permissions: Sequence[ApprovalRule] = (),
    *,
    tool: str,
    asks: bool,
    arguments: Mapping[str, Any],
    phase: Phase,
    agent: str,
    digest: str = "",
    needs: Mapping[str, str] | None = None,
) -> Judgement:
    """What is done with a call.

    `asks` is what its tool says where no rule decides; `needs` is what it needs beyond the sandbox, each in words.
    """
    needed = needs or {}
    asks = asks or bool(needed)
    verdict = Verdict.ASK if asks else Verdict.ALLOW
    reason = f"no rule: {tool} {'asks' if asks else 'runs'} by default"
    if needed:
        reason = f"what it needs: to {' and to '.join(needed.values())}"
    by_default = Judgement(verdict=verdict, rule=reason)
    near = [rule for rule in rules if _is_about(rule, tool, phase, agent)]
    if not near and not (asks and permissions):
        return by_default
    subject = subject_of(tool, arguments, digest, frozenset(needed))
    permitted = [rule for rule in permissions if _is_about(rule, tool, phase, agent)]
    allowed = [rule for rule in near if rule.decision is Verdict.ALLOW]
    decisive = (
        _first_match(Verdict.REFUSE, near, subject)
        or _allowing(permitted, subject)
        or _first_match(Verdict.ASK, near, subject)
        or _allowing(allowed, subject)
    )
    if not decisive:
        return by_default
    names = dict.fromkeys(rule.name for rule in decisive)
    return Judgement(verdict=decisive[0].decision, rule=" and ".join(names))


def matches(rule: ApprovalRule, arguments: Mapping[str, Any]) -> bool:
    """Whether a rule matches a call by its arguments, in the way of its decision, where that needs what it names."""
    subject = subject_of("", arguments, needs=rule.needs)
    return bool(_allowing([rule], subject)) if rule.decision is Verdict.ALLOW else _matches_any(rule, subject)


def _is_about(rule: ApprovalRule, tool: str, phase: Phase, agent: str) -> bool:
    return (
        (fnmatchcase(tool, rule.tool) or fnmatchcase(_AS.get(tool, tool), rule.tool))
        and (not rule.phase or rule.phase == phase)
        and (not rule.agent or rule.agent == agent)
    )


# ---- any part ----


def _first_match(verdict: Verdict, rules: Iterable[ApprovalRule], subject: Subject) -> tuple[ApprovalRule, ...]:
    return next(((rule,) for rule in rules if rule.decision is verdict and _matches_any(rule, subject)), ())


def _matches_any(rule: ApprovalRule, subject: Subject) -> bool:
    """Whether any part of a call fits a rule."""
    if not rule.needs <= subject.needs:
        return False
    if rule.path and not any(_fits_path(rule.path, path) for path in paths_of(subject.arguments)):
        return False
    if rule.host and not any(_fits_host(rule.host, host) for host in hosts_of(subject.arguments)):
        return False
    return not rule.match or _has_command(subject, rule.match)


def _has_command(subject: Subject, match: Words) -> bool:
    text = subject.text
    if text is None:
        return False
    if any(_begins(command, match) for command in (*text.commands, *text.others)):
        return True
    is_clear = text.is_plain and not any(map(may_run_others, text.commands))
    return not is_clear and _holds(str(subject.arguments[COMMAND]), match)


def _holds(line: str, match: Words) -> bool:
    """Whether a line holds these words in their order, whatever a parser makes of it: enough for a question."""
    line = re.sub(r"[\\'\"]", "", line)
    position = 0
    for word in match:
        found = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])").search(line, position)
        if found is None:
            return False
        position = found.end()
    return True


def _begins(command: Words, match: Words) -> bool:
    return command[: len(match)] == match


# ---- every part ----


def _allowing(rules: Sequence[ApprovalRule], subject: Subject) -> tuple[ApprovalRule, ...]:
    """The rules that allow a call together, each part by one of them; none if a part is left."""
    fitting = [rule for rule in rules if _allows_arguments(rule, subject)]
    whole = next((rule for rule in fitting if not rule.match), None)
    if whole is not None:
        return (whole,)
    text = subject.text
    if text is None or not text.is_plain:
        return ()
    by_part = [next((rule for rule in fitting if _allows_command(rule, command)), None) for command in text.commands]
    allowing = tuple(rule for rule in by_part if rule is not None)
    return allowing if len(allowing) == len(by_part) else ()


def _allows_arguments(rule: ApprovalRule, subject: Subject) -> bool:
    """Whether a rule allows a call as far as it is not about the words of a command."""
    if rule.needs != subject.needs:
        return False
    if rule.digest:
        return rule.digest == subject.digest
    if subject.text is not None and not rule.match and (rule.path or rule.host):
        return False  # what a program does with a path or a host is not said by naming them
    return (not rule.path or _is_all(_allows_path(rule.path, path) for path in paths_of(subject.arguments))) and (
        not rule.host or _is_all(_fits_host(rule.host, host) for host in hosts_of(subject.arguments))
    )


def _allows_command(rule: ApprovalRule, command: Words) -> bool:
    return command == rule.match if may_run_others(command) else _begins(command, rule.match)


def _is_all(fits: Iterable[bool]) -> bool:
    """Whether there is one and all fit."""
    each = list(fits)
    return bool(each) and all(each)


# ---- paths and hosts ----


def paths_of(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths that arguments name."""
    return tuple(dict.fromkeys(_paths(arguments)))


def _paths(value: Any, name: str = "", depth: int = _NESTED) -> Iterator[str]:
    if isinstance(value, str) and name in PATHS:
        yield value
    elif isinstance(value, Mapping) and depth:
        for inner, part in value.items():
            yield from _paths(part, str(inner), depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for part in value:
            yield from _paths(part, name, depth - 1)


def hosts_of(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts of all addresses in arguments, in lower case; "" besides where programs read one in several ways."""
    named = (host for text in _texts(arguments) for address in _URL.finditer(text) for host in _hosts(address))
    return tuple(dict.fromkeys(named))


def _hosts(address: re.Match[str]) -> Iterator[str]:
    authority = address[1].lower()
    host = authority.rpartition("@")[2]
    host = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    yield host.rstrip(".")
    if address[2] or authority.count("@") > 1 or "%" in authority:
        yield ""


def _texts(value: Any, depth: int = _NESTED) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and depth:
        for part in value.values():
            yield from _texts(part, depth - 1)
    elif isinstance(value, list | tuple) and depth:
        for part in value:
            yield from _texts(part, depth - 1)


def _normal(path: str) -> str:
    """A path without `.` and `..`, as far as its words say; links are resolved by the tools."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _fits_path(pattern: str, path: str) -> bool:
    """Whether a path may be one of the pattern; of an absolute one the workspace's folder is not known here.

    Tools take `é` as one character or as two for the same name, so it is the same here.
    """
    pattern = normalize("NFC", pattern)
    path = normalize("NFC", path)
    normal = _normal(path)
    parts = normal.strip("/").split("/")
    inner = ["/".join(parts[start:]) for start in range(len(parts))] if path.startswith("/") else []
    return any(fnmatchcase(each, pattern) for each in (normal, path, *inner))


def _allows_path(pattern: str, path: str) -> bool:
    """As `_fits_path`, but a path that leads up fits nothing."""
    return ".." not in path.split("/") and fnmatchcase(_normal(path), pattern)


def _fits_host(pattern: str, host: str) -> bool:
    pattern = pattern.lower()
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))
