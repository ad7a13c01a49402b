"""One step of an agent: the rules of its phase give a move, which becomes tool calls or last words."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep
from tenex.core.phases import Phase

from .closing import reflect, tidy
from .execute import build
from .moves import CONFIGURE, Act, Finish, Move, acknowledged
from .speaking import take_part
from .standing import move_on
from .talk import chat, explore, plan
from .transcript import Transcript, read_transcript
from .verification import verify

_MOST_STEPS = 12  # look, read, write, refused, read again, write again, check, complete: 8, and room for new messages

_RULES: dict[Phase, Callable[[Transcript], Move]] = {
    Phase.CHAT: chat,
    Phase.BRAINSTORM: explore,
    Phase.PLAN: plan,
    Phase.EXECUTE: build,
    Phase.VERIFICATION: verify,
    Phase.CHORES: tidy,
    Phase.REFLECTION: reflect,
}


def answer_work(request: ModelRequest) -> ModelStep:
    """Give an agent's next step; a phase nobody knows is treated as chat."""
    seen = read_transcript(request)
    own = take_part(seen, request.agent) or move_on(seen, request)
    move = own or _RULES[Phase.parse(request.phase) or Phase.CHAT](seen)
    if isinstance(move, Act) and seen.steps >= _MOST_STEPS - 1:
        move = Finish(
            response=f"I stop after {seen.steps} steps: my tools did not let me get further. {_last_refusal(seen)}",
            summary="Stopped without an end",
            verdict="issues",
            issues="The offline model ran out of steps.",
        )
    return _as_step(move, seen, request)


def words_to_say(step: ModelStep) -> str:
    """What a step says to people: its text, or the response it completes with."""
    for call in step.calls:
        if call.tool == "complete":
            return str(call.arguments.get("response", ""))
    return step.text


def _as_step(move: Move, seen: Transcript, request: ModelRequest) -> ModelStep:
    match move:
        case Act(calls=calls):
            return ModelStep(
                calls=tuple(
                    CallRequest(id=CallId(f"offline-{seen.steps + 1}-{number}"), tool=tool, arguments=arguments)
                    for number, (tool, arguments) in enumerate(calls, start=1)
                )
            )
        case Finish():
            finish = _honest(acknowledged(move, seen), request)
            # a `complete` that was refused once would be refused again; the plain text is a completion as well
            if "complete" not in seen.offered or seen.calls("complete"):
                return ModelStep(text=finish.response)
            fields = _fields_offered(request)
            arguments = {name: value for name, value in finish.arguments().items() if not fields or name in fields}
            call = CallRequest(id=CallId(f"offline-{seen.steps + 1}-1"), tool="complete", arguments=arguments)
            return ModelStep(calls=(call,))


def _honest(finish: Finish, request: ModelRequest) -> Finish:
    """The same end, saying which tools nobody has used: those an agent's author wrote, which no rule can know."""
    unused = [f"`{tool.name}`" for tool in request.tools if tool.name in request.methods]
    if not unused:
        return finish
    told = f"This agent has tools of its own that no rule of mine can use: {', '.join(unused)}. {CONFIGURE}"
    return replace(finish, response=f"{finish.response.removesuffix(CONFIGURE).rstrip()}\n\n{told}")


def _fields_offered(request: ModelRequest) -> frozenset[str]:
    """The fields `complete` has in this phase; none where it does not say."""
    specs = [tool.parameters.get("properties") for tool in request.tools if tool.name == "complete"]
    return frozenset(specs[0]) if specs and isinstance(specs[0], Mapping) else frozenset()


def _last_refusal(seen: Transcript) -> str:
    refused = [done for done in seen.done if not done.ok]
    return f"The last refusal was: {refused[-1].content[:200]}" if refused else ""
