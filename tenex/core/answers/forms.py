"""What a tool asks a person in the middle of its call, as a form: how it is shown, and the values of an answer.

A form is what MCP permits in an elicitation: fields of texts, numbers, a yes or no, and choices of one or several. An
answer is held to all that their schemas say but regular expressions, whose matching may take for ever.
"""

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.answers.choices import worded_choice
from tenex.core.answers.yes_no import Answer, is_courtesy, read_answer
from tenex.core.text.foreign import plain
from tenex.core.text.names import without_leading_mentions

MOST_CHOICES: Final = 30
"""Choices of a field that are listed."""
_NAMED: Final = re.compile(r"[\s*`-]*([^\s:*`]{1,60})[*`]*:\s*(.*)", re.DOTALL)
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_DATE: Final = re.compile(r"([1-9]\d{3})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_KINDS: Final = {
    "string": "text",
    "boolean": "yes or no",
    "email": "e-mail address",
    "uri": "address",
    "date": "date as 2026-01-31",
    "date-time": "time as 2026-01-31T12:00:00Z",
}


class NoAnswer(ValueError):
    """Why a text is no answer to a form; for the person who wrote it."""


@dataclass(frozen=True, slots=True)
class Form:
    """A question of a tool."""

    fields: Mapping[str, Mapping[str, Any]]
    """Each with its schema."""
    required: frozenset[str] = frozenset()
    is_page: bool = False
    """Whether a person is to open a page, and say when they have."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Form":
        """A form as `stored` gives it."""
        return cls(stored.get("fields") or {}, frozenset(stored.get("required") or ()), bool(stored.get("is_page")))

    def stored(self) -> dict[str, Any]:
        """It as JSON."""
        fields = {name: dict(schema) for name, schema in self.fields.items()}
        return {"fields": fields, "required": sorted(self.required), "is_page": self.is_page}

    def lines(self) -> list[str]:
        """The fields, and how to answer."""
        if self.is_page:
            return ["Answer `done` when you have, or `decline`."]
        shown = [_line(name, schema, is_needed=name in self.required) for name, schema in self.fields.items()]
        if len(self.fields) > 1:
            return [*shown, "Answer with a line for each, `name: value`, or `decline`."]
        return [*shown, "Answer with the value, or `decline`."] if self.fields else ["Answer yes or no."]

    def read(self, answer: str) -> dict[str, Any] | None:
        """The values of an answer by field; None where the person declines.

        Raises:
            NoAnswer: it is none.
        """
        said = read_answer(answer)
        word = plain(answer).strip().strip("`.!").casefold()
        if word in ("decline", "cancel", "refuse"):
            return None
        if self.is_page or not self.fields:
            if (self.is_page and word == "done") or (isinstance(said, Answer) and said.is_yes and not said.remember):
                return {}
            if isinstance(said, Answer) and not said.is_yes:
                return None
            raise NoAnswer("Answer `done` or `decline`." if self.is_page else "Answer yes or no.")
        if len(self.fields) > 1:
            return self._read_lines(answer)
        ((name, schema),) = self.fields.items()
        return {name: _value(name, schema, self._single(name, answer.strip()))}

    def _single(self, name: str, answer: str) -> str:
        """The value of the only field: what is written alone, or behind the field's name."""
        first = _NAMED.fullmatch(answer)
        if first is not None and first[1].casefold() == name.casefold():
            return first[2].strip()
        for line in answer.splitlines()[1:]:
            other = _NAMED.fullmatch(line)
            if other is not None:
                raise NoAnswer(
                    f"Only {name} is asked for, and not {other[1]}. Write its value alone, or `{name}: VALUE`."
                )
        return answer

    def _read_lines(self, answer: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        by_name = {name.casefold(): name for name in self.fields}
        for line in answer.splitlines():
            named = _NAMED.fullmatch(line)
            name = by_name.get(named[1].casefold()) if named is not None else None
            if named is None or name is None:
                if line.strip() and not is_courtesy(line):
                    raise NoAnswer(
                        f"The line “{line.strip()[:60]}” names no field. The fields are: {', '.join(self.fields)}."
                    )
            elif named[2].strip():
                values[name] = _value(name, self.fields[name], named[2].strip())
        missing = sorted(self.required - values.keys())
        if missing or not values:
            raise NoAnswer(f"Missing: {', '.join(missing or self.fields)}. Write a line for each, `name: value`.")
        return values


# ---- choices ----


def _choices(schema: Mapping[str, Any]) -> dict[str, str]:
    """The values that may be chosen, each with what a person reads: its title, or itself."""
    inner = schema.get("items") if schema.get("type") == "array" else schema
    if not isinstance(inner, Mapping):
        return {}
    if isinstance(inner.get("enum"), list):
        values = [str(value) for value in inner["enum"]]
        names = inner.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return dict(zip(values, map(str, titles), strict=True))
    options = inner.get("oneOf") or inner.get("anyOf") or ()
    return {
        str(option["const"]): str(option.get("title") or option["const"])
        for option in options
        if isinstance(option, Mapping) and "const" in option
    }


def _line(name: str, schema: Mapping[str, Any], *, is_needed: bool) -> str:
    about = schema.get("description") or schema.get("title") or ""
    default = schema.get("default")
    optional = "" if is_needed else ", optional"
    if default is not None and not is_needed:
        optional = f", {', '.join(map(str, default)) if isinstance(default, list) else default} if left out"
    return f"- {name} ({_kind(schema)}{optional}){f': {about}' if about else ''}"


def _kind(schema: Mapping[str, Any]) -> str:
    choices = _choices(schema)
    if not choices:
        kind = str(schema.get("format") or schema.get("type") or "text")
        return _KINDS.get(kind, kind)
    shown = [value if title == value else f"{value} = {title}" for value, title in choices.items()][:MOST_CHOICES]
    more = f" and {len(choices) - MOST_CHOICES} more" if len(choices) > MOST_CHOICES else ""
    if schema.get("type") != "array":
        return f"one of: {', '.join(shown)}{more}"
    least, most = schema.get("minItems"), schema.get("maxItems")
    limits = [f"at least {least}" if least else "", f"at most {most}" if most is not None else ""]
    how_many = " and ".join(filter(None, limits))
    return f"{how_many or 'any'} of, with commas between: {', '.join(shown)}{more}"


# ---- values ----


def _value(name: str, schema: Mapping[str, Any], text: str) -> Any:
    """A value of a field, as its schema wants it.

    Raises:
        NoAnswer: it is none.
    """
    kind = schema.get("type")
    choices = _choices(schema)
    word = plain(text).strip().strip("`.")
    if kind == "array":
        parts = [part.strip() for part in text.split(",") if part.strip()]
        values = [_chosen(name, choices, part) for part in parts] if choices else parts
        _check_limits(name, schema, len(values), "minItems", "maxItems", "choices")
        return values
    if choices:
        return _chosen(name, choices, word)
    if kind == "boolean":
        said = read_answer(text)
        if word.casefold() in ("true", "false"):
            return word.casefold() == "true"
        if not isinstance(said, Answer) or said.remember or said.reason:
            raise NoAnswer(f"{name} is yes or no.")
        return said.is_yes
    if kind in ("integer", "number"):
        if not re.fullmatch(r"-?\d{1,19}" if kind == "integer" else r"-?\d{1,19}(\.\d{1,20})?", word):
            raise NoAnswer(f"{name} is a number.")
        number = int(word) if kind == "integer" else float(word)
        _check_limits(name, schema, number, "minimum", "maximum", "")
        return number
    _check_limits(name, schema, len(text), "minLength", "maxLength", "characters")
    _check_format(name, schema.get("format"), text)
    return text


def _chosen(name: str, choices: Mapping[str, str], text: str) -> str:
    """The value that a text chooses, by itself or by its title."""
    said = without_leading_mentions(text)
    values = tuple(choices)
    places = {worded_choice(said, values), worded_choice(said, tuple(choices.values()))} - {None}
    if len(places) != 1:
        raise NoAnswer(f"{name} is one of: {', '.join(choices)}.")
    return values[places.pop() or 0]


def _check_limits(name: str, schema: Mapping[str, Any], value: float, least_key: str, most_key: str, unit: str) -> None:
    least, most = schema.get(least_key), schema.get(most_key)
    of = f" {unit}" if unit else ""
    verb = "has" if unit else "is"
    if isinstance(least, int | float) and value < least:
        raise NoAnswer(f"{name} {verb} at least {least}{of}.")
    if isinstance(most, int | float) and value > most:
        raise NoAnswer(f"{name} {verb} at most {most}{of}.")


def _check_format(name: str, wanted: Any, text: str) -> None:
    if wanted not in ("email", "uri", "date", "date-time"):
        return
    is_right = False
    match wanted:
        case "email":
            is_right = _EMAIL.fullmatch(text) is not None
        case "uri":
            is_right = _ADDRESS.fullmatch(text) is not None
        case "date":
            is_right = _is_date(text)
        case "date-time":
            is_right = _is_date(text[:10]) and _TIME.fullmatch(text[10:]) is not None
    if not is_right:
        article = "an" if wanted in ("email", "uri") else "a"
        raise NoAnswer(f"{name} is {article} {_KINDS[wanted]}.")


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    return 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
