"""A typed function with a docstring is a tool: what its model reads, and what becomes of a call."""

import asyncio
import threading
from pathlib import Path
from typing import get_args

import pytest

from tenex.core.config import Replay
from tenex.core.phases import Access, Phase
from tenex.plugins import API_VERSION, api, loops, tool
from tenex.plugins.loops import loop_of

from .conftest import Own, call

DEPLOY = '''
from typing import Literal

@tool(access="run", replay="idempotent", approve="ask", timeout=5)
async def deploy(context: ToolContext, environment: Literal["test", "live"], note: str = "", tries: int = 1) -> str:
    """Deploy the workspace.

    It takes a minute.

    Args:
        environment: where to.
        note: what is new,
            in a line.

    Returns:
        What the server said.
    """
    return f"{context.agent} deployed {context.workspace.name} to {environment} in {context.phase} ({tries + 1})"
'''


async def test_a_function_is_offered_with_the_texts_of_its_docstring_and_called_with_its_types(own: Own) -> None:
    deploy = own.tool(DEPLOY, "deploy")
    assert (deploy.access, deploy.replay, deploy.asks) == (Access.RUN, Replay.IDEMPOTENT, True)
    assert deploy.rule.asks
    assert deploy.spec.description == "Deploy the workspace.\n\nIt takes a minute."
    assert deploy.spec.parameters == {
        "type": "object",
        "properties": {
            "environment": {"type": "string", "enum": ["test", "live"], "description": "where to."},
            "note": {"type": "string", "default": "", "description": "what is new,\nin a line."},
            "tries": {"type": "integer", "default": 1},
        },
        "required": ["environment"],
    }
    done = await call(deploy, {"environment": "test", "tries": 2})
    assert (done.ok, done.content) == (True, "executor deployed workspace to test in execute (3)")
    assert (done.exit_status, done.has_outside_effect) == (0, True)
    for wrong in (
        {},
        {"environment": "mars"},
        {"environment": "test", "context": 1},
        {"environment": "test", "tries": "x"},
    ):
        refused = await call(deploy, wrong)
        assert not refused.ok
        assert not refused.has_outside_effect
        assert "arguments are invalid" in refused.content
    assert "may not be used" in (await call(deploy, {"environment": "test"}, Phase.PLAN)).content


def test_the_words_of_the_decorator_are_those_of_the_core() -> None:
    assert set(get_args(api.ReplayName)) == set(Replay)
    assert set(get_args(api.AccessName)) < set(Access)
    assert API_VERSION == 1

    @tool(access="read")
    def plain(number: int) -> int:
        return number + 1

    assert plain(1) == 2, "a decorated function is called as before"


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ('return "text"', "text"),
        ("return {'a': [1, None]}", '{"a":[1,null]}'),
        ("return None", "Done."),
        ('return ""', "(It gave an empty text.)"),
        ('raise ValueError("no such file")', "sample failed: ValueError: no such file"),
        ("raise SystemExit(3)", "sample failed: SystemExit: 3"),
        ("import sys; sys.exit()", "sample failed: SystemExit"),
        ("raise TimeoutError", "sample failed: TimeoutError"),
        ("import asyncio; raise asyncio.CancelledError", "sample failed: CancelledError"),
    ],
)
@pytest.mark.parametrize("how", ["def", "async def"])
async def test_what_it_returns_is_the_result_and_what_it_raises_a_failed_one(
    own: Own, how: str, body: str, content: str
) -> None:
    sample = own.tool(f'@tool(access="read")\n{how} sample() -> object:\n    """S."""\n    {body}\n')
    done = await call(sample)
    assert done.ok is ("failed" not in content)
    assert not done.has_outside_effect, "it only reads"
    if how == "async def" and "Exit" in content:
        assert done.content == "sample failed: RuntimeError: it called SystemExit"
    else:
        assert done.content == content


async def test_what_failed_on_the_way_may_have_changed_something(own: Own) -> None:
    sample = own.tool('@tool(access="run")\ndef sample() -> str:\n    """S."""\n    raise OSError("half of it")\n')
    done = await call(sample)
    assert (done.ok, done.has_outside_effect) == (False, True)


async def test_one_that_takes_too_long_is_given_up_and_finds_out(own: Own) -> None:
    text = '''
    ENDED = []

    @tool(access="read", timeout=0.05)
    def sample(context: ToolContext) -> None:
        """S."""
        ENDED.append(context.cancelled.wait(60))

    @tool(access="read", timeout=0.05)
    async def waits() -> None:
        """W."""
        import asyncio
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ENDED.append("cancelled")
            raise

    @tool(access="read")
    def ended() -> list:
        """E."""
        return [str(one) for one in ENDED]
    '''
    own.put("sample.py", text)
    tools, faults = own.load()
    assert faults == []
    for name in ("sample", "waits"):
        assert (await call(tools[name])).content == (
            f"{name} did not end within 0.05 s and was given up; check before repeating."
        )
    async with asyncio.timeout(30):
        while len(eval((await call(tools["ended"])).content)) < 2:
            pass
    assert sorted(eval((await call(tools["ended"])).content)) == ["True", "cancelled"]


BLOCKING = '''
import threading
GO = threading.Event()

@tool(access="read")
{how} blocks() -> str:
    """B."""
    GO.wait(60)
    return "free"

@tool(access="read")
async def other() -> str:
    """O."""
    return "answered"

@tool(access="read")
def release() -> str:
    """R."""
    GO.set()
    return "released"
'''


@pytest.mark.parametrize("how", ["def", "async def"])
async def test_one_that_blocks_stops_neither_the_daemon_nor_its_neighbours(
    own: Own, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(loops, "BLOCKED", 0.05)
    path = own.put("blocking.py", BLOCKING.format(how=how))
    plugins = own.find()
    tools = {one.name: one for one in plugins.load(plugins.names, own.workspace)}
    blocked = asyncio.create_task(call(tools["blocks"]))
    if how == "async def":
        async with asyncio.timeout(30):
            while not loop_of(str(path)).blocked_by:
                await asyncio.sleep(0)
        (source,) = plugins.sources
        assert source.blockings() == [
            "the tool blocks blocked its event loop; write it as `def`, or await what takes long."
        ]
    assert (await asyncio.wait_for(call(tools["other"]), 30)).content == "answered"
    assert not blocked.done()
    await call(tools["release"])
    assert (await blocked).content == "free", "its result still counts"


async def test_what_it_prints_does_not_reach_the_standard_output(own: Own, capsys: pytest.CaptureFixture[str]) -> None:
    text = '''
    @tool(access="read")
    def sample() -> str:
        """S."""
        print("from a thread")
        return "done"

    @tool(access="read")
    async def loop() -> str:
        """L."""
        print("from a loop")
        return "done"
    '''
    own.put("sample.py", text)
    tools, _ = own.load()
    for one in tools.values():
        assert (await call(one)).content == "done"
    print("ours")
    assert capsys.readouterr().out == "ours\n"


async def test_what_changes_files_nobody_knows_is_for_execute_alone(own: Own) -> None:
    sample = own.tool('@tool(access="change")\ndef sample() -> str:\n    """S."""\n    return "done"\n')
    done = await call(sample, root=own.workspace)
    assert (done.content, done.has_outside_effect) == ("done", True)
    refused = await call(sample, phase=Phase.CHORES, root=own.workspace)
    assert refused.content == "sample may not be used in the chores phase: which files it changes is not known."


async def test_a_call_that_is_cancelled_cancels_its_coroutine(own: Own) -> None:
    begun, ended = threading.Event(), threading.Event()
    sample = own.tool(
        '''
        EVENTS = []

        @tool(access="read")
        async def sample() -> None:
            """S."""
            import asyncio
            EVENTS[0].set()
            try:
                await asyncio.Event().wait()
            finally:
                EVENTS[1].set()
        '''
    )
    body = sample.body
    function = body.method.function  # type: ignore[attr-defined]
    function.__globals__["EVENTS"].extend([begun, ended])
    task = asyncio.create_task(call(sample))
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 30)


async def test_the_key_of_the_call_is_given_to_who_asks_for_it(own: Own, tmp_path: Path) -> None:
    sample = own.tool(
        '@tool(access="read")\ndef sample(context: ToolContext, idempotency_key: str) -> str:\n'
        '    """S."""\n    return f"{idempotency_key} {context.call}"\n'
    )
    assert sample.parameters["properties"] == {}
    assert (await call(sample)).content == "c:1 c:1"
