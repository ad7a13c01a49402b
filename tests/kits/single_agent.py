"""A daemon in which one agent answers each message."""

from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, calls

ALONE = '\n[conversations]\nagent = "executor"\n'


def writes(request: Json) -> Reply:
    """An agent that writes a file where a message asks for one, and otherwise answers at once."""
    asked = Asked(request)
    assert asked.question is None, "the router is never asked"
    last = asked.words.rsplit("<message", 1)[-1]
    if "slowly" in last and not asked.steps:
        return Answer(text="slowly done", delay=1.0)
    if "write" in last and not asked.steps:
        return calls(("write_file", {"path": asked.file, "content": "written\n"}))
    return Answer(text=f"{asked.agent} has answered")
