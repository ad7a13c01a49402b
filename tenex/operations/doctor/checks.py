"""All checks in the order in which they are told, and the whole of a visit."""

from dataclasses import replace
from typing import Final

from .daemon import control, daemon
from .disk import disk
from .findings import Case, Check
from .index import index
from .journals import book, conversations
from .keys import keys
from .machine import clock, installed, service
from .models import models
from .permissions import folders, permissions
from .relays import relays
from .runner import Fixed, Report, examine, mend
from .sandbox import git, sandbox
from .settings import agents, paths_and_people, settings

FIRST: Final = (Check(name="settings", look=settings, deadline=10), Check(name="daemon", look=daemon, deadline=5))
"""What the others go by."""

THEN: Final = (
    Check(name="control", look=control, deadline=15),
    Check(name="program", look=installed, deadline=10),
    Check(name="clock", look=clock, deadline=5),
    Check(name="service", look=service, deadline=5),
    Check(name="configuration", look=paths_and_people, deadline=10),
    Check(name="agents", look=agents, deadline=10),
    Check(name="folders", look=folders, deadline=10),
    Check(name="permissions", look=permissions, deadline=20),
    Check(name="keys", look=keys, deadline=10),
    Check(name="disk", look=disk, deadline=20),
    Check(name="conversations", look=conversations, deadline=120),  # two to ten seconds for each 100 MB
    Check(name="journal", look=book, deadline=30),
    Check(name="index", look=index, deadline=60),
    Check(name="relays", look=relays, deadline=30),
    Check(name="models", look=models, deadline=90),
    Check(name="sandbox", look=sandbox, deadline=20),
    Check(name="git", look=git, deadline=15),
)


async def visit(case: Case, *, fix: bool = False) -> Report:
    """Examine a data folder; with `fix` mend what loses nothing, and examine it once more.

    Raises nothing for any mess it meets: that is what it reports.
    """
    mended: tuple[Fixed, ...] = ()
    if fix:
        before = replace(case, probe=False)
        findings = await examine(before, FIRST, THEN)
        if before.places is not None:
            mended = await mend(before.places.conversations, findings)
    return Report(findings=await examine(case, FIRST, THEN), mended=mended)
