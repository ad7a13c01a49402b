"""What a model is really sent, over HTTP, keeps to the budget: thinking, vendors' parts and arguments included."""

import json
from itertools import pairwise

from tenex.core.context.window import fitted, request_tokens
from tenex.core.messages import CallResult, Entry, UserText
from tests.fakes.modelprotocol import Answer, Call, Json, Reply

from .clients import WRITE, talking, work

BUDGET = 30_000
OFF = 1.1
"""How much larger the bytes on the wire may be: JSON writes line ends and quotes with two characters."""
SYSTEM = "Be careful. " * 700


async def test_a_long_run_of_a_model_that_thinks_is_never_sent_more_than_the_budget() -> None:
    """Its thinking is sent back to it, so it counts; the estimate is no smaller than what goes over the wire."""

    def respond(request: Json) -> Reply:
        arguments = {"path": "a.py", "content": f"print('{len(request['messages'])}')\n" * 300}
        return Answer(
            text="On.", reasoning="Let me see. " * 1_500, calls=(Call(tool="write_file", arguments=arguments),)
        )

    entries: list[Entry] = [UserText(author="Ada", text="Write it." + " please" * 500)]
    sizes: list[float] = []
    async with talking(respond) as (client, server):
        for _ in range(9):
            sent = fitted(SYSTEM, entries, (WRITE,), BUDGET)
            step = await client.step(work(*sent, tools=(WRITE,), system=SYSTEM))
            sizes.append(len(json.dumps(server.exchanges[-1].request, ensure_ascii=False).encode()) / 4)
            assert sizes[-1] <= OFF * request_tokens(SYSTEM, sent, (WRITE,))
            entries.append(step)
            entries += [CallResult(id=c.id, tool=c.tool, ok=True, content="a line\n" * 1_000) for c in step.calls]
        assert not server.refused
    assert max(sizes) <= OFF * BUDGET
    assert max(sizes) > 0.8 * BUDGET, "the budget was never near: this shows nothing"
    assert any(after < before for before, after in pairwise(sizes)), "nothing had to be left out"
