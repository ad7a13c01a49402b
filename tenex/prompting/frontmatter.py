"""Reads the front matter of an agent's file: keys, values and the lines they stand in.

Read off YAML's node tree: it knows the lines, keeps doubled keys, and runs no constructor but those of plain values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

import yaml

TEXTS: Final = ("name", "role", "kind", "use_when", "model")
LISTS: Final = ("in_phases",)
NESTED: Final = ("phases", "state", "tools", "agents", "triggers", "input", "output")
"""Keys whose values have a shape of their own; `Front.nodes` holds them."""

_MAY_BE_EMPTY: Final = "model"
_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(slots=True)
class Front:
    """One file's front matter being read: what was found, and what is wrong with it."""

    source: str
    faults: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    nodes: dict[str, yaml.Node] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def fault(self, line: int, sentence: str) -> None:
        """Something is wrong in that line of the file."""
        self.faults.append(f"{self.source}:{line}: {sentence}")

    def read(self, text: str, required: Iterable[str]) -> bool:
        """Take the keys of the front matter, which begins in the file's second line; False if it has none."""
        try:
            tree = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or "a character that YAML does not permit"
            self.fault(
                mark.line + 2 if mark else 1,
                f"the front matter is no YAML: {what}. Put values that hold `: ` in quotes.",
            )
            tree = yaml.MappingNode("", [])
            self.lines = dict.fromkeys(required, 1)  # what could not be read is not missing as well
        if not isinstance(tree, yaml.MappingNode):
            self.fault(1, "the front matter must be lines of `key: value`.")
            return False
        for key, value in tree.value:
            self._take(key, value)
        return True

    def _take(self, key: yaml.Node, value: yaml.Node) -> None:
        line, name = line_of(key), word_of(key) or ""
        if name in self.lines:
            self.fault(line, f"`{name}` stands there twice, first in line {self.lines[name]}. Keep one.")
        elif name in TEXTS:
            self.lines[name] = line
            if not isinstance(value, yaml.ScalarNode):
                self.fault(line, f"`{name}` must be a text.")
            elif not is_null(value) and value.value.strip():
                self.texts[name] = " ".join(value.value.split())
            elif name != _MAY_BE_EMPTY:
                self.fault(line, f"`{name}` is empty. Say what it is.")
        elif name in LISTS:
            self.lines[name] = line
            words = words_of(value)
            if words is None:
                self.fault(line, f"`{name}` must be a list of words, such as `{name}: [a, b]`.")
            else:
                self.lists[name] = words
        elif name in NESTED:
            self.lines[name] = line
            if not is_null(value):
                self.nodes[name] = value
        else:
            self.fault(line, f"`{name}` is no key of an agent. {choices(name, (*TEXTS, *LISTS, *NESTED))}")

    def pairs(self, node: yaml.Node, known: Iterable[str], what: str) -> Mapping[str, yaml.Node]:
        """The entries of a mapping that has these keys only; faults for what else stands there."""
        found: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            self.fault(line_of(node), f"{what} must be `key: value`, with: {', '.join(known)}.")
            return found
        for key, value in node.value:
            name = word_of(key) or ""
            if name not in known:
                self.fault(line_of(key), f"{name!r} is no key of {what}. {choices(name, known)}")
            elif name in found:
                self.fault(line_of(key), f"`{name}` of {what} stands there twice. Keep one.")
            else:
                found[name] = value
        return found


def line_of(node: yaml.Node) -> int:
    """The line of the file, counted from 1; the front matter begins in the second."""
    return int(node.start_mark.line) + 2


def is_null(node: yaml.Node) -> bool:
    """Whether nothing stands there."""
    return bool(node.tag == _NULL)


def word_of(node: yaml.Node) -> str | None:
    """The text of a single value; None where there is none."""
    return node.value.strip() if isinstance(node, yaml.ScalarNode) and not is_null(node) else None


def words_of(node: yaml.Node) -> list[tuple[str, int]] | None:
    """The texts of a list of single values, each with its line; None where it is no such list."""
    if not isinstance(node, yaml.SequenceNode) or not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return None
    return [(item.value.strip(), line_of(item)) for item in node.value]


def value_of(node: yaml.Node) -> Any:
    """What the YAML says, as plain values.

    Raises:
        yaml.YAMLError: it is of a kind that plain YAML does not know.
    """
    return yaml.SafeLoader("").construct_document(node)


def choices(word: str, known: Iterable[str]) -> str:
    """A sentence that names what there is, the nearest first."""
    names = sorted(known)
    near = get_close_matches(word.lower(), names, n=1)
    meant = f"Did you mean `{near[0]}`? " if near else ""
    return f"{meant}There are: {', '.join(names) or 'none'}."
