"""A JSON Schema as grammar rules: what a server can hold a model to, and notes on what it cannot.

Names and fixed values are spelt plainly, as `json.dumps` writes them without escapes for letters; the parser is more
patient there. Objects of up to six properties take them in any order, larger ones in the order of the schema.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from .ranges import whole_numbers
from .rules import EMPTY, MOST_REPEATED, SPACE, GrammarRules, either, literal

ANY_ORDER: Final = 6
"""Properties that may stand in any order: rules double with each one more."""

_KINDS: Final = ("object", "array", "string", "integer", "number", "boolean", "null")

_HEX: Final = "[0-9a-fA-F]"
_CHARACTER: Final = (
    r'[^"\\\x00-\x1F] | "\\" (["\\/bfnrt]'
    rf' | "u" ([0-9a-cA-Ce-fE-F] {_HEX}{{3}} | [dD] ([0-7] {_HEX}{{2}}'
    rf' | [89abAB] {_HEX}{{2}} "\\u" [dD] [c-fC-F] {_HEX}{{2}})))'
)
_FRACTION: Final = r'("." [0-9]{1,20})?'
_NUMBER: Final = rf'"-"? ("0" | [1-9] [0-9]{{0,18}}) {_FRACTION} ([eE] [+\x2D]? [0-9]{{1,2}})?'

_KNOWN: Final = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_SILENT: Final = {
    "type",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
}
"""Keywords that forbid nothing, or are looked at elsewhere."""


class SchemaRules:
    """Writes the rules of one schema; `#/...` references are looked up in it."""

    def __init__(self, rules: GrammarRules, schema: Mapping[str, Any]) -> None:
        self._rules = rules
        self._root = schema
        self._references: dict[str, str] = {}

    def value(self, schema: Any) -> str:
        """The name of a rule for a value of a schema."""
        if schema is True or schema == {}:
            return self._any()
        if not isinstance(schema, Mapping):
            self._unsaid("a schema that permits nothing")
            return self._any()
        if "$ref" in schema:
            return self._reference(schema)
        for keyword in ("const", "enum"):
            if keyword in schema:
                self._leave_out(schema, {keyword})
                fixed = schema["enum"] if keyword == "enum" else [schema["const"]]
                return self._rules.named(either(self._fixed(one) for one in fixed) if fixed else self._any(), "e")
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                self._leave_out(schema, {"anyOf"})
                return self._rules.named(either(self.value(one) for one in schema[keyword]), "u")
        kinds = schema.get("type", _KINDS)
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        self._leave_out(schema, set().union(*(_KNOWN.get(kind, set()) for kind in kinds)))
        return self._rules.named(either(self._kind(kind, schema) for kind in kinds), "v")

    def _kind(self, kind: str, schema: Mapping[str, Any]) -> str:
        write: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
        }
        fixed = {"number": _NUMBER, "boolean": '"true" | "false"', "null": '"null"'}
        return self._rules.named(fixed[kind], "k") if kind in fixed else write[kind](schema)

    def _reference(self, schema: Mapping[str, Any]) -> str:
        self._leave_out(schema, {"$ref"})
        where = str(schema["$ref"])
        if where not in self._references:
            found = _at(self._root, where)
            if found is None:
                self._unsaid(f"the reference {where}")
                return self._any()
            name = self._references[where] = self._rules.reserve("x")
            self._rules.rules[name] = self.value(found)
        return self._references[where]

    def _leave_out(self, schema: Mapping[str, Any], known: set[str]) -> None:
        for keyword in schema:
            if keyword not in known and keyword not in _SILENT:
                self._unsaid(keyword)

    def _unsaid(self, what: str) -> None:
        if what not in self._rules.unsaid:
            self._rules.unsaid.append(what)

    def _fixed(self, value: Any) -> str:
        """One value and no other; white space and the order of names are free."""
        if isinstance(value, Mapping):
            properties = {name: {"const": one} for name, one in value.items()}
            return self._object({"properties": properties, "required": list(value), "additionalProperties": False})
        if isinstance(value, list):
            space = self._space()
            items = f' "," {space} '.join(f"{self._fixed(one)} {space}" for one in value)
            return self._rules.named(f'"[" {space} {items or EMPTY} "]"', "a")
        return literal(_plain(value))

    # ---- kinds ------------------------------------------------------------------------------------------------------

    def _space(self) -> str:
        return self._rules.named(SPACE, "w")

    def _character(self) -> str:
        return self._rules.named(_CHARACTER, "ch")

    def _string(self, schema: Mapping[str, Any]) -> str:
        inside = self._repeated(self._character(), schema.get("minLength", 0), schema.get("maxLength"), "a text")
        return self._rules.named(rf'"\"" {inside} "\""', "s")

    def _repeated(self, body: str, least: int, most: int | None, what: str) -> str:
        """The body so many times; bounds no engine takes are left to the parser."""
        if max(least, most or 0) > MOST_REPEATED:
            self._unsaid(f"lengths of {what} above {MOST_REPEATED}")
            least, most = least if least <= MOST_REPEATED else 0, most if (most or 0) <= MOST_REPEATED else None
        if most is not None and least > most:
            self._unsaid(f"lengths of {what} that exclude each other")
            most = None
        if most == 0:
            return EMPTY
        return f"{body}*" if most is None and not least else f"{body}{{{least},{'' if most is None else most}}}"

    def _integer(self, schema: Mapping[str, Any]) -> str:
        bounds = [schema.get(key) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")]
        if any(isinstance(bound, float) for bound in bounds):
            self._unsaid("bounds of a whole number that are none themselves")
            bounds = [None] * 4
        lows = [low for low in (bounds[0], None if bounds[2] is None else bounds[2] + 1) if low is not None]
        highs = [high for high in (bounds[1], None if bounds[3] is None else bounds[3] - 1) if high is not None]
        body = whole_numbers(max(lows, default=None), min(highs, default=None))
        if not body:
            self._unsaid("bounds of a whole number that exclude each other")
        return self._rules.named(body or whole_numbers(None, None), "i")

    def _array(self, schema: Mapping[str, Any]) -> str:
        item, space = self.value(schema.get("items", True)), self._space()
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most is not None and least > most:
            self._unsaid("lengths of a list that exclude each other")
            most = None
        further = self._repeated(
            f'("," {space} {item} {space})', max(least - 1, 0), max(most - 1, 0) if most is not None else None, "a list"
        )
        filled = f"{item} {space} {further}"
        some = f"({filled})" if least else f"({filled})?"
        inside = EMPTY if most == 0 else some
        return self._rules.named(f'"[" {space} {inside} "]"', "a")

    def _object(self, schema: Mapping[str, Any]) -> str:
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = [name for name in schema.get("required", ()) if name not in properties]
        if not properties and schema.get("additionalProperties", True) is not False:
            if required:
                self._unsaid("required names that are not described")
            return self._free(schema.get("additionalProperties", True))
        if required:
            self._unsaid("required names that are not described")
        if schema.get("additionalProperties", True) is not False:
            self._narrow("names that are not described")
        space = self._space()
        members = {
            name: f'{literal(_plain(name))} {space} ":" {space} {self.value(one)} {space}'
            for name, one in properties.items()
        }
        needed = frozenset(schema.get("required", ())) & members.keys()
        if len(members) <= ANY_ORDER:
            inside = self._any_order(tuple(members), members, needed)
        else:
            self._narrow(f"more than {ANY_ORDER} names in another order than the schema's")
            inside = self._in_order(tuple(members), members, needed)
        return self._rules.named(f'"{{" {space} {inside} "}}"', "o")

    def _narrow(self, what: str) -> None:
        if what not in self._rules.narrower:
            self._rules.narrower.append(what)

    def _free(self, schema: Any) -> str:
        self._unsaid("a name standing twice in an object")
        space, key, value = self._space(), self._string({}), self.value(schema)
        member = f'{key} {space} ":" {space} {value} {space}'
        return self._rules.named(f'"{{" {space} ({member} ("," {space} {member})*)? "}}"', "f")

    def _any_order(self, left: tuple[str, ...], members: Mapping[str, str], needed: frozenset[str]) -> str:
        """What may still stand in the object: each name once, in any order."""
        comma = "" if len(left) == len(members) else f'"," {self._space()} '
        options = [] if needed & set(left) else [EMPTY]
        for name in left:
            rest = tuple(other for other in left if other != name)
            options.append(f"{comma}{members[name]} {self._any_order(rest, members, needed)}")
        return self._rules.named(" | ".join(options), "m")

    def _in_order(self, left: Sequence[str], members: Mapping[str, str], needed: frozenset[str]) -> str:
        """Likewise, each name only behind those before it in the schema."""
        comma = f'"," {self._space()} '
        behind = first = self._rules.named(EMPTY, "m")
        for name in reversed(left):
            body = f"{members[name]} {behind}"
            later, first_later = (behind, first)
            behind = self._rules.named(f"{comma}{body}" + ("" if name in needed else f" | {later}"), "m")
            first = self._rules.named(body + ("" if name in needed else f" | {first_later}"), "m")
        return first

    def _any(self) -> str:
        """Any value."""
        if "any" not in self._references:
            self._references["any"] = name = self._rules.reserve("any")
            kinds = (self._kind(kind, {"items": True}) for kind in _KINDS)
            self._rules.rules[name] = " | ".join(dict.fromkeys(kinds))
            self._unsaid("depth of any value")
        return self._references["any"]


def _at(root: Any, where: str) -> Any:
    """What a reference leads to within the schema; None if nothing."""
    if not where.startswith("#"):
        return None
    found = root
    for part in unquote(where[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Sequence) and not isinstance(found, str) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
