"""Special tokens of chat templates that a server left in an answer, rewritten as plain marks that other readers know.

Harmony (gpt-oss) wraps all that a model writes: `<|channel|>analysis<|message|>` a thought `<|end|>`, then `final` for
the answer, or `commentary to=functions.NAME` for a call. DeepSeek's DSML puts its own name before each tag. Tokens that
only end an answer are left out.
"""

import re
from typing import Final

_HARMONY: Final = re.compile(r"<\|(start|end|message|channel|constrain|call|return)\|>")
_RECIPIENT: Final = re.compile(r"\bto=([\w.:-]{1,100})")
_DSML: Final = re.compile(r"(</?)[|｜]{1,2}DSML[|｜]{1,2}")
_END: Final = re.compile(
    r"(?:\s*(?:<\|(?:im_end|im_start|eot_id|eom_id|end|end_of_text|endoftext|end_of_turn|return|call|eos|end_of_role)\|>"
    r"|</s>|<end_of_turn>|<eos>|\[/?INST\]|<｜end▁of▁sentence｜>|<\|END_OF_TURN_TOKEN\|>|<\|END_RESPONSE\|>))+\s*\Z"
)
_BEGIN: Final = re.compile(r"\A\s*(?:<\|START_RESPONSE\|>|<\|im_start\|>assistant\n?|<\|start_header_id\|>assistant)")
_TOKEN: Final = re.compile(r"<\|(?:channel|message|tool_call\w*|START_ACTION|python_tag|constrain)\|>|<｜tool▁\w+｜>")
LONGEST_HEADER: Final = 400
"""Characters of the header of a message."""
_LONGEST_END: Final = 400
"""Characters at the end of an answer in which such tokens are looked for."""


def rewritten(text: str) -> str:
    """A text with plain marks, `<think>`, `<function=NAME>`, `<invoke name="NAME">`, in place of special tokens."""
    if "<|message|>" in text or "<|channel|>" in text:
        text = _from_harmony(text)
    if "DSML" in text:
        text = _DSML.sub(r"\1", text)
    start = max(0, len(text) - _LONGEST_END)
    return text[:start] + _END.sub("", _BEGIN.sub("", text) if start == 0 else text[start:])


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


def has_token(text: str) -> bool:
    """Whether a special token is left in a text that is not quoted: then it is no answer."""
    found = _TOKEN.search(text)
    return found is not None and not text.endswith("`", 0, found.start())
