"""What a server asks a person during a call (elicitation), as text; the answer is read by `core.forms`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.answers.forms import Form
from tenex.core.messages import is_too_deep
from tenex.core.text.foreign import CONTROL

from .schemas import finite

MOST_CHARACTERS: Final = 2_000
"""Of a question: it is a message to a person."""
MOST_FIELDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuestion:
    """A question of a server."""

    key: str
    """Under which the server wants the answer."""
    message: str
    form: Form
    url: str = ""
    """A page that the person has to visit; "" for a form."""

    def text(self, server: str, hide: Callable[[str], str] = str) -> str:
        """The question as a person reads it, with how to answer; `hide` takes out what no one is to read.

        Marks that turn around or hide what follows are left out: a person decides by what they see.
        """
        asks = f"The MCP server {server} asks: {' '.join(self.message.split())}"
        page = [f"It wants you to open {self.url}."] if self.url else []
        *fields, how = self.form.lines()
        shown = "\n".join([asks, *page, *(" ".join(line.split()) for line in fields)])
        shown = CONTROL.sub(lambda mark: "\n" if mark.group() == "\n" else "", hide(shown))
        return f"{shown[: MOST_CHARACTERS - len(how)]}\n{how}"


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
    fields = schema.get("properties") or {}
    if is_too_deep(fields) or len(fields) > MOST_FIELDS:
        return None
    url = getattr(params, "url", "") or ""
    form = Form(finite(fields), frozenset(schema.get("required") or ()) & fields.keys(), is_page=bool(url))
    return ServerQuestion(key=key, message=params.message, form=form, url=url)


def needs_input(result: Any) -> bool:
    """Whether a server asks something before it answers."""
    return getattr(result, "result_type", "") == "input_required"
