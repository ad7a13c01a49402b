"""Which rule decides whether a call runs, is refused, or is put to a person. Pure: no state, no configuration.

The rules are the operator's settings (`[[approve]]`); permissions are what a person has allowed in the conversation. In
this order, whatever their place in the file:

    1. a refuse rule that matches
    2. permissions, if together they match all of the call
    3. an ask rule that matches
    4. allow rules, if together they match all of the call
    5. what the tool itself says (`ToolRule.asks`), and what the call needs beyond the sandbox (`ToolRule.needs`)

The two kinds of rules read a call in opposite ways, and err on the side of a question. Refuse and ask rules match what
a call may be: any part of it, in any reading (`shell_readings`). Allow rules and permissions match what a call is known
to be: every part, word for word (`shell_text`), with each option named or known to be harmless, and with every argument
that is an address or a path within what the rule names (`places`). A call that needs something is
allowed only by rules and permissions that name exactly that.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

from tenex.core.phases import Phase

from .harmless_options import harmless_options
from .places import all_within, any_within
from .shell_readings import ShellReading, may_run_others, reading
from .shell_text import ShellText, Words, parsed

COMMAND: Final = "command"
"""The argument that holds a command line, whatever the tool."""
SHELLS: Final = frozenset({"shell", "shell_start"})
"""Our tools whose command line a shell reads: only of these the first words say what is like a call."""
_AS: Final = {"shell_start": "shell"}
"""Tools that rules about another are about too, since they run the same: by the name, that of the other."""
SHORT: Final = 2
"""Words of an allow rule that may be meant as the beginning of longer commands."""
OPERANDS: Final = "*"
"""The last word of a `match` that permits any words behind it which are no options."""


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
    """The words of a command, `OPERANDS` as the last for further ones; refuse and ask rules name its first words."""
    options: Words = ()
    """Options that an allow rule permits behind these words besides harmless ones; `--name=*` with any value."""
    path: str = ""
    """A pattern of paths relative to the workspace, such as `infra/*`."""
    host: str = ""
    """A host, or `*.example.org` for those below it."""
    phase: str = ""
    agent: str = ""
    digest: str = ""
    """Only a call with exactly these arguments."""
    definition: str = ""
    """Only a call of a tool that is defined so (`ToolRule.definition`), or one of a server all of whose tools are."""
    others: str = ""
    """Only a call whose other arguments, besides the command, have this digest."""
    files: Mapping[str, str] = field(default_factory=dict)
    """With `digest`: only while the files that the call names have these digests."""
    needs: frozenset[str] = frozenset()
    """What a call needs beyond the sandbox: to allow it exactly this, to ask or to refuse at least this."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is done with a call, and by which rule."""

    verdict: Verdict
    rule: str
    """As it is named where rules are explained."""
    is_by_default: bool = False
    """Whether no rule decides, and the tool says so itself."""
    needs: str = ""
    """What the call needs beyond the sandbox, as what follows “it wants to”, where that is why it is asked about."""
    is_permitted: bool = False
    """Whether a person has allowed it in the conversation."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A call as rules see it."""

    tool: str
    arguments: Mapping[str, Any]
    digest: str = ""
    definition: str = ""
    of_server: str = ""
    others: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()

    @property
    def line(self) -> str | None:
        """Its command line; None where it has none."""
        line = self.arguments.get(COMMAND)
        return line if isinstance(line, str) else None

    @cached_property
    def text(self) -> ShellText | None:
        """Its command line, as allow rules read it."""
        return None if self.line is None else parsed(self.line)

    @cached_property
    def reading(self) -> ShellReading | None:
        """Its command line, as refuse and ask rules read it."""
        return None if self.line is None else reading(self.line)


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
    definition: str = "",
    of_server: str = "",
    others: str = "",
    files: Mapping[str, str] | None = None,
    needs: Mapping[str, str] | None = None,
) -> Judgement:
    """What is done with a call; `asks` is what its tool says where no rule decides.

    `needs` is what it needs beyond the sandbox, each in words. The five before it are what permissions are bound to:
    the digests of the call, of its tool's definition, of all definitions of its server and of its arguments besides the
    command, and those of the files that it names.
    """
    needed = needs or {}
    asks = asks or bool(needed)
    verdict = Verdict.ASK if asks else Verdict.ALLOW
    wants = " and to ".join(needed.values())
    reason = f"what it needs: to {wants}" if wants else f"no rule: {tool} {'asks' if asks else 'runs'} by default"
    by_default = Judgement(verdict=verdict, rule=reason, is_by_default=True, needs=wants)
    near = [rule for rule in rules if _is_about(rule, tool, phase, agent)]
    if not near and not (asks and permissions):
        return by_default
    subject = Subject(
        tool=tool,
        arguments=arguments,
        digest=digest,
        definition=definition,
        of_server=of_server,
        others=others,
        files=files or {},
        needs=frozenset(needed),
    )
    permitted = [rule for rule in permissions if _is_about(rule, tool, phase, agent)]
    allowed = [rule for rule in near if rule.decision is Verdict.ALLOW]
    refusing = _first_match(Verdict.REFUSE, near, subject)
    permitting = () if refusing else _allowing(permitted, subject)
    decisive = refusing or permitting or _first_match(Verdict.ASK, near, subject) or _allowing(allowed, subject)
    if not decisive:
        return by_default
    names = dict.fromkeys(rule.name for rule in decisive)
    return Judgement(verdict=decisive[0].decision, rule=" and ".join(names), is_permitted=bool(permitting))


def matches(rule: ApprovalRule, arguments: Mapping[str, Any]) -> bool:
    """Whether a rule matches a call by its arguments, in the way of its decision, where that needs what it names."""
    subject = Subject(tool="", arguments=arguments, needs=rule.needs)
    return bool(_allowing([rule], subject)) if rule.decision is Verdict.ALLOW else _matches_any(rule, subject)


def doubts_of(rule: ApprovalRule) -> list[str]:
    """Sentences about what the words of an allow rule let through, where that may not be meant."""
    if rule.decision is not Verdict.ALLOW or not rule.match:
        return []
    words = _without_operands(rule.match)
    line = shlex.join(words)
    text = parsed(line)
    if text.commands != (words,):
        return [f"it matches no command: `{line}` is not plain words of a program, as each allowed command has to be"]
    if words != rule.match:
        if may_run_others(words):
            return [f"with `*` it lets `{words[0]}` run any other program, as its words may name one"]
        return []
    if rule.options or rule.examples or len(words) > SHORT:
        return []
    harmless = sorted(harmless_options(words) - set(words))
    also = f", or with options that change nothing, as {harmless[-1]}" if harmless else ""
    further = "If further words are meant, end `match` with `*` or name `options`; if not, give the rule `examples`"
    return [f"it matches `{line}` alone{also}. {further}"]


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
    """Whether any part of a call may be what a rule names."""
    if not rule.needs <= subject.needs:
        return False
    if not any_within(rule.path, rule.host, subject.arguments):
        return False
    if not rule.match:
        return True
    return subject.reading is not None and subject.reading.may_run(_without_operands(rule.match))


def _without_operands(match: Words) -> Words:
    return match[:-1] if match[-1:] == (OPERANDS,) else match


# ---- every part ----


def _allowing(rules: Sequence[ApprovalRule], subject: Subject) -> tuple[ApprovalRule, ...]:
    """The rules that allow a call together, each part by one of them; none if a part is left."""
    fitting = [rule for rule in rules if _is_bound_to(rule, subject)]
    whole = next((rule for rule in fitting if not rule.match and _allows_arguments(rule, subject)), None)
    if whole is not None:
        return (whole,)
    text = subject.text
    if text is None or not text.is_plain:
        return ()
    by_part = [
        next((rule for rule in fitting if rule.match and _allows_command(rule, command, subject)), None)
        for command in text.commands
    ]
    allowing = tuple(rule for rule in by_part if rule is not None)
    return allowing if len(allowing) == len(by_part) else ()


def _is_bound_to(rule: ApprovalRule, subject: Subject) -> bool:
    """Whether a call is the one that a rule is about: with the same needs, and as far as a permission is bound."""
    if rule.needs != subject.needs:
        return False
    if rule.definition and rule.definition not in (subject.definition, subject.of_server):
        return False
    if rule.others and rule.others != subject.others:
        return False
    return not rule.digest or (rule.digest == subject.digest and rule.files == subject.files)


def _allows_arguments(rule: ApprovalRule, subject: Subject) -> bool:
    """Whether a rule that names no words allows a call."""
    if not rule.path and not rule.host:
        return True
    if subject.line is not None:
        return False  # what a program does with a path or a host is not said by naming them
    return all_within(rule.path, rule.host, subject.tool, subject.arguments)


def _allows_command(rule: ApprovalRule, command: Words, subject: Subject) -> bool:
    """Whether a rule names the words of a command: each in its place, its options, and operands only where it says."""
    words = _without_operands(rule.match)
    if command[: len(words)] != words:
        return False
    others = command[len(words) :]
    permitted = {*rule.options, *harmless_options(command)}
    has_operands = any(not _is_option(word) for word in others)
    if has_operands and rule.match[-1:] != (OPERANDS,):
        return False
    if not all(_is_permitted(word, permitted) for word in others if _is_option(word)):
        return False
    if not rule.path and not rule.host:
        return True
    arguments = {name: value for name, value in subject.arguments.items() if name != COMMAND}
    operands = [word for word in others if not _is_option(word)]
    return all_within(rule.path, rule.host, subject.tool, arguments, operands)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _is_permitted(word: str, options: set[str]) -> bool:
    """Whether an option, or each of several in one word (`-sb`), is among these."""
    name, has_value, _ = word.partition("=")
    if word in options or (has_value and f"{name}=*" in options):
        return True
    return not word.startswith("--") and len(word) > 2 and all(f"-{char}" in options for char in word[1:])
