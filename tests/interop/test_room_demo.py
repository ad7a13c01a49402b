"""`make demo-room` prints what docs/rooms.md shows."""

import re
import subprocess
import sys

from tests.programs import needs_bubblewrap, needs_git
from tests.service.kit import ROOT, environment

VARIES = re.compile(r"[0-9a-f]{8}-\d+|[\d,]+ tokens, \$[\d.]+|It took [^,]+,")
"""The number of a request, what it cost, and how long it took."""


@needs_bubblewrap
@needs_git
def test_the_demo_of_a_room_prints_what_the_document_shows() -> None:
    words = [sys.executable, "-m", "tests.interop.room_demo"]
    ended = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    document = (ROOT / "docs" / "rooms.md").read_text()
    shown = document.partition("```text\n")[2].partition("```")[0]
    assert VARIES.sub("…", ended.stdout) == VARIES.sub("…", shown)
