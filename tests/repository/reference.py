"""The reference of commands, settings and records, as the code has it: files in docs/reference.

python -m tests.repository.reference    writes them
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, which have records of their own
from tenex.cli.root_command import EXIT_CODES, load_command, make_root
from tenex.core.record import Record
from tenex.main import FEATURES
from tenex.settings import Settings
from tenex.store.codec import camel

from .tree import ROOT, text_of

FOLDER: Final = ROOT / "docs" / "reference"
EXAMPLE: Final = ROOT / "config" / "tenex.example.toml"
WRITTEN_BY: Final = "This page is generated: `python -m tests.repository.reference` writes it, and a test compares it."
WIDTH: Final = 100

_ASSIGNMENT: Final = re.compile(r"^(?:# )?([a-z_]+) = ")
_TABLE: Final = re.compile(r"^(?:# )?\[\[?([\w.\"<>*:-]+)\]\]?\s*$")


def commands() -> str:
    """Every command with its help."""
    root = make_root(FEATURES)
    context = _context(root, "tenex", None)
    lines = ["# Commands", "", WRITTEN_BY, "", *_help(context), "", "Exit codes:", ""]
    lines += ["```text", EXIT_CODES.strip(), "```"]
    for name, command in root.commands.items():
        if not command.hidden:
            lines += _command(load_command(name, FEATURES), name, context)
    return "\n".join(lines) + "\n"


def _command(command: Any, name: str, parent: Any) -> list[str]:
    context = _context(command, name, parent)
    lines = ["", f"## {context.command_path}", "", *_help(context)]
    for below, subcommand in getattr(command, "commands", {}).items():
        inner = _context(subcommand, below, context)
        lines += ["", f"### {inner.command_path}", "", *_help(inner)]
    return lines


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )


def _help(context: Any) -> list[str]:
    formatter = context.make_formatter()
    context.command.format_help(context, formatter)
    return ["```text", *(line.rstrip() for line in formatter.getvalue().strip().splitlines()), "```"]


def settings() -> str:
    """Every setting: its type and bounds from the models, its default and its meaning from the commented example."""
    schema = Settings.model_json_schema()
    lines = [
        "# Settings",
        "",
        WRITTEN_BY,
        "",
        "A file `tenex.toml` in the data folder has what differs from the defaults. The same with all comments is",
        "[`config/tenex.example.toml`](../../config/tenex.example.toml).",
    ]
    for table, rows in _example_tables():
        lines += ["", f"## {f'`[{table}]`' if table else 'Before the first table'}", ""]
        lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
        for name, default, meaning in rows:
            kind = _kind(schema, [*_path(table), name])
            lines.append(f"| `{name}` | {_cell(kind)} | {_code(default)} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def _path(table: str) -> list[str]:
    return [part.strip('"') for part in re.findall(r'"[^"]*"|[^.]+', table)]


def _example_tables() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each table of the example, with the names, defaults and comments of its settings."""
    table, rows, comment = "", list[tuple[str, str, str]](), list[str]()
    lines = iter(text_of(EXAMPLE).partition("\n\n")[2].splitlines())
    for line in lines:
        head, assignment = _TABLE.match(line), _ASSIGNMENT.match(line)
        if head is not None:
            if rows:
                yield table, rows
            table, rows = head[1], []
            comment = []
        elif assignment is not None:
            value = line.partition(" = ")[2]
            while value.count("[") > value.count("]"):
                value += f" {next(lines).strip()}"
            rows.append((assignment[1], "none" if line.startswith("#") else value, " ".join(comment) or "as above"))
            comment = []
        elif line.startswith("#  "):
            continue  # lines of an example
        elif line.startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
        else:
            comment = []
    if rows:
        yield table, rows


def _kind(schema: Mapping[str, Any], path: Sequence[str]) -> str:
    """The type of a setting in words, with its bounds."""
    node: Any = schema
    for name in path:
        node = _resolved(schema, node)
        node = node.get("properties", {}).get(name, node.get("additionalProperties") or {})
    return _words(schema, _resolved(schema, node))


def _resolved(schema: Mapping[str, Any], node: Any) -> Any:
    """The node itself, where it is a reference to a definition or may be null too."""
    while isinstance(node, Mapping):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif "anyOf" in node and len(others := [one for one in node["anyOf"] if one.get("type") != "null"]) == 1:
            node = others[0]
        else:
            break
    return node


def _words(schema: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    if "enum" in node:
        return " or ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_words(schema, _resolved(schema, one)) for one in node["anyOf"]))
    kind = node.get("type", "in its meaning")
    if kind == "array":
        return f"list of {_words(schema, _resolved(schema, node.get('items', {})))}"
    if kind == "object":
        return "table"
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
    is_bounded = high is not None and high < 10**9
    if low is not None and is_bounded:
        return f"{kind}, {low:g} to {high:g}"
    return f"{kind}, at least {low:g}" if low is not None else kind


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return "none" if text == "none" else f"`{_cell(text)}`"


def records() -> str:
    """Every record of a conversation's journal, with its fields."""
    lines = [
        "# Records of the journal",
        "",
        WRITTEN_BY,
        "",
        "Each line of `journal.jsonl` is a record: `v` (version of its form), `seq`, `remaining` (further records of",
        "the same decision), `at` (ms since 1970), `type`, `data` with the fields below, and `crc`. A field with a `?`",
        "may be missing.",
    ]
    for kind in sorted(_kinds(Record), key=lambda one: one.__name__):
        lines += ["", f"## {kind.__name__}", "", " ".join((kind.__doc__ or "").split())]
        rows = [_field_row(kind, field) for field in fields(kind) if field.name not in ("seq", "at")]
        if rows:
            lines += ["", "| field | type |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _kinds(base: type[Record]) -> Iterator[type[Record]]:
    """The records of the program: classes without others below them. What a decorator replaced is left out."""
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from _kinds(kind)
        elif kind is getattr(sys.modules[kind.__module__], kind.__name__, None) and kind.__module__.startswith(
            "tenex."
        ):
            yield kind


def _field_row(kind: type[Record], field: Any) -> str:
    is_optional = field.default is not MISSING or field.default_factory is not MISSING
    name = camel(field.name)
    shown = get_type_hints(kind).get(field.name, field.type)
    text = shown.__name__ if isinstance(shown, type) and not hasattr(shown, "__args__") else str(shown)
    text = re.sub(r"[a-z_]+(?:\.[a-z_]+)*\.(?=[A-Z])|typing\.|collections\.abc\.", "", text)
    return f"| `{name}{'?' if is_optional else ''}` | `{_cell(text)}` |"


PAGES: Final[Mapping[Path, Callable[[], str]]] = {
    FOLDER / "commands.md": commands,
    FOLDER / "settings.md": settings,
    FOLDER / "records.md": records,
}


if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), "utf-8")
