"""Counts what happens in a daemon, and serves the numbers."""

from functools import partial

from tenex.app import Application
from tenex.app.extension import Extension

from .gauges import Gauges
from .meter import Meter
from .port import open_port


def extend(app: Application) -> Extension:
    """Count from now on; the port is opened at the end of the start."""
    meter = Meter(
        Gauges(
            lambda: app.pool,
            lambda: app.coordinator,
            app.lines_dropped,
            lambda: app.daily.today()[0].used,
            app.mcp.status,
            lambda: app.pages.status() if app.pages is not None else None,
            more=lambda: (gauge for extension in app.extensions for gauge in extension.gauges()),
        )
    )
    app.disk.timed = meter.timed
    if app.shared is not None:
        app.shared.leases.happened = meter.of_store()

    async def opened() -> None:
        probe = partial(app.disk.probe, app.places.conversations)
        shared = app.shared

        def store_fault() -> str:
            return shared.leases.fault if shared is not None else ""

        await open_port(app.stack, app.settings, meter, probe, app.pool, app.inbox, store_fault)

    return Extension(observers=[meter], opened=opened)
