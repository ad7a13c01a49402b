"""`tenex approvals`: the calls that wait for a person, the operator's answers, and which rule decides about a call."""

import asyncio
import json
from typing import Annotated, Any, Final

import typer

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals, parse_phase
from tenex.cli.shared.register import group, register
from tenex.core.errors import TenexError, UsageError
from tenex.core.text.amounts import duration

PATIENCE: Final = 30.0
"""Seconds for the daemon's answer, which needs one flush to disk."""

approvals = group("List and answer the calls that wait for a person, and explain the rules.")

NumberArgument = Annotated[
    str,
    typer.Argument(
        metavar="NUMBER",
        help="As `tenex approvals list` shows it: of a request, or of one of its calls (81316857-13.2).",
        show_default=False,
    ),
]
ReasonArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="REASON...", help="What the agent reads, in any number of words.", show_default=False),
]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help="The tool.", show_default=False)]
CallArgument = Annotated[
    str, typer.Argument(metavar="JSON", help='Its arguments, as {"command": "git push"}.', show_default=False)
]
PhaseOption = Annotated[str, typer.Option("--phase", metavar="PHASE", help="The phase it is called in.")]
AgentOption = Annotated[str, typer.Option("--agent", metavar="SLUG", help="The agent that calls it.")]


@register(approvals, "list")
def list_(given: Globals) -> None:
    """List the calls that wait for a person, in all conversations."""
    waiting = asyncio.run(_ask(given.paths(), "approvals"))
    lines: list[str] = []
    for request in waiting:
        asks = output.one_line(request["asks"])
        lines.append(f"{request['number']}  {request['agent']}  {asks}  ({duration(request['seconds'])})")
        single = [call for call in request["calls"] if call["number"] != request["number"]]
        lines += [f"{call['number']}  {output.one_line(call['asks'])}" for call in single]
    given.show(waiting, "\n".join(lines), "" if waiting else "Nothing waits for permission.")


@register(approvals)
def show(given: Globals, number: NumberArgument) -> None:
    """Show everything that a request asks for; control and invisible characters are escapes."""
    request, _ = asyncio.run(_request(given.paths(), number))
    lines = [f"{request['agent']} asks in “{output.one_line(request['title'])}”, until {request['expiresAt']}:"]
    for call in request["calls"]:
        lines += ["", f"{call['number']}  {call['tool']}  (it asks because {call['rule']})", call["text"]]
    given.show(request, "\n".join(lines))


@register(approvals)
def yes(given: Globals, number: NumberArgument) -> None:
    """Allow what a request asks for, or one of its calls, once."""
    _answer(given, number, is_yes=True, reason="")


@register(approvals)
def no(given: Globals, number: NumberArgument, reason: ReasonArgument = None) -> None:
    """Refuse what a request asks for, or one of its calls; the agent reads the reason and goes on without it."""
    _answer(given, number, is_yes=False, reason=" ".join(reason or ()))


@register(approvals)
def explain(
    given: Globals, tool: ToolArgument, call: CallArgument, phase: PhaseOption = "execute", agent: AgentOption = ""
) -> None:
    """Say what is done with a call in a new conversation, and which rule decides.

    Tools of MCP servers are known while a daemon runs that has started them.
    """
    from tenex.core.phases import Phase

    from .explanation import explain as explained

    try:
        arguments = json.loads(call)
    except ValueError as error:
        raise UsageError('The arguments are no JSON; write them as \'{"command": "git push"}\'.') from error
    if not isinstance(arguments, dict):
        raise UsageError('The arguments must be an object: \'{"command": "git push"}\'.')
    judged = asyncio.run(explained(given.settings(), tool, arguments, parse_phase(phase) or Phase.EXECUTE, agent))
    shown = {"verdict": judged.verdict, "rule": judged.rule, **({"note": judged.note} if judged.note else {})}
    given.show(shown, f"{judged.verdict}: {judged.rule}", judged.note)


def _answer(given: Globals, number: str, *, is_yes: bool, reason: str) -> None:
    async def answer() -> Any:
        where = given.paths()
        request, call = await _request(where, number)
        words = {"id": request["conversation"], "request": request["request"], "yes": is_yes, "reason": reason}
        done = await _ask(where, "approve", **words, call=call)
        meant = [one["asks"] for one in request["calls"] if call and request["names"][one["number"]] == call]
        return done, next(iter(meant), request["asks"])

    done, asks = asyncio.run(answer())
    was = "allowed" if done["outcome"] == "yes" else "refused"
    given.show(done, f"{was} by {done['by']}: {output.one_line(asks)}")


async def _request(where: Any, number: str) -> tuple[dict[str, Any], int]:
    """The open request that a number names, and the number of the call in it: 0 for all."""
    waiting: list[dict[str, Any]] = await _ask(where, "approvals")
    number = number.strip()
    meant = [(request, request["names"][number]) for request in waiting if number in request["names"]]
    if len(meant) > 1:
        numbers = ", ".join(request["number"] for request, _ in meant)
        raise UsageError(f"Several requests have the number {number[:80]}. Write the whole of it: {numbers}.")
    if not meant:
        raise UsageError(f"Nothing waits under the number {number[:80]}. `tenex approvals list` shows what does.")
    return meant[0]


async def _ask(where: Any, word: str, **words: Any) -> Any:
    from tenex.operations.daemon_start import ask_when_started

    try:
        return await ask_when_started(where.socket, where.conversations, word, patience=PATIENCE, **words)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise TenexError(f"No daemon runs on {where.data}. `tenex run` starts one.") from error
    except OSError as error:
        why = str(error) or f"no answer within {PATIENCE:g} s"
        raise TenexError(f"The daemon at {where.socket} does not answer: {why}. See `tenex status`.") from error
