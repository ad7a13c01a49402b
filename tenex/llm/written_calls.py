"""Reads tool calls that a model wrote into its text, because its server did not take them out of it.

Marked calls (`<tool_call>`, `[TOOL_CALLS]`, `<function=name>` and others) are calls at any position, and one that
cannot be read is asked for again. JSON without a mark is a call only where it ends the answer, names an offered tool
and fits its parameters: an answer may quote JSON.
"""

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ToolSpec, is_too_deep
from tenex.core.work.tool_names import server_of

from .code_spans import CodeSpans
from .markup import CALL, SPECIAL, is_at_line

LEAD: Final = 400
"""Characters before JSON without a mark; who writes more explains something."""

MOST: Final = 64
"""Calls read from one answer, as many as are carried out."""

MARK: Final = re.compile(rf"{CALL}|{SPECIAL}", re.IGNORECASE)
"""The beginning of a marked call, and any special token."""

_HELD: Final = re.compile(
    rf"{MARK.pattern}|^[ \t]*</?[a-z_]|^(?-i:analysis|commentary to=)"
    r"|</(?:s|\w*call\w*|function|invoke|parameter|response)>",
    re.IGNORECASE | re.MULTILINE,
)
"""From where on a text is not shown before it is whole: also a line that begins with any tag, as a tool may be one."""

TAIL: Final = 40
"""Characters at the end of a text in which a mark may have begun."""

_BEGINNING: Final = re.compile(r"(?:(?<![^\n])[\w.:-]{1,64}\s*(?:\[[A-Z]*|<[^>\n]*)?|<[^>\n]*|\[[A-Z_]*|`+[a-z_]*)\Z")
"""What may begin a mark, or be a name before it."""
_FENCE: Final = re.compile(r"```[^\n`]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_TAGS: Final = r"(?:\w{1,20}:)?(?:function_call|tool_call|function|invoke|call|tool)"
_FUNCTION: Final = re.compile(rf"<{_TAGS}(?:=|\s(?:name|tool)=)[\"']?([^<>\"'\s({{]{{1,64}})[\"']?\s*(?:>|(?=[({{]))")
"""The beginning of a call in XML."""
_FUNCTION_END: Final = re.compile(rf"</{_TAGS}>|(?=<{_TAGS}(?:=|\s(?:name|tool)=))|\Z")
_PARAMETER: Final = re.compile(
    r"<(?:\w{1,20}:)?(?:parameter|argument)(?:=| name=| key=)[\"']?([^<>\"'\s]{1,64})[\"']?[^<>]{0,40}>(.*?)"
    r"(?:</(?:\w{1,20}:)?(?:parameter|argument)>|(?=<(?:parameter|argument)(?:=| name=| key=))|\Z)",
    re.DOTALL,
)
_KEYS: Final = re.compile(
    r"<arg_key>\s*([\w-]{1,64})\s*</arg_key>\s*<arg_value>(.*?)(?:(</arg_value>)|(?=<arg_key>)|\Z)", re.DOTALL
)
_KEYED: Final = re.compile(
    r"(?:<tool_call>|\A)\s*([\w.-]{1,64})\s*(?=<arg_key>|</tool_call>)(.*?)(?:</tool_call>|\Z)", re.DOTALL
)
"""A call as GLM writes it."""
_GEMMA: Final = re.compile(
    r"(?:<start_function_call>|<\|tool_call>)\s*call:([\w.-]{1,64})\s*\{(?!\s*\")((?:(?!<start_function_call>|<\|tool_call>).)*?)\}"
    r"\s*(?:<end_function_call>|<tool_call\|>|\Z)",
    re.DOTALL,
)
_GEMMA_VALUE: Final = re.compile(
    r"([\w-]{1,64}):(?:(?P<mark><escape>|<\|\"\|>)(?P<text>.*?)(?P=mark)|(?P<plain>[^,{}<>]*))", re.DOTALL
)
_BETWEEN: Final = rf"(?:\[ARGS\]|\[CALL_ID\]\w+|```json|json\b|code\b|Action Input:|{SPECIAL}|\s)*"
"""What is between the name of a tool and its arguments."""
_HEADER: Final = re.compile(rf"(?:functions\.)?([A-Za-z_][\w-]*)(?::\d+)?{_BETWEEN}\Z")
"""A name before its arguments."""
END: Final = 400
"""Characters at the end of a text in which marks around its last call are looked for."""
HEADER: Final = 200
"""Characters in which such a name is looked for."""

_AROUND: Final = re.compile(rf"\A(?:\s*(?:{SPECIAL}|</?\w*(?:call|tool)\w*>|\[TOOL_CALLS\]))+", re.IGNORECASE)
_AFTER: Final = re.compile(rf"(?:\s|{SPECIAL}|</\w+>)+\Z")
"""Marks around an expression of Python."""
_PYTHON: Final = re.compile(r"\s*+\[?\s*+(?:print\(\s*+)?[A-Za-z_][\w.]{0,80}\(")
LONGEST_PYTHON: Final = 256 * 1024
"""Characters: a file that a call writes, and its escapes."""

_LANGUAGES: Final = ("json", "tool_call", "tool_calls", "tool_code", "tool", "function_call", "function", "functools")
_NAMES: Final = ("name", "tool", "tool_name", "function")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "tool_input")
_BESIDES: Final = frozenset({"id", "type", "call_id"})
_DECODER: Final = json.JSONDecoder(strict=False)  # weak models write line ends into strings

UNREADABLE: Final = (
    "This tool call was written into the text of the answer and could not be read. Call the tool by the interface for "
    "tool calls, with one JSON object as its arguments."
)


@dataclass(slots=True)
class WrittenCalls:
    """What an answer holds: its text without the calls, and the calls."""

    text: str
    calls: list[CallRequest] = field(default_factory=list)


def offered_name(name: str, names: Collection[str]) -> str:
    """The one offered tool that a name means: its own, or the one it holds, as in `functions.write_file:0`.

    Names of servers' tools are theirs: `odd__upper` and `odd__UPPER` are two tools, whether both are offered or not.
    """
    if name in names:
        return name
    held = [
        known for known in names if re.search(rf"(?<![A-Za-z0-9_]){re.escape(known)}(?![A-Za-z0-9_])", name[:HEADER])
    ]
    alike = [known for known in names if not server_of(known) and _bare(known) == _bare(name[:HEADER])]
    meant = held or alike
    return meant[0] if len(meant) == 1 else name


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def written_calls(text: str, tools: Sequence[ToolSpec]) -> WrittenCalls:
    """The calls in a text, and what is left of it; the text alone where it holds none."""
    offered = {tool.name: tool.parameters for tool in tools}
    if not offered:
        return WrittenCalls(text)
    whole = _FENCE.fullmatch(text.strip())
    if whole and "\n```" not in whole[1] and MARK.search(whole[1]):
        return written_calls(whole[1], tools)
    start = _first_mark(text)
    if start is not None and (found := list(islice(_marked(text[start:], offered), MOST))):
        return WrittenCalls(text[:start].rstrip(), [_request(text, at, *one) for at, one in enumerate(found)])
    lead, unmarked = _unmarked(text, offered)
    if unmarked and all(_fits(call, offered) for call in unmarked):
        return WrittenCalls(lead.rstrip(), [_request(text, at, *call) for at, call in enumerate(unmarked[:MOST])])
    return WrittenCalls(text)


def before_mark(text: str) -> str:
    """A text up to the first mark in it: what a server left of calls that it took out itself."""
    start = _first_mark(text)
    return text if start is None else text[:start].rstrip()


def sayable(text: str, since: int) -> str | None:
    """An answer that is still being written, as far as it is certainly no call; None once a call may have begun.

    `since` characters of it have been looked at before.
    """
    if text[:40].lstrip().startswith(("{", "[", "```")) or _HELD.search(text, max(0, since - TAIL)):
        return None
    return text[:-TAIL] + _BEGINNING.sub("", text[-TAIL:])


def _first_mark(text: str) -> int | None:
    """The position of the first mark that is not quoted, and is not named in a sentence."""
    code = CodeSpans(text)
    for mark in islice(MARK.finditer(text), MOST):
        if mark[0].startswith("```") or not (code.quotes(*mark.span()) or _is_named(text, mark)):
            return mark.start()
    return None


def _is_named(text: str, mark: "re.Match[str]") -> bool:
    """Whether a sentence names the mark: words come before and after it on its line."""
    is_word = text[: mark.start()].endswith((" ", "(")) and not is_at_line(text, mark.start())
    return is_word and _SENTENCE.match(text, mark.end()) is not None


_SENTENCE: Final = re.compile(r"(?:[.,;:)]? [a-z]|[.,;:)]\s|[.,;:)]?\Z)")


def _marked(text: str, offered: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The calls of a text that begins with a mark; the arguments are None where they cannot be read."""
    functions = _in_tags(text, offered) or _in_python(_python_of(text), offered)
    yield from functions
    at = 0
    is_read = bool(functions)
    while not functions and (brace := text.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, brace)
        except (ValueError, RecursionError):
            is_read = False
            break
        call = _named_call(value)
        header = _HEADER.search(text[max(at, brace - HEADER) : brace])
        if header and header[1] not in _LANGUAGES and (call is None or call[0] not in offered):
            call = header[1], value
        if call is None:
            is_read = False
            break
        yield call
        at = end
        is_read = True
    named = [name for name in offered if re.search(rf"\b{re.escape(name)}\b", text[at:])]
    if not is_read and named:
        yield named[0], None


def _in_tags(text: str, offered: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The calls whose arguments are in tags of their own."""
    calls: list[tuple[str, Any]] = []
    at = 0
    while len(calls) < MOST and (function := _FUNCTION.search(text, at)):
        name = offered_name(function[1], offered)
        arguments, at = _arguments_of(text, function.end(), offered.get(name, {}))
        calls.append((name, arguments))
    for keyed in islice(_KEYED.finditer(text), 0 if calls else MOST):
        name = offered_name(keyed[1], offered)
        known = offered.get(name, {}).get("properties", {})
        pairs = [(key, value) for key, value, closing in _KEYS.findall(keyed[2]) if closing]
        values = {key: _value(value, known.get(key, {})) for key, value in pairs}
        calls.append((name, values if keyed[2].count("<arg_key>") == len(pairs) else None))
    for function in islice(_GEMMA.finditer(text), 0 if calls else MOST):
        name = offered_name(function[1], offered)
        calls.append((name, _gemma_arguments(function[2], offered.get(name, {}))))
    return calls


def _gemma_arguments(body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments between the braces of Gemma; None where something is left, as of an object in them."""
    known = schema.get("properties", {})
    if _GEMMA_VALUE.sub("", body).strip():
        return None
    return {
        value[1]: value["text"] if value["mark"] else _value(value["plain"], known.get(value[1], {}))
        for value in _GEMMA_VALUE.finditer(body)
    }


def _python_of(text: str) -> str:
    """The Python behind a mark: in a block, or to the end of a list."""
    block = _FENCE.match(text)
    if block is not None and text.startswith("```tool_code"):
        return block[1]
    plain = _AROUND.sub("", text)
    return f"{plain[:-END]}{_AFTER.sub('', plain[-END:])}".strip()


def _in_python(text: str, offered: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The calls in an expression of Python: `tool(name="value")`, a list of them, or printed, as Llama and Gemma do."""
    if not _PYTHON.match(text) or len(text) > LONGEST_PYTHON:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # strange escapes in a model's strings are no concern of our logs
            body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    calls: list[tuple[str, Any]] = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            return []
        value = statement.value
        for call in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            read = _python_call(call, offered)
            if read is None:
                return []
            calls.append(read)
    return calls[:MOST]


def _python_call(call: ast.expr, offered: Mapping[str, Any]) -> tuple[str, Any] | None:
    if not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Name) and call.func.id == "print" and len(call.args) == 1:
        return _python_call(call.args[0], offered)
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "call":  # `search.call(query="...")`
        function = function.value
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if not isinstance(name, str):
        return None
    places = list(offered.get(name, {}).get("properties", {}))
    if len(call.args) > len(places):
        return None
    try:
        given = dict(zip(places, map(ast.literal_eval, call.args), strict=False))
        return name, {**given, **{str(one.arg): ast.literal_eval(one.value) for one in call.keywords}}
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        return name, None


def _arguments_of(text: str, start: int, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, int]:
    """The arguments of a function in XML, one JSON object or a parameter each, and where they end."""
    brace = _BEFORE_JSON.match(text, start)
    if brace is not None:
        try:
            value, end = _DECODER.raw_decode(text, brace.end() - 1)
        except (ValueError, RecursionError):
            return None, _end_of_function(text, start)
        return (value if isinstance(value, dict) else None), end
    end = _end_of_function(text, start)
    body = text[start:end]
    parameters = _PARAMETER.findall(body)
    if not parameters and body.strip():
        return None, end
    known = schema.get("properties", {})
    return {name: _value(value, known.get(name, {})) for name, value in parameters}, end


_BEFORE_JSON: Final = re.compile(r"\s*+(?:```json)?\s*+\(?\s*+\{")


def _end_of_function(text: str, start: int) -> int:
    found = _FUNCTION_END.search(text, start)
    return found.start() if found and found.start() > start else max(start, found.end() if found else len(text))


def _value(text: str, schema: Any) -> Any:
    """A parameter's value: the text itself where the tool wants one, without the line ends around it."""
    plain = text.removeprefix("\n").removesuffix("\n")
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return plain
    try:
        return json.loads(plain)
    except (ValueError, RecursionError):
        return plain


def _unmarked(text: str, offered: Mapping[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """The calls without a mark that are a whole text or end it, and the text before them."""
    plain = text.strip()
    block = _CODE.fullmatch(plain)
    if called := _in_python(block[1] if block else plain, offered):
        return "", called
    lead = ""
    value = plain
    if value.endswith("```"):
        lead, fence, value = value[:-3].rpartition("```")
        value = value.removeprefix("json")
        if not fence or len(lead) > LEAD or "```" in lead:
            return text, []
    if values := _json_values(value):
        called = [call for call in map(_named_call, values) if call is not None]
        return (lead, called) if len(called) == len(values) else (text, [])
    return _named_before(plain, offered)


_CODE: Final = re.compile(r"```python\n(.*?)\n?```", re.DOTALL)


def _json_values(text: str) -> list[Any]:
    """The JSON values of a text that holds nothing else: one, a list, or several in a row; none otherwise."""
    values: list[Any] = []
    at = 0
    while len(values) <= MOST:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n;,"))
        if at == len(text):
            break
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        values.append(value)
    only = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return only if len(only) <= MOST else []


def _named_before(text: str, offered: Mapping[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """A call at the end of a text whose name is before its arguments, or is the tag around them."""
    plain = text
    text = text[:-END] + _AFTER.sub("", text[-END:])
    brace = text.find("{")
    header = _HEADER.search(text[max(0, brace - HEADER) : brace]) if 0 <= brace <= LEAD else None
    if header is not None and header[1] in offered:
        lead = text[: max(0, brace - HEADER) + header.start()]
        return _ACTION.sub("", lead), [(header[1], value) for value in _json_values(text[brace:])]
    element = next((found for found in _ELEMENT.finditer(text[:LEAD]) if found[1] in offered), None)
    if element is None or not plain.endswith(f"</{element[1]}>"):
        return text, []
    values: dict[str, Any] = {}
    for name, schema in offered[element[1]].get("properties", {}).items():
        start = plain.find(f"<{name}>", element.end())
        end = plain.rfind(f"</{name}>")
        if 0 < start < end:
            values[name] = _value(plain[start + len(name) + 2 : end], schema)
    return plain[: element.start()], [(element[1], values)] if values else []


_ACTION: Final = re.compile(r"(?:Action: *)?\Z")
_ELEMENT: Final = re.compile(r"^<([a-z]\w{1,63})>(?=\s*<)", re.MULTILINE)


def _named_call(value: Any) -> tuple[str, Any] | None:
    """Name and arguments of an object that is a call; None where it is none."""
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        return _named_call(inner)
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    given = next((key for key in _ARGUMENTS if key in value), None)
    if name is None or (given is None and set(value) - set(_NAMES) - _BESIDES):
        return None
    arguments = value.get(given, {}) if given else {}
    if isinstance(arguments, str):
        try:
            arguments = _DECODER.decode(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            arguments = None
    name = name.removeprefix("functions.")
    return name, arguments if isinstance(arguments, dict) else None


def _fits(call: tuple[str, Any], offered: Mapping[str, Any]) -> bool:
    name, arguments = call
    return name in offered and Draft202012Validator(dict(offered[name]), registry=Registry()).is_valid(arguments)


def _request(text: str, at: int, name: str, arguments: Any) -> CallRequest:
    number = sha256(f"{at} {text}".encode("utf-8", "surrogatepass")).hexdigest()[:9]
    if isinstance(arguments, dict) and not is_too_deep(arguments):
        return CallRequest(id=CallId(number), tool=name, arguments=arguments)
    return CallRequest(id=CallId(number), tool=name, fault=UNREADABLE)
