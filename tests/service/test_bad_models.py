"""Models that play badly, over real HTTP: repaired, held or given up, reported to the user once, resumed by itself."""

import json
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelscripts import Asked, Team, straight, swift
from tests.fakes.modelserver import model_server

from . import person
from .kit import Folder, daemon, of_kind
from .loopback import MODEL, QUICK, agree, at_work, folder_with_model, settled, spent

GOOD = json.dumps({"agents": ["executor"], "phase": "execute", "reason": "the request is clear"})
END = json.dumps({"agents": ["END"], "reason": "all is done"})
SECRET = "No one may read this."
BYTES = b"<html><body>Bad gateway</body></html>"
PAGE = "<!DOCTYPE html><html><title>Attention Required!</title></html>"
IN_ANSWER = b'{"error": {"message": "Provider returned error", "code": 502}}'


@dataclass(frozen=True)
class Case:
    """Bad replies to the first requests of somebody in a conversation, and what has to follow from them."""

    to: str
    """`router`, or the phase whose agent it is."""
    replies: tuple[Reply, ...]
    follows: Mapping[type[Any], int] = field(default_factory=dict)
    """How many records of a kind there must be; of those not named here none is allowed."""


def _texts(*texts: str) -> tuple[Reply, ...]:
    return tuple(Answer(text=text) for text in texts)


def _calls(tool: str, arguments: Json | str) -> tuple[Reply, ...]:
    return (Answer(calls=(Call(tool=tool, arguments=arguments),)),)


BROKEN = Breaks(answer=Answer(text=nonsense(400)), after=5)
REFUSED, REPROMPTED, TRIED_AGAIN = {r.ToolCallRejected: 1}, {r.ModelReprompted: 1}, {r.RetryScheduled: 1}
WRONG_TYPES = _texts('{"agents": 7}', '{"agents": ["executor"], "phase": ["execute"], "reason": {}}')
THOUGHT = _texts(f'{SECRET}</think>\n<tool_call>{{"name": "teleport", "arguments": {{"to": "Mars"}}}}</tool_call>')
TELEPORT = "<function=teleport>\n<parameter=to>\nMars\n</parameter>\n</function>"
HARMONY = (
    '<|start|>assistant<|channel|>commentary to=functions.teleport <|constrain|>json<|message|>{"to": "Mars"}<|call|>'
)
DSML = (
    '<｜DSML｜invoke name="teleport">\n<｜DSML｜parameter name="to" string="true">Mars</｜DSML｜parameter>'
    "\n</｜DSML｜invoke>"
)
TOOL_USE = {
    "error": {
        "message": "Failed to call a function. See 'failed_generation' for more details.",
        "code": "tool_use_failed",
        "failed_generation": '<function=teleport>{"to": "Mars"}</function>',
    }
}
CASES: dict[str, Case] = {
    # content: repaired by a sentence the model can act on
    "no JSON": Case("router", _texts("The executor shall do it."), {r.RouteRejected: 1}),
    "wrong types": Case("router", WRONG_TYPES, {r.RouteRejected: 2}),
    "agents as a string": Case("router", _texts(GOOD.replace('["executor"]', '"executor"'))),
    "a fence and prose": Case("router", _texts(f"Well.\n```json\n{GOOD}\n```\nThat is all.")),
    "two answers in one": Case("router", _texts(f"{END}\n{GOOD}")),
    "a thought to the router": Case("router", _texts(f"{END} {SECRET}</think>\n{GOOD}")),
    "a thought, and a call written as text": Case("execute", THOUGHT, REFUSED),
    "nonsense to the router": Case("router", _texts(nonsense(10_000)), {r.RouteRejected: 1}),
    "an unknown name": Case(
        "router", _texts(GOOD.replace("executor", "wizard")), {r.RouteRejected: 1, r.RouterCorrected: 1}
    ),
    "a tool that is none": Case("execute", _calls("teleport", {"to": "Mars"}), REFUSED),
    "a tool of another phase": Case("verification", _calls("write_file", {"path": "x.txt", "content": "x"}), REFUSED),
    "arguments that are no JSON": Case("execute", _calls("edit_file", '{"path": "evil.txt", "edits": '), REFUSED),
    "arguments that are no object": Case("execute", _calls("edit_file", '["evil.txt", "x"]'), REFUSED),
    "an empty answer": Case("execute", _texts(""), REPROMPTED),
    "no verdict": Case("verification", _texts("It looks fine."), REPROMPTED),
    "cut off by length": Case("execute", (Answer(text="I wro", finish="length"),), REPROMPTED),
    "filtered": Case("execute", (Answer(text="", finish="content_filter"),), REPROMPTED),
    # markup that the server left in the text: read as calls, and no thought or mark is published
    "harmony": Case("execute", _texts(f"<|channel|>analysis<|message|>{SECRET}<|end|>{HARMONY}"), REFUSED),
    "a tag of another vendor": Case("execute", _texts(DSML), REFUSED),
    "a call within the thoughts": Case(
        "execute", (Answer(reasoning=f"{SECRET}\n<tool_call>\n{TELEPORT}\n</tool_call>"),), REFUSED
    ),
    "a thought in harmony": Case("execute", _texts(f"<|channel|>analysis<|message|>{SECRET}<|end|>"), REPROMPTED),
    "names with marks": Case("execute", _calls("teleport<|channel|>commentary", {"to": "Mars"}), REFUSED),
    "a call of Gemma": Case("execute", _texts('<|tool_call>call:teleport{to:<|"|>Mars<|"|>}<tool_call|>'), REFUSED),
    "a call of Kimi K3": Case(
        "execute",
        _texts(
            f"<|open|>think<|sep|>{SECRET}<|close|>think<|sep|><|open|>tools<|sep|>"
            '<|open|>call tool="teleport"<|sep|><|open|>argument key="to"<|sep|>Mars<|close|>argument<|sep|>'
        ),
        REFUSED,
    ),
    "a call of DeepSeek": Case(
        "execute", _texts(f'{SECRET}</think><｜tool▁calls▁begin｜>teleport<｜tool▁sep｜>{{"to": "Mars"}}'), REFUSED
    ),
    "harmony without its tokens": Case(
        "execute", _texts(f'analysis{SECRET}assistantcommentary to=functions.teleport json{{"to": "Mars"}}'), REFUSED
    ),
    "a call that was left beside itself": Case(
        "execute",
        (Answer(text="I go.<|tool_call_end|>", calls=(Call(tool="teleport", arguments={"to": "Mars"}),)),),
        REFUSED,
    ),
    "a turn of someone else": Case("execute", _texts("<|im_start|>user\nThank you!<|im_end|>"), REPROMPTED),
    "a token of no one": Case("execute", _texts("<|fim_middle|>It is made."), REPROMPTED),
    "half a call": Case("execute", _texts("Now.\n<tool_call>\n"), REPROMPTED),
    "a failed call in the error": Case("execute", (Fails(status=400, body=TOOL_USE),), REFUSED),
    "a call its server could not read": Case(
        "execute", (Fails(status=500, message="error parsing tool call: raw='{', err=unexpected end"),), REPROMPTED
    ),
    # a refused parameter: sent otherwise at once, without a word
    "a refused choice of tools": Case(
        "execute", (Fails(status=404, message="No endpoints found that support the provided 'tool_choice' value."),)
    ),
    # transport: tried again, and not reported
    "an error in a good answer": Case("execute", (Sends(body=IN_ANSWER),), TRIED_AGAIN),
    "an error in a good answer to the router": Case("router", (Sends(body=IN_ANSWER),), TRIED_AGAIN),
    "no choice": Case("router", (Sends(body=b'{"choices": []}'),), TRIED_AGAIN),
    "a model that is being loaded": Case("execute", (Fails(status=503, message="Loading model"),), TRIED_AGAIN),
    "a page of a firewall": Case("execute", (Fails(status=403, body=PAGE),), TRIED_AGAIN),
    "a 500": Case("execute", (Fails(),), TRIED_AGAIN),
    "a 500 to the router": Case("router", (Fails(),), TRIED_AGAIN),
    "a 529": Case("execute", (Fails(status=529, message="overloaded"),), TRIED_AGAIN),
    "a broken stream": Case("execute", (BROKEN, BROKEN), {r.RetryScheduled: 2}),
    "a broken stream to the router": Case("router", (BROKEN,), TRIED_AGAIN),
    "a closed socket": Case("execute", (Closes(),), TRIED_AGAIN),
    "a page of HTML": Case("execute", (Sends(body=BYTES, content_type="text/html"),), TRIED_AGAIN),
}
LATE: dict[str, Case] = {
    "a reply after the deadline": Case("execute", (Answer(text="too late", delay=20),), TRIED_AGAIN),
    "no reply at all": Case("router", (Hangs(),), TRIED_AGAIN),
}
"""By themselves: a time limit that makes these end soon is too short for two dozen conversations on a busy machine."""
SHORT = {"TENEX_MODELS__TIMEOUT": "2"}
COUNTED = (r.RouteRejected, r.RouterCorrected, r.ToolCallRejected, r.ModelReprompted, r.RetryScheduled)
ADVICE = {
    "no JSON": "no JSON object",
    "an unknown name": "There is no agent 'wizard'",
    "a tool that is none": "teleport",
    "arguments that are no JSON": "JSON",
    "cut off by length": "could not be used",
}
"""What a model reads when it is asked again."""
TROUBLE = re.compile(
    rf"cannot be (?:reached|used)|could not decide|could not be used|{SECRET}|</?tool_call|<[|｜]|[|｜]>|DSML|teleport",
    re.IGNORECASE,
)
"""What no person may read."""


class Trouble:
    """A good team, but for the replies that the cases want first; it distinguishes conversations by their file."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self._team = Team(straight, swift)
        self.files = {name: f"case-{place:02}.txt" for place, name in enumerate(cases, 1)}
        self._due = {self.files[name]: list(case.replies) for name, case in cases.items()}
        self._to = {self.files[name]: case.to for name, case in cases.items()}

    def __call__(self, request: Json) -> Reply:
        asked = Asked(request)
        if asked.question is not None:
            who, file = "router", asked.question["messages"][0]["text"].split()[1].rstrip(".")
        else:
            who, file = asked.phase, asked.file
        if self._to[file] == who and self._due[file]:
            return self._due[file].pop(0)
        return self._team(request)


async def words(folder: Folder) -> dict[str, list[str]]:
    """Our messages on the relay, by the root of its thread."""
    sent: dict[str, list[str]] = defaultdict(list)
    for event in await folder.sent():
        root = next(tag[1] for tag in event["tags"] if tag[0] == "e" and "root" in tag)
        sent[root].append(event["content"])
    return sent


@pytest.mark.parametrize(("cases", "env"), [(CASES, {}), (LATE, SHORT)], ids=["in time", "late"])
async def test_bad_answers_are_repaired_without_a_notice(
    cases: Mapping[str, Case], env: dict[str, str], tmp_path: Path, relay: str
) -> None:
    """All in one daemon, at the same time; what they cost is counted to the token."""
    trouble = Trouble(cases)
    files = trouble.files
    async with at_work(tmp_path, relay, trouble, QUICK, **env) as (folder, server):
        names = {case: await folder.write(f"Write {file}.") for case, file in files.items()}
        for name in names.values():
            await settled(folder, name)
    agree(server, [usage for name in names.values() for usage in spent(folder.records(name))])
    sent = await words(folder)
    for case, name in names.items():
        counts = Counter(type(record) for record in folder.records(name) if isinstance(record, COUNTED))
        assert counts == Counter(cases[case].follows), case
        assert (folder.workspace / files[case]).read_text() == f"{files[case]}: all done\n"
        assert not [text for text in sent[name] if TROUBLE.search(text)], case
    made = {path.name for path in folder.workspace.iterdir()}
    assert made == {*files.values(), *(file.replace(".txt", ".md") for file in files.values())}
    texts = [json.dumps(exchange.request["messages"], ensure_ascii=False) for exchange in server.delivered()]
    for case, advice in ADVICE.items():
        assert case not in files or any(files[case] in text and advice in text for text in texts), case


EXAMPLE = """Qwen writes its calls so, and `<|im_end|>` ends a turn:

```xml
<think>
Which tool?
</think>
<tool_call>
{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
</tool_call>
```

gpt-oss writes `<|channel|>final<|message|>` before its answer."""


async def test_an_example_that_a_person_asked_for_is_published_as_it_was_written(tmp_path: Path, relay: str) -> None:
    def talk(request: Json) -> Reply:
        asked = Asked(request)
        if asked.question is None:
            return Answer(text=EXAMPLE)
        value = {"agents": ["USER"] if asked.question["turns"] else ["planner"], "reason": "a question"}
        return Answer(text=json.dumps(value))

    async with at_work(tmp_path, relay, talk, QUICK) as (folder, _):
        name = await folder.write("How do models write calls into their text?")
        await person.until(lambda: of_kind(folder.records(name), r.MessageSent))
        await person.until(lambda: not folder.state(name).delivery.outbox and folder.state(name).work.turn is None)
        sent = (await words(folder))[name]
    assert EXAMPLE in sent


async def test_a_pause_of_one_model_does_not_stop_the_next_and_continue_runs_the_cycle(
    tmp_path: Path, relay: str
) -> None:
    """The server refuses the first model for an hour; the second takes over. Then it refuses all, once."""
    team = Team(straight, swift)
    is_down = False

    def model(request: Json) -> Reply:
        if request["model"] == "test" or is_down:
            return Fails(status=429, message="slow down", headers={"retry-after": "3600"})
        return team(request)

    chain = json.dumps([MODEL, "local:second"])
    async with at_work(tmp_path, relay, model, QUICK, TENEX_MODELS__DEFAULT=chain) as (folder, server):
        name = await folder.write("Write note-08.txt.")
        await settled(folder, name)
        first = [exchange.request["model"] for exchange in server.exchanges]
        assert first.count("test") == 1, "the pause is known"
        is_down = True
        other = await folder.write("Write note-09.txt.")
        await person.until(lambda: of_kind(folder.records(other), r.RetryScheduled))
        is_down = False
        await folder.write("/continue", to=other)
        await settled(folder, other)
    assert {path.name for path in folder.workspace.iterdir()} >= {"note-08.txt", "note-09.txt"}


async def test_a_wrong_key_is_reported_once_and_the_work_goes_on_once_the_right_one_was_read(
    tmp_path: Path, relay: str
) -> None:
    wrong, patient = "sk-a-wrong-one", "[limits]\nretry_delays = []\nhold_for = 3600\n"
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, patient)
        stored = folder.data / "keys" / "local.api-key"
        stored.touch(0o600)
        stored.write_text(wrong)
        async with daemon(folder, TENEX_MODELS__DEFAULT=MODEL) as process:
            name = await folder.write("Write note-06.txt.")
            await person.until(lambda: (question := folder.state(name).router.question) and question.retry)
            stored.write_text(f"{server.key}\n")
            process.signal(signal.SIGHUP)
            await settled(folder, name)
        assert (folder.workspace / "note-06.txt").exists()
        agree(server, spent(folder.records(name)))
        sent = (await words(folder))[name]
    (notice,) = [text for text in sent if "cannot be used" in text]
    assert f"does not accept the key (401, invalid_api_key): it is in {stored}; correct it there." in notice
    everything = [path.read_text() for path in (folder.data / "conversations").rglob("*.json*") if path.is_file()]
    assert not [text for text in [*sent, *everything] if wrong in text or server.key in text]


async def test_continue_goes_through_a_pause_the_provider_asked_for(tmp_path: Path, relay: str) -> None:
    team, left = Team(straight, swift), [Fails(status=429, message="slow down", headers={"retry-after": "600"})]

    def model(request: Json) -> Reply:
        return left.pop() if left else team(request)

    async with at_work(tmp_path, relay, model, QUICK) as (folder, server):
        name = await folder.write("Write note-03.txt.")
        await person.until(lambda: of_kind(folder.records(name), r.RetryScheduled))
        await folder.write("/continue", to=name)
        await person.until(lambda: len(server.delivered()) == 1)
