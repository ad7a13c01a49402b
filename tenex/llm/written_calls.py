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

LEAD: Final = 400
"""Characters before JSON without a mark; who writes more explains something."""

MOST: Final = 64
"""Calls read from one answer, as many as are carried out."""

MARK: Final = re.compile(
    r"<(?:[a-z]+:)?tool_calls?>|<(?:[a-z]+:)?function_calls>|<TOOLCALL>|<function=|<invoke name=|<start_function_call>"
    r"|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call|<\|START_ACTION\|>|<｜tool▁call|<[|｜]{1,2}DSML|functools\["
    r"|<\|channel\|>|<\|start\|>|```(?:tool_calls?|tool_code|tool|function_call|function)\s"
)
"""The beginning of a marked call, as Hermes and Qwen, Llama, MiniMax, Mistral, Kimi, DeepSeek, Seed, Nemotron, Granite,
Command, Phi, Gemma and gpt-oss write it."""

TAIL: Final = 40
"""Characters at the end of a text in which a mark may have begun."""

_BEGINNING: Final = re.compile(r"(?:<[^>\n]*|\[[A-Z_]*|`+[a-z_]*)\Z")
_FENCE: Final = re.compile(r"```[^\n`]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_FUNCTION: Final = re.compile(
    r"(?:<function=|<invoke name=)[\"']?([^<>\"'\s({]{1,64})[\"']?\s*(?:>|(?=[({]))(.*?)"
    r"(?:</function>|</invoke>|(?=<function=|<invoke )|\Z)",
    re.DOTALL,
)
_PARAMETER: Final = re.compile(
    r"<parameter(?:=| name=)[\"']?([^<>\"'\s]{1,64})[\"']?[^<>]{0,40}>(.*?)"
    r"(?:</parameter>|(?=<parameter(?:=| name=))|\Z)",
    re.DOTALL,
)
_KEYS: Final = re.compile(
    r"<arg_key>\s*([\w-]{1,64})\s*</arg_key>\s*<arg_value>(.*?)(?:(</arg_value>)|(?=<arg_key>)|\Z)", re.DOTALL
)
_KEYED: Final = re.compile(
    r"<tool_call>\s*([\w.-]{1,64})\s*(?=<arg_key>|</tool_call>)(.*?)(?:</tool_call>|\Z)", re.DOTALL
)
"""A call as GLM writes it."""
_GEMMA: Final = re.compile(r"\s*call:([\w.-]{1,64})\s*\{(.*?)\}\s*(?:<end_function_call>|\Z)", re.DOTALL)
"""What follows each mark of Gemma."""
_GEMMA_VALUE: Final = re.compile(r"([\w-]{1,64}):(?:<escape>(.*?)<escape>|([^,{}<>]*))", re.DOTALL)
_HEADER: Final = re.compile(
    r"(?:functions\.)?([A-Za-z_][\w-]*)(?::\d+)?\s*"
    r"(?:\[ARGS\]|\[CALL_ID\]\w+\[ARGS\]|<\|tool_call_argument_begin\|>|```json)?\s*\Z"
)
"""A name before its arguments."""
HEADER: Final = 200
"""Characters in which such a name is looked for."""

_PYTHON: Final = re.compile(r"\s*\[?\s*(?:print\(\s*)?[A-Za-z_][\w.]{0,80}\(")
LONGEST_PYTHON: Final = 256 * 1024
"""Characters: a file that a call writes, and its escapes."""

_LANGUAGES: Final = ("json", "tool_call", "tool_calls", "tool_code", "tool", "function_call", "function")
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
    """The one offered tool that a name means: its own, or the one it holds, as in `functions.write_file:0`."""
    if name in names:
        return name
    held = [
        known for known in names if re.search(rf"(?<![A-Za-z0-9_]){re.escape(known)}(?![A-Za-z0-9_])", name[:HEADER])
    ]
    alike = [known for known in names if _bare(known) == _bare(name[:HEADER])]
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
    if whole and MARK.search(whole[1]):
        text = whole[1]
    start = _first_mark(text)
    if start is not None and (found := list(islice(_marked(text[start:], offered), MOST))):
        return WrittenCalls(text[:start].rstrip(), [_request(text, at, *one) for at, one in enumerate(found)])
    if (called := _in_python(text.strip())) and all(_fits(call, offered) for call in called):
        return WrittenCalls("", [_request(text, at, *call) for at, call in enumerate(called)])
    lead, values = _unmarked(text)
    named = [call for call in map(_named_call, values) if call is not None and _fits(call, offered)]
    if named and len(named) == len(values):
        return WrittenCalls(lead.rstrip(), [_request(text, at, *call) for at, call in enumerate(named)])
    return WrittenCalls(text)


def sayable(text: str, since: int) -> str | None:
    """An answer that is still being written, as far as it is certainly no call; None once a call may have begun.

    `since` characters of it have been looked at before.
    """
    if text[:40].lstrip().startswith(("{", "[", "```")) or MARK.search(text, max(0, since - TAIL)):
        return None
    return text[:-TAIL] + _BEGINNING.sub("", text[-TAIL:])


def _first_mark(text: str) -> int | None:
    """The position of the first mark that is not quoted: neither in backticks nor in a block of another language."""
    fences = [fence.span() for fence in _FENCE.finditer(text) if not MARK.match(fence[0])]
    for mark in islice(MARK.finditer(text), MOST):
        is_fenced = any(start < mark.start() < end for start, end in fences)
        is_quoted = text.endswith("`", 0, mark.start()) and not mark[0].startswith("```")
        if not is_fenced and not is_quoted:
            return mark.start()
    return None


def _marked(text: str, offered: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The calls of a text that begins with a mark; the arguments are None where they cannot be read."""
    functions = _in_tags(text, offered) or _in_python(_python_of(text))
    yield from functions
    at, is_read = 0, bool(functions)
    while not functions and (brace := text.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, brace)
        except (ValueError, RecursionError):
            is_read = False
            break
        call, header = _named_call(value), _HEADER.search(text[max(at, brace - HEADER) : brace])
        if header and header[1] not in _LANGUAGES and (call is None or call[0] not in offered):
            call = header[1], value
        if call is None:
            is_read = False
            break
        yield call
        at, is_read = end, True
    named = [name for name in offered if re.search(rf"\b{re.escape(name)}\b", text[at:])]
    if not is_read and named:
        yield named[0], None


def _in_tags(text: str, offered: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The calls whose arguments are in tags of their own."""
    calls: list[tuple[str, Any]] = []
    for function in islice(_FUNCTION.finditer(text), MOST):
        name = offered_name(function[1], offered)
        calls.append((name, _arguments_of(function[2], offered.get(name, {}))))
    for keyed in islice(_KEYED.finditer(text), 0 if calls else MOST):
        known = offered.get(keyed[1], {}).get("properties", {})
        pairs = [(key, value) for key, value, closing in _KEYS.findall(keyed[2]) if closing]
        values = {key: _value(value, known.get(key, {})) for key, value in pairs}
        calls.append((keyed[1], values if keyed[2].count("<arg_key>") == len(pairs) else None))
    pieces = [] if calls else text.split("<start_function_call>", MOST)[1:]
    for function in filter(None, map(_GEMMA.match, pieces)):
        known = offered.get(function[1], {}).get("properties", {})
        given = {
            key: text or _value(plain, known.get(key, {})) for key, text, plain in _GEMMA_VALUE.findall(function[2])
        }
        calls.append((function[1], given))
    return calls


def _python_of(text: str) -> str:
    """The Python behind a mark: in a block, or to the end of a list."""
    block = _FENCE.match(text)
    if block is not None and text.startswith("```tool_code"):
        return block[1]
    words = text.removeprefix("<|python_tag|>").removeprefix("<tool_call>").removeprefix("[TOOL_CALLS]").strip()
    return words.removesuffix("</tool_call>").removesuffix("<|eom_id|>").strip()


def _in_python(text: str) -> list[tuple[str, Any]]:
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
            read = _python_call(call)
            if read is None:
                return []
            calls.append(read)
    return calls[:MOST]


def _python_call(call: ast.expr) -> tuple[str, Any] | None:
    if not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Name) and call.func.id == "print" and len(call.args) == 1:
        return _python_call(call.args[0])
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "call":  # `search.call(query="...")`
        function = function.value
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if not isinstance(name, str) or call.args:
        return None
    try:
        return name, {str(given.arg): ast.literal_eval(given.value) for given in call.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        return name, None


def _arguments_of(body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a function in XML: one JSON object, or a parameter each."""
    parameters = _PARAMETER.findall(body)
    if parameters or not body.strip():
        known = schema.get("properties", {})
        return {name: _value(text, known.get(name, {})) for name, text in parameters}
    try:
        value, _ = _DECODER.raw_decode(body.strip().removeprefix("("))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value(text: str, schema: Any) -> Any:
    """A parameter's value: the text itself where the tool wants one, without the line ends around it."""
    plain = text.removeprefix("\n").removesuffix("\n")
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return plain
    try:
        return json.loads(plain)
    except (ValueError, RecursionError):
        return plain


def _unmarked(text: str) -> tuple[str, list[Any]]:
    """The JSON that ends a text, in a block or not, and the text before it."""
    lead, value = "", text.strip()
    if value.endswith("```"):
        lead, fence, value = value[:-3].rpartition("```")
        value = value.removeprefix("json")
        if not fence or len(lead) > LEAD or "```" in lead:
            return text, []
    try:
        found = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return text, []
    values = found if isinstance(found, list) else [found]
    return (lead, values) if len(values) <= MOST else (text, [])


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
