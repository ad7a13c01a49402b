"""A program that imports tenex prints nothing of it unless it configures logging, and never local variables."""

import subprocess
import sys

import pytest

from tests.service.kit import ROOT, environment

from .in_process import HELD


def _output_of(*arguments: str) -> tuple[str, str]:
    command = [sys.executable, "-m", "tests.telemetry.in_process", *arguments]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


def test_runs_in_a_process_without_logging_print_nothing_and_leave_its_own_logging_alone() -> None:
    out, err = _output_of()
    assert [line.partition("] ")[2].strip() for line in out.splitlines()] == ["the program's own line"]
    assert err == ""


@pytest.mark.parametrize("configured", ["logging", "structlog"])
def test_what_a_program_logs_of_them_holds_tracebacks_without_local_variables(configured: str) -> None:
    out, err = _output_of(configured)
    assert "model.raised" in out
    assert "RuntimeError: of 19 characters" in out
    assert HELD not in out + err
