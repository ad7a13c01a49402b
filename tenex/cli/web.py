"""`tenex web`: pages to watch conversations, to answer questions and to understand what happened."""

import asyncio
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tenex.core.errors import UsageError
from tenex.core.installation import pip_install

from .shared import output
from .shared.options import Globals


def web(
    given: Globals,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port on 127.0.0.1; default: web.port of the settings.")
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Listen at this Unix socket, for a reverse proxy, not at a port."),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Serve nothing: print a new link of the pages that are served already.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the address, and no link.")] = False,
) -> None:
    """Serve pages that show conversations, on this machine only, until interrupted.

    It prints a link that logs one browser in, once. It only reads what the daemon writes, and needs none.
    """
    if link:
        from tenex.web.links import new_link

        output.result(asyncio.run(new_link(given.paths())))
        return
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UsageError(f"The pages are not installed. Run: {pip_install(extra='web')}")
    if port is not None and socket is not None:
        raise UsageError("Name --port or --socket, not both.")
    from tenex.feature import checks_of, problems_of, tools_of
    from tenex.operations.doctor.findings import Case
    from tenex.operations.doctor.runner import Report, run_doctor
    from tenex.settings import resolve_paths
    from tenex.telemetry import configure
    from tenex.web.server import serve

    settings = given.settings()

    async def examine() -> "Report":
        case = Case(
            data=given.folder(),
            config=given.config,
            env=dict(os.environ),
            trust=given.trust(),
            features=tools_of(given.features),
            problems=problems_of(given.features),
        )
        return await run_doctor(case, checks_of(given.features))

    def on_ready(address: str, new_link: Callable[[], str]) -> None:
        output.result(address if quiet else new_link())
        sys.stdout.flush()  # it may be a pipe
        if not quiet:
            output.message("Open the link in a browser; it is good once. Ctrl-C stops the pages, and never the daemon.")

    parts = [part for feature in given.features for part in feature.pages()]
    problems = problems_of(given.features)
    telemetry = configure("error", "auto")
    where = resolve_paths(settings)
    listens_at = settings.web.port if port is None else port
    try:
        asyncio.run(serve(settings, where, examine, parts, problems, port=listens_at, path=socket, on_ready=on_ready))
    finally:
        telemetry.close()
