"""What a server asks a person during a call (elicitation), as text; and the answer, as the server wants it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_CHARACTERS: Final = 2_000
"""Of a question: it is a message to a person."""

YES: Final = frozenset({"yes", "y", "true", "ok", "okay", "1", "ja", "accept", "done"})
NO: Final = frozenset({"no", "n", "false", "0", "nein"})
REFUSALS: Final = frozenset({"decline", "cancel", "refuse"})


class NoAnswer(ValueError):
    """Why a text is no answer to a question; for the person who wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuestion:
    """A question of a server."""

    key: str
    """Under which the server wants the answer."""
    message: str
    url: str
    """A page that the person has to visit; "" for a form."""
    fields: Mapping[str, Mapping[str, Any]]
    """The fields of the form, each with its schema."""
    required: frozenset[str]

    def text(self, server: str, hide: Callable[[str], str] = str) -> str:
        """The question as a person reads it, with how to answer; `hide` takes out what no one is to read."""
        lines = [f"The MCP server {server} asks: {' '.join(self.message.split())}"]
        if self.url:
            lines.append(f"It wants you to open {self.url}. Answer `done` when you have, or `decline`.")
            return hide("\n".join(lines))[:MOST_CHARACTERS]
        lines += [_line(name, schema, is_needed=name in self.required) for name, schema in self.fields.items()]
        if len(self.fields) > 1:
            lines.append("Answer with a line for each, `name: value`, or `decline`.")
        elif self.fields:
            lines.append("Answer with the value, or `decline`.")
        else:
            lines.append("Answer yes or no.")
        return hide("\n".join(lines))[:MOST_CHARACTERS]

    def read(self, answer: str) -> dict[str, Any] | None:
        """The values of an answer by field; None where the person declines.

        Raises:
            NoAnswer: it is none.
        """
        plain = answer.strip().strip("`.!").lower()
        if plain in REFUSALS:
            return None
        if self.url or not self.fields:
            if plain in NO:
                return None
            if plain in YES:
                return {}
            raise NoAnswer("Answer yes or no.")
        if len(self.fields) == 1:
            ((name, schema),) = self.fields.items()
            return {name: _value(name, schema, answer.strip())}
        return self._read_lines(answer)

    def _read_lines(self, answer: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        by_name = {name.lower(): name for name in self.fields}
        for line in answer.splitlines():
            word, colon, text = line.partition(":")
            name = by_name.get(word.strip(" -*`").lower())
            if colon and name is not None and text.strip():
                values[name] = _value(name, self.fields[name], text.strip())
        missing = sorted(self.required - values.keys())
        if missing or not values:
            raise NoAnswer(f"Missing: {', '.join(missing or self.fields)}. Write a line for each, `name: value`.")
        return values


def question_in(result: Any) -> ServerQuestion | None:
    """What a result asks; None where it asks nothing that a person can be asked in one message."""
    requests = getattr(result, "input_requests", None) or {}
    if len(requests) != 1:
        return None
    ((key, request),) = requests.items()
    if request.method != "elicitation/create":
        return None
    params = request.params
    schema = getattr(params, "requested_schema", None) or {}
    return ServerQuestion(
        key=key,
        message=params.message,
        url=getattr(params, "url", "") or "",
        fields=schema.get("properties") or {},
        required=frozenset(schema.get("required") or ()),
    )


def needs_input(result: Any) -> bool:
    """Whether a server asks something before it answers."""
    return getattr(result, "result_type", "") == "input_required"


def _line(name: str, schema: Mapping[str, Any], *, is_needed: bool) -> str:
    about = schema.get("description") or schema.get("title") or ""
    options = _options(schema)
    kind = f"one of: {', '.join(options)}" if options else str(schema.get("type", "text"))
    kind = {"string": "text", "boolean": "yes or no"}.get(kind, kind)
    return f"- {name} ({kind}{'' if is_needed else ', optional'}){f': {about}' if about else ''}"


def _options(schema: Mapping[str, Any]) -> list[str]:
    if "enum" in schema:
        return [str(value) for value in schema["enum"]]
    return [str(option["const"]) for option in schema.get("oneOf", ()) if "const" in option]


def _value(name: str, schema: Mapping[str, Any], text: str) -> Any:
    """A value of a field as its schema wants it."""
    plain = text.strip("`.").lower()
    kind = schema.get("type")
    options = _options(schema)
    if options:
        chosen = next((option for option in options if option.lower() == plain), None)
        if chosen is None:
            raise NoAnswer(f"{name} is one of: {', '.join(options)}.")
        return chosen
    if kind == "boolean":
        if plain not in YES | NO:
            raise NoAnswer(f"{name} is yes or no.")
        return plain in YES
    if kind in ("integer", "number"):
        if not re.fullmatch(r"-?\d+" if kind == "integer" else r"-?\d+(\.\d+)?", plain):
            raise NoAnswer(f"{name} is a number.")
        return int(plain) if kind == "integer" else float(plain)
    if kind == "array":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
