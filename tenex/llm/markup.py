"""Special tokens of chat templates that a server left in an answer, rewritten as plain marks that other readers know.

Harmony (gpt-oss) wraps all that a model writes: `<|channel|>analysis<|message|>` a thought `<|end|>`, then `final` for
the answer, or `commentary to=functions.NAME` for a call. DeepSeek's DSML puts its own name before each tag, Kimi K3
writes a tag as `<|open|>NAME<|sep|>`. Tokens that only begin or end an answer are left out. An answer in which another
token is left is no answer; a token that a text shows as code is a part of the text.
"""

import re
from itertools import islice
from typing import Final

from .code_spans import CodeSpans

SPECIAL: Final = (
    r"<[|｜][\"/\w▁.-]{2,40}[|｜]?>|<\|\"\|>|</?[|｜]{1,2}DSML[|｜]|<[\w/]{2,30}\|>"
    r"|\[\|(?:endofturn|assistant|user|system|tool)\|\]"
)
"""A token: `<|name|>`, with the wide bars of DeepSeek, `<|name>` and `<name|>` of Gemma, `[|name|]` of EXAONE."""

CALL: Final = (
    r"<(?:\w{1,20}[:_])?(?:tool_?calls?|function_?calls?|tool_use|tool_response)\b[^<>\n]{0,80}>|<function=|<(?:\w{1,20}:)?invoke\b"
    r"|<start_function_call>|<(?:tools|call)>(?=\s*[\[{])|<call\s(?:tool|name)=|\[TOOL_CALLS\]|(?<![\w.-])[\w.-]{1,64}(?=\[ARGS\]|\s?<arg_key>)"
    r"|(?<!\w)functools\s?\[(?=\s*\{)|<[|｜]+(?:tool|function|python|START_ACTION|action|plugin)[^<>\s]*>"
    r"|```(?:tool_calls?|tool_code|tool|function_call|function)\s"
)
"""The beginning of a call, as Hermes and Qwen, Llama, MiniMax, Mistral, Kimi, DeepSeek, Seed, Nemotron, Granite,
Command, Phi, Gemma, GLM, Grok and OLMo write it."""

_SPECIAL: Final = re.compile(SPECIAL)
_CALL: Final = re.compile(CALL, re.IGNORECASE)
_HARMONY: Final = re.compile(r"<\|(start|end|message|channel|constrain|call|return)\|>")
_RECIPIENT: Final = re.compile(r"\bto=([\w.:-]{1,100})")
_GLUED: Final = re.compile(r"assistant(?:analysis|commentary|final)|^commentary to=\w", re.MULTILINE)
_HEADER: Final = re.compile(
    r"(?:^|assistant)(analysis|commentary|final)( to=[\w.:-]{1,100})?(?: ?(?:json|code)(?=\s*\{))?", re.MULTILINE
)
"""A header of Harmony whose tokens a server left out, but not the words between them."""
_DSML: Final = re.compile(r"(</?)[|｜]{1,2}DSML[|｜]{1,2}")
_TAG: Final = re.compile(r"<\|(open|close)\|>(\w{1,40})([^<>|]{0,200})<\|sep\|>")
_FRAME: Final = re.compile(r"<\|(?:start|begin|end)_(?:of_)?(?:response|solution|box|answer)\|>", re.IGNORECASE)
_RESPONSE: Final = re.compile(r"\A\s*<(response|answer|s)>(.*)</\1>\s*\Z", re.DOTALL)
_BEGIN: Final = re.compile(
    r"\A\s*(?:<\|(?:im_start|start_header_id|start_of_role)\|>\s*assistant\s*|<\|(?:end_header_id|end_of_role)\|>\s*"
    r"|<\|(?:assistant|bos|begin_of_text|startoftext)\|>\s*|<start_of_turn>model\s*|<bos>\s*|\[gMASK\]<sop>\s*"
    r"|<｜(?:Assistant|begin▁of▁sentence)｜>\s*)+"
)
_END_OF_TURN: Final = (
    r"<\|(?:im_end|im_start|eot_id|eom_id|eot|end|end_of_text|endoftext|end_of_turn|endofturn|return|call|eos|user"
    r"|observation|END_OF_TURN_TOKEN|END_RESPONSE|end_of_role|start_of_role|start_header_id|endofprompt|role_end)\|>"
    r"|<｜(?:end▁of▁sentence|User)｜>|<end_of_turn>|<turn\|>|<eos>|\[\|endofturn\|\]"
)
_CUT: Final = re.compile(
    rf"(?:{_END_OF_TURN})\s*(?:<[^<>\n]{{1,30}}>\s*)?(assistant\b|model\b)?|(?<=[.!?])assistant\n\n"
)
_END: Final = re.compile(
    rf"(?:\s*(?:{_END_OF_TURN}|</s>|\[/?INST\]|\[EOS\]|\[e~\[|\[END FINAL RESPONSE\]"
    r"|</(?:tool_calls?|function_calls?|function|invoke|parameter|response)>))+\s*\Z"
)
_OPENED: Final = re.compile(
    r"<(?:s|function|invoke|parameter|response|tool_calls?)[>=\s]|\[INST\].{0,200}\[/INST\]", re.DOTALL
)
"""A text that names both of a pair is about them."""
_MOST: Final = 64
"""Marks that are looked at: each costs as much as its line is long."""
LONGEST_HEADER: Final = 400
"""Characters of the header of a message."""
_LONGEST_END: Final = 400
"""Characters at the end of an answer in which such tokens are looked for."""


def rewritten(text: str) -> str:
    """A text with plain marks, `<think>`, `<function=NAME>`, `<invoke name="NAME">`, in place of special tokens."""
    if "<|" not in text and _GLUED.search(text):
        text = _HEADER.sub(r"<|channel|>\1\2<|message|>", text)
    token = CodeSpans(text).unquoted(_SPECIAL)
    if token is not None:
        before = text[: token.start()]
        rest = text[token.start() :]
        if "<|message|>" in rest or "<|channel|>" in rest:
            is_thought = rest.startswith("<|end|>") and before.strip()
            text = (f"<think>{before}</think>" if is_thought else before) + _from_harmony(rest)
        else:
            rest = _TAG.sub(_plain_tag, rest)
            text = before + _FRAME.sub("", _DSML.sub(r"\1", rest))
    return _without_frame(text)


def _plain_tag(tag: "re.Match[str]") -> str:
    if tag[2] in ("response", "tools"):
        return ""
    return f"</{tag[2]}>" if tag[1] == "close" else f"<{tag[2]}{tag[3]}>"


def _without_frame(text: str) -> str:
    """What is between the tokens that begin and end an answer; a turn of someone else that follows is invented."""
    text = _BEGIN.sub("", text)
    if framed := _RESPONSE.match(text):
        text = framed[2]
    code = CodeSpans(text)
    call = code.unquoted(_CALL)
    end = code.unquoted(_CUT)
    if end is not None and text[: end.start()].strip() and not end[1] and (call is None or end.start() < call.start()):
        text = text[: end.start()]
    if _OPENED.search(text):
        return text
    start = max(0, len(text) - _LONGEST_END)
    return text[:start] + _END.sub("", text[start:])


def _from_harmony(text: str) -> str:
    """The messages of an answer one after another, without their headers; what has no message yet is nothing."""
    words = _HARMONY.split(text)
    written = [words[0]]
    header = ""
    for token, piece in zip(words[1::2], words[2::2], strict=True):
        match token:
            case "message":
                written.append(_message(header, piece))
                header = ""
            case "end" | "call" | "return":
                header = ""
                written.append(piece if piece.strip() else "")
            case _:
                header = f"{header} {token} {piece}"[-LONGEST_HEADER:]
    return "".join(written)


def _message(header: str, body: str) -> str:
    recipient = _RECIPIENT.search(header)
    if recipient is not None:
        return f"<function={recipient[1].removeprefix('functions.')}>{body}</function>"
    return f"<think>{body}</think>" if "analysis" in header else body


def has_mark(text: str) -> bool:
    """Whether a special token, or a line that begins as a call, is left in a text: then it is no answer."""
    code = CodeSpans(text)
    if code.unquoted(_SPECIAL) is not None:
        return True
    marks = (mark.start() for mark in islice(_CALL.finditer(text), _MOST) if not code.quotes(*mark.span()))
    return any(is_at_line(text, at) for at in marks)


def is_at_line(text: str, at: int) -> bool:
    """Whether nothing but white space is before a position in its line."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()
