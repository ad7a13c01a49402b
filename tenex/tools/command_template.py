"""Commands of the operator as tools: a list of arguments, in which a model fills in what is left open.

    run = ["pytest", "-q", "{path}"]            one argument of type `path`
    run = ["git", "show", "{commit:word}"]      called `commit`, of type `word`
    run = ["make", "{word:option}"]             may begin with `-`
    run = ["awk", "{{print $1}}", "{path}"]     `{{` and `}}` stand for themselves

No shell reads it, and what a model gives stays within the argument it is part of. The program runs as `shell` runs a
command: in the sandbox, with the workspace read-only to it where its access is `read`.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process
from .sandbox import RunPolicy
from .shell_runner import Programs
from .tool import LARGEST, Refusal, Tool, object_schema
from .workspace import LONGEST_PATH, Workspace

LONGEST_WORD: Final = 1_000
LONGEST_TEXT: Final = 20_000
"""Characters: the kernel takes 128 KiB in one argument."""

_TYPES: Final = ("path", "word", "text", "int")
_OPTION: Final = "option"
_PART: Final = re.compile(r"\{\{|\}\}|\{([a-z][a-z0-9_]*(?::[a-z]*)*)\}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What a model fills in."""

    name: str
    kind: str
    """One of `path`, `word`, `text` and `int`."""
    may_be_option: bool
    """Whether the value may begin with `-`."""

    @property
    def schema(self) -> dict[str, Any]:
        """What it takes, as JSON Schema."""
        match self.kind:
            case "int":
                return {"type": "integer", "minimum": -LARGEST if self.may_be_option else 0, "maximum": LARGEST}
            case "path":
                return {"type": "string", "description": "In the workspace.", "minLength": 1, "maxLength": LONGEST_PATH}
            case "word":
                return {"type": "string", "pattern": r"^\S+$", "maxLength": LONGEST_WORD}
            case _:
                return {"type": "string", "maxLength": LONGEST_TEXT}

    def text(self, value: Any, workspace: Workspace) -> str:
        """The value as a part of an argument; blocks.

        Raises:
            Refusal: it leads outside the workspace, or is none of its kind.
        """
        text = str(value)
        if self.kind == "path":
            text = workspace.relative(workspace.resolve(text))
        if "\0" in text:
            raise Refusal(f"`{self.name}` holds a NUL character, which no argument can; remove it.")
        if text.startswith("-") and not self.may_be_option:
            raise Refusal(f"`{self.name}` may not begin with `-`: the program would take it for an option.")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTemplate:
    """A command as the operator has written it."""

    name: str
    arguments: tuple[tuple[str | Placeholder, ...], ...]
    """The parts of each argument."""
    description: str
    access: Access
    asks: bool | None = None
    """None: where programs reach beyond the sandbox, as `shell` does."""
    timeout: float | None = None
    """Seconds it may take; None is the limit of `shell`."""

    @property
    def placeholders(self) -> dict[str, Placeholder]:
        """By their names."""
        parts = (part for argument in self.arguments for part in argument)
        return {part.name: part for part in parts if isinstance(part, Placeholder)}

    def line(self, given: Mapping[str, Any], workspace: Workspace) -> list[str]:
        """The arguments with these values; blocks.

        Raises:
            Refusal: one of them cannot be used.
        """
        values = {name: part.text(given[name], workspace) for name, part in self.placeholders.items()}
        return [
            "".join(part if isinstance(part, str) else values[part.name] for part in argument)
            for argument in self.arguments
        ]


def read_template(
    name: str,
    run: Sequence[str],
    *,
    description: str,
    access: str,
    faults: list[str],
    asks: bool | None = None,
    timeout: float | None = None,
) -> CommandTemplate | None:
    """The command that a table of the settings describes; what is wrong is added to `faults`, and gives none."""
    known = len(faults)
    arguments = tuple(tuple(_parts(argument, faults)) for argument in run)
    if not all(isinstance(part, str) for part in arguments[0]):
        faults.append("the program, the first of `run`, cannot be left open to the model; name it.")
    kinds: dict[str, Placeholder] = {}
    faults += [
        f"{{{part.name}}} has two types; give it one, or two names."
        for argument in arguments
        for part in argument
        if isinstance(part, Placeholder) and kinds.setdefault(part.name, part) != part
    ]
    if any("\0" in argument for argument in run):
        faults.append("an argument holds a NUL character; remove it.")
    if len(faults) > known:
        return None
    return CommandTemplate(
        name=name,
        arguments=arguments,
        description=description,
        access=Access(access),
        asks=asks,
        timeout=timeout,
    )


def _parts(argument: str, faults: list[str]) -> Iterator[str | Placeholder]:
    """An argument as texts and placeholders, in order."""
    end = 0
    for match in _PART.finditer(argument):
        if match.start() > end:
            yield argument[end : match.start()]
        end = match.end()
        if match[1] is None:
            yield match[0][0]
            continue
        name, *words = match[1].split(":")
        may_be_option = words[-1:] == [_OPTION]
        kinds = words[:-1] if may_be_option else words
        kind = kinds[0] if kinds else name
        if kind not in _TYPES or len(kinds) > 1 or not _NAME.fullmatch(name):
            types = ", ".join(_TYPES)
            faults.append(
                f"{match[0]} has no type; write {{{name}:word}}, or another of {types}, or {{{match[0]}}} for the text."
            )
            continue
        yield Placeholder(name, kind, may_be_option)
    if end < len(argument):
        yield argument[end:]


def why_not_offered(template: CommandTemplate, policy: RunPolicy) -> str:
    """Why a command cannot be a tool here, with what to do; empty if it can."""
    if policy is RunPolicy.OFF:
        return "it needs the sandbox, which does not work here or is switched off (tools.shell.sandbox)."
    if policy is RunPolicy.UNSANDBOXED and template.access is Access.READ:
        return 'without the sandbox nothing keeps it from writing; give it access = "run".'
    return ""


def command_tool(template: CommandTemplate, programs: Programs) -> Tool:
    """The tool that runs a command."""
    workspace = programs.workspace
    reads = template.access is Access.READ
    seconds = max(1, int(template.timeout or programs.most))

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        words = await asyncio.to_thread(template.line, arguments, workspace)
        program = await asyncio.to_thread(_found(programs, words[0]))
        if program is None:
            raise Refusal(f"Nothing was run: there is no program {words[0]} here. The operator has to install it.")
        line = [program, *words[1:]]
        result = await programs.run(line, context, workspace.root, seconds, only_reads=reads)
        # what only reads proves nothing, and changes nothing
        return replace(result, exit_status=None, has_outside_effect=False) if reads else result

    return replace(
        programs.tool(
            template.name,
            template.description,
            object_schema({name: part.schema for name, part in template.placeholders.items()}),
            body,
        ),
        access=template.access,
        replay=Replay.READ if reads else Replay.ONCE,
        time_cap=seconds + process.GRACE + 5,  # its own deadline comes first, with a better message
        asks=programs.reaches_out if template.asks is None else template.asks,
        why=programs.why if template.asks is None else f"`tools.commands.{template.name}` says so",
    )


def _found(programs: Programs, name: str) -> Callable[[], str | None]:
    if "/" in name:
        return lambda: name
    return lambda: programs.project.find(name)
