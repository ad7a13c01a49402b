"""What remote signers offer."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature, StatusPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.operations.doctor.runner import Check
    from tenex.web.site import PagePart

    from .signing import Signers


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    from .signing import Signers

    signers = Signers(app.keys, app.name_of)
    return Extension(
        services={"signers": signers.run},
        changed=signers.changed,
        status={"signers": signers.status},
        gauges=lambda: _gauges(signers),
        signing=signers,
    )


def _gauges(signers: "Signers") -> "Iterable[Metric]":
    from .gauges import gauges  # its library is there where metrics are served

    return gauges(signers)


def _checks() -> "list[Check]":
    from tenex.operations.doctor.runner import Check

    from .checks import signers

    return [Check("signers", signers, 15)]


def _status() -> list[StatusPart]:
    from .status import lines, problems

    return [StatusPart(name="signers", lines=lines, problems=problems)]


def _pages() -> "list[PagePart]":
    from tenex.web.site import PagePart

    return [PagePart(page="daemon", template="features/signers/daemon.html")]


SIGNERS: Final = Feature(
    name="signers",
    commands=[Command("keys connect", "tenex.features.signers.cli:connect")],
    extend=_extend,
    checks=_checks,
    status=_status,
    pages=_pages,
)
