"""`search_conversation`: an agent finds what was said before, here or in other conversations of the same users."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.memory.window import tokens
from tenex.core.messages import cut
from tenex.core.phases import Access
from tenex.core.port_values import Passage, Passages, PassagesFound
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolTable
from .stores import PastMessages
from .tool import Refusal, Tool, integer, object_schema, string

RESULT_TOKENS: Final = 2_000
"""Of a result, without its last line: it stays in the request of every later step of the run."""

EXCERPT_CHARACTERS: Final = 600
"""Of a match: its words are few, but one of them may be a long line of data."""

MESSAGE_CHARACTERS: Final = 1_500
"""Of a message beside the one that was asked for."""

PLACE_CHARACTERS: Final = 4_000
"""Of the message that was asked for."""

SHORT_ID: Final = 12

NAMED_MOST: Final = 5
"""Conversations listed where a name fits several."""


def search_conversation_tool(past: PastMessages | None) -> Tool:
    """`search_conversation` over the stored conversations; it refuses where there are none, as in a preview."""

    async def run(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        query = arguments.get("query", "").strip()
        name = arguments.get("conversation", "").strip()
        around: int | None = arguments.get("around")
        if past is None:
            raise Refusal("No conversations are stored here.")
        if not (query or name or around):
            raise Refusal("Give `query`: words to look for; or `around`: the number of a message to read on from.")
        here = context.conversation_id
        person = context.author
        try:
            wanted = await _wanted(past, name, context) if name else None
            if around is not None or not query:
                read = await past.read(wanted or here, around, here, person)
                return ToolResult(ok=True, content=_page(read, around, here))
            found = await past.search(query, here, person, wanted)
        except (UsageError, StoreError) as error:
            raise Refusal(str(error)) from error
        return ToolResult(ok=True, content=_matches(found, here))

    return Tool(
        name="search_conversation",
        description=(
            "Finds what was said earlier, here and in other conversations of the same users: by words or around a "
            "message."
        ),
        parameters=object_schema(
            {},
            {
                "query": string("Few words of it.", max_length=500),
                "conversation": string("Only this one: id or title.", max_length=100),
                "around": integer("Its number, as results show it."),
            },
        ),
        access=Access.SPEAK,
        replay=Replay.READ,
        body=run,
    )


async def _wanted(past: PastMessages, name: str, context: ExecutionContext) -> ConversationId:
    found = await past.named(name, context.conversation_id, context.author)
    if len(found) == 1:
        return found[0].conversation
    if not found:
        raise Refusal(
            f"No conversation that may be read here has an id or title with {name!r}. "
            "Leave `conversation` out to search all of them."
        )
    listed = "; ".join(_title(one) for one in found[:NAMED_MOST])
    raise Refusal(f"{len(found)} conversations have {name!r} in their title. Give the id of one, such as: {listed}")


def _matches(found: PassagesFound, here: ConversationId) -> str:
    if not found.found:
        return "\n".join(filter(None, ("Nothing was found. Try other or fewer words.", found.fault)))
    head = ["No message has all of these words; these have some."] if found.is_partial else []
    blocks = [(_heading(one, here), [_line(each, EXCERPT_CHARACTERS) for each in one.messages]) for one in found.found]
    first = found.found[0]
    if first.conversation == here:
        more = f'{{"around": {first.messages[-1].seq}}} shows the messages around #{first.messages[-1].seq}'
    else:
        where = f'"conversation": "{first.conversation[:SHORT_ID]}", "around": {first.messages[-1].seq}'
        more = f"{{{where}}} shows the messages around that one"
    foot = [f"To read more: {more}.", *filter(None, [found.fault])]
    return "\n".join([*head, *_within(blocks), *foot])


def _within(blocks: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """The lines of the blocks, each below its heading, as many as fit."""
    room = RESULT_TOKENS
    for heading, lines in blocks:
        room -= tokens(heading)
        for place, line in enumerate(lines):
            room -= tokens(line)
            if room < 0:
                yield "[More was found; use more words, or one `conversation`.]"
                return
            if not place:
                yield heading
            yield line


def _page(read: Passages, around: int | None, here: ConversationId) -> str:
    """As many messages around a place as fit, oldest first."""
    messages = read.messages
    if not messages:
        return "There are no messages."
    upto = [place for place, one in enumerate(messages) if around is None or one.seq <= around]
    asked = upto[-1] if upto else 0
    shown = {asked: _line(messages[asked], PLACE_CHARACTERS)}
    room = RESULT_TOKENS - tokens(shown[asked])
    before_and_after = zip_longest(range(asked - 1, -1, -1), range(asked + 1, len(messages)))
    for place in (place for pair in before_and_after for place in pair if place is not None):
        line = _line(messages[place], MESSAGE_CHARACTERS)
        room -= tokens(line)
        if room < 0:
            break
        shown[place] = line
    first = min(shown)
    last = max(shown)
    foot = []
    if first > 0:
        foot.append(f'earlier messages: "around": {messages[first - 1].seq}')
    if last < len(messages) - 1:
        foot.append(f'later messages: "around": {messages[last + 1].seq}')
    lines = [_heading(read, here), *(shown[place] for place in sorted(shown))]
    return "\n".join([*lines, *([f"To read on, {'; '.join(foot)}."] if foot else [])])


def _heading(of: Passages, here: ConversationId) -> str:
    others = f" ({of.others} more match)" if of.others else ""
    imported = " (imported)" if of.imported else ""
    return f"{f'In this conversation{imported}' if of.conversation == here else f'In {_title(of)}'}{others}:"


def _title(of: Passages) -> str:
    return f'{of.conversation[:SHORT_ID]} "{" ".join(of.title.split())}"{" (imported)" if of.imported else ""}'


def _line(message: Passage, limit: int) -> str:
    return f"#{message.seq} {_time(message.at)} {message.name or '(title)'}: {cut(message.text.strip(), limit)}"


def _time(at: Millis) -> str:
    try:
        return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # a clock or a file that is wrong
        return "(no date)"


TOOLS: Final[ToolTable] = {"search_conversation": lambda parts: search_conversation_tool(parts.past_messages)}
