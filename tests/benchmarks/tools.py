"""Tools of others: a start with three MCP servers, the tokens of fifty tools, and what the rules cost each call."""

import json
import sys
import time
from pathlib import Path
from typing import Final

from tenex.core.approvals.rules import ApprovalRule, Verdict, judge
from tenex.core.memory.window import BYTES_PER_TOKEN, weight
from tenex.core.messages import ToolSpec
from tenex.core.phases import Phase
from tenex.tools.find_tools import find_tools_tool, spec_naming
from tests.fakes import mcp_server

from .rig import Row
from .start import started

SERVERS: Final = 3
TOOLS: Final = 50
RULES: Final = 40
CALLS: Final = 2_000
LINES: Final = ("git status --short", "cd src && pytest -q tests/test_words.py -k plural 2>&1 | tail -n 20")
"""Commands of agents, a short one and one of usual length."""


async def measure(place: Path) -> list[Row]:
    """The rows; none has a budget that this machine could miss but the tokens."""
    return [*await _starts(place), *_tokens(), *_rules()]


async def _starts(place: Path) -> list[Row]:
    bare, full = place / "bare", place / "servers"
    full.mkdir(parents=True)
    command = {"command": sys.executable, "args": [mcp_server.__file__], "sandbox": False}
    servers = {f"server{number}": command for number in range(SERVERS)}
    (full / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (full / "tenex.toml").write_text('[mcp]\nservers_file = "mcp.json"\n')
    took = {data: min([await started(data) for _ in range(3)]) for data in (bare, full)}
    seconds = took[full][0] - took[bare][0]
    return [Row(f"a start with {SERVERS} MCP servers: READY beyond a start without", seconds, "s")]


def _tokens() -> list[Row]:
    offered = mcp_server.Server(TOOLS, modern=False).tools[-TOOLS:]
    specs = [
        ToolSpec(name=f"big__{tool['name']}", description=tool["description"], parameters=tool["inputSchema"])
        for tool in offered
    ]
    listed = spec_naming(find_tools_tool(lambda _: specs), specs)
    whole = sum(map(_size, specs))
    return [
        Row(f"{TOOLS} tools of a server, each in whole", whole, "tokens"),
        Row(f"{TOOLS} tools of a server, by name", _size(listed), "tokens", budget=whole),
    ]


def _size(spec: ToolSpec) -> float:
    """Estimated tokens of a tool in a request."""
    return (weight(spec.name) + weight(spec.description) + weight(spec.parameters)) / BYTES_PER_TOKEN


def _rules() -> list[Row]:
    rules = [
        ApprovalRule(decision=Verdict.ASK, name=f"rule {number}", tool="shell", match=("program", str(number)))
        for number in range(RULES)
    ]
    rows = []
    for line in LINES:
        began = time.process_time()
        for _ in range(CALLS):
            judge(rules, asks=False, arguments={"command": line}, tool="shell", phase=Phase.EXECUTE, agent="executor")
        took = (time.process_time() - began) / CALLS * 1_000
        rows.append(Row(f"{RULES} rules on a command of {len(line)} characters", took, "ms"))
    return rows
