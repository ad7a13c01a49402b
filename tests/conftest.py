"""How every test in this folder is run: a skip is a failure where TENEX_NO_SKIPS is set, long sweeps wait for `-m`.

No example of a property has a deadline: on a machine with other work to do it would fail for that alone.
"""

import gc
import os
import re
import signal
from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

import tenex.workflows  # noqa: F401 registers the kinds of conversation
from tests.fakes.scenario import begin_checks, finish_checks

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

NO_SKIPS = bool(os.environ.pop("TENEX_NO_SKIPS", ""))  # taken out, because programs under test read all of TENEX_*
"""Set where everything tests need is there, in CI: a test that did not run must not look like one that passed."""

POSTGRES = os.environ.pop("TENEX_TEST_POSTGRES", "")
"""The address of a server for the tests that need one; taken out for the same reason."""

settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""Programs under test inherit it: under `nohup` none of them would reload, and their tests would wait for ever."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist: the variables are gone when it starts."""
    node.workerinput["no_skips"] = NO_SKIPS
    node.workerinput["postgres"] = POSTGRES


def pytest_configure(config: pytest.Config) -> None:
    """Take them, as a worker."""
    global NO_SKIPS, POSTGRES
    given = getattr(config, "workerinput", {})
    NO_SKIPS = bool(NO_SKIPS or given.get("no_skips"))
    POSTGRES = POSTGRES or given.get("postgres", "")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge the report of a test once everybody else has written on it."""
    return _strict((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Judge the report of a module too: one that skips itself has no tests to report on."""
    return _strict((yield))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long sweeps out unless `-m` names them; they may take as long as they need."""
    long = [item for item in items if item.get_closest_marker("soak")]
    if re.search(r"\bsoak\b", config.option.markexpr):
        for item in long:
            item.add_marker(pytest.mark.timeout(0))
    elif long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Remember the scenarios that fixtures and the test play."""
    begin_checks()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hold every scenario of a test that has passed against the invariants, while its fixtures are there."""
    yield
    if item.get_closest_marker("altered") is None:
        finish_checks()


def pytest_collection_finish() -> None:
    """Have collections of garbage pass over what ten thousand tests are made of: they took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


def _strict(report: Report) -> Report:
    """Make a skip a failure that gives its reason; an expected failure is no skip."""
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        said = report.longrepr
        reason = said[2] if isinstance(said, tuple) else str(said)
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason.removeprefix('Skipped: ')}"
    return report
