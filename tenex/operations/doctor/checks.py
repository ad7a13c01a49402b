"""All checks in the order in which they are reported, and one run of the doctor."""

from dataclasses import replace
from typing import Final

from . import configuration, conversations, daemon, files, machine, relays
from .findings import Case, Check
from .runner import Fixed, Report, examine, repair_all

FIRST: Final = (
    Check(name="settings", examine=configuration.settings, timeout=10),
    Check(name="daemon", examine=daemon.daemon, timeout=5),
)
"""The checks whose results the others use."""

CHECKS: Final = (
    Check(name="control", examine=daemon.control, timeout=15),
    Check(name="program", examine=machine.program, timeout=10),
    Check(name="clock", examine=machine.clock, timeout=5),
    Check(name="service", examine=machine.service, timeout=5),
    Check(name="configuration", examine=configuration.consistency, timeout=10),
    Check(name="agents", examine=configuration.agents, timeout=10),
    Check(name="folders", examine=files.folders, timeout=10),
    Check(name="permissions", examine=files.permissions, timeout=20),
    Check(name="keys", examine=files.keys, timeout=10),
    Check(name="disk", examine=machine.disk, timeout=20),
    Check(name="conversations", examine=conversations.conversations, timeout=120),  # 2 to 10 s for each 100 MB
    Check(name="journal", examine=conversations.daemon_journal, timeout=30),
    Check(name="index", examine=conversations.index, timeout=60),
    Check(name="relays", examine=relays.relays, timeout=30),
    Check(name="models", examine=configuration.models, timeout=90),
    Check(name="sandbox", examine=machine.sandbox, timeout=20),
    Check(name="git", examine=machine.git, timeout=15),
)


async def run_doctor(case: Case, *, fix: bool = False) -> Report:
    """Examine a data folder; with `fix` do every repair first. Raises nothing for what it finds."""
    fixed: tuple[Fixed, ...] = ()
    if fix:
        before = replace(case, probe=False)
        findings = await examine(before, FIRST, CHECKS)
        if before.paths is not None:
            fixed = await repair_all(before.paths.conversations, findings)
    return Report(findings=await examine(case, FIRST, CHECKS), fixed=fixed)
