"""`tenex agents test`: tries an agent that is a program of others, before it works."""

import asyncio
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from tenex.cli.shared import output
from tenex.cli.shared.agent_files import load_agents
from tenex.cli.shared.options import Globals
from tenex.core.errors import ConfigurationError, TenexError, UsageError
from tenex.core.ids import Slug
from tenex.core.installation import pip_install

EXTRA: Final = "acp"


def test(
    given: Globals, slug: Annotated[str, typer.Argument(metavar="SLUG", help="The agent; it has `acp:`.")]
) -> None:
    """Try an agent that is a program, such as Claude Code: start it, have it ask, stop it, and go on.

    It runs in the sandbox as in a turn, and can change nothing: its request for permission is never allowed. Its model
    is called two or three times, which costs what such calls cost.
    """
    from tenex.settings import check_paths, resolve_paths
    from tenex.telemetry import configure

    settings = given.settings()
    check_paths(settings)
    library = load_agents(settings)
    name = Slug(slug.removeprefix("@"))
    if faults := library.faults.get(name):
        raise ConfigurationError(faults)
    agent = library.definitions.get(name)
    if agent is None or agent.acp is None:
        programs = ", ".join(each.slug for each in library.definitions.values() if each.acp is not None)
        raise UsageError(f"{name} is no agent with `acp:`. Choose from: {programs or 'there is none'}.")
    if find_spec("acp") is None:
        raise UsageError(f"Agents that are programs need the extra `{EXTRA}`. Run: {pip_install(extra=EXTRA)}")
    from .trial import try_agent

    telemetry = configure("error", "auto")
    try:
        seen = asyncio.run(try_agent(agent, settings, resolve_paths(settings), output.message))
    except TimeoutError:
        raise TenexError(f"{name} has not come to an end in time.") from None
    finally:
        telemetry.close()
    if seen.faults:
        raise TenexError(" ".join(f"{fault}." for fault in seen.faults))
    given.show({**seen.facts, "faults": seen.faults}, f"{name} can be used.")
