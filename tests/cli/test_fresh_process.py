"""What a command needs is there in a process that has imported nothing else; the tests share one that has."""

import subprocess
import sys

import pytest

READERS = (
    *(f"tenex.cli.{name}" for name in ("conversations", "stats", "verify", "rollback", "transfer", "demo")),
    *("tenex.features.mcp_serve.access", "tenex.operations.conversation_status", "tenex.web.source"),
)


@pytest.mark.parametrize("module", READERS)
def test_what_folds_conversations_knows_their_kinds(module: str) -> None:
    source = f"import {module}; from tenex.core.kind import all_kinds; assert len(all_kinds()) == 4"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
