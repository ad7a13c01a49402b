"""A development server in a daemon: an agent starts it, asks it and stops it in one turn, also who verifies."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, straight
from tests.programs import needs_bubblewrap, needs_git
from tests.tools.conftest import processes_in

from .kit import of_kind
from .loopback import at_work, settled

SERVE = "exec python3 -u -m http.server --bind 127.0.0.1 8000"

ASK = """python3 - <<'END'
import time, urllib.request
for _ in range(400):
    try:
        print("answered:", urllib.request.urlopen("http://127.0.0.1:8000/page.txt", timeout=5).read().decode())
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
END
"""

PAGES = {"execute": "made", "verification": "tried"}


def builds_a_page(asked: Asked) -> Reply:
    """An agent that starts a server in execute and in verification, asks it, and stops it."""
    page = PAGES.get(asked.phase)
    results = asked.results
    if page is None:
        return brisk(asked)
    if "shell_start" not in results:
        return calls(("shell_start", {"command": f"echo {page} > page.txt; {SERVE}"}))
    if "shell" not in results:
        return calls(("shell", {"command": ASK}))
    if "shell_stop" not in results:
        return calls(("shell_stop", {"id": results["shell_start"][0].split()[0]}))
    return brisk(asked)


@needs_git
@needs_bubblewrap
async def test_a_dev_server_is_started_asked_and_stopped_in_one_turn(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(straight, builds_a_page)) as (folder, _):
        name = await folder.write("Serve a page, note-01.txt.")
        await settled(folder, name)
        assert processes_in(folder.workspace) == []
        assert (await folder.facts("status"))["background"] == []

    results = of_kind(folder.records(name), r.ToolCallCompleted)
    answers = [record.content for record in results if record.tool == "shell"]
    assert ["answered: made" in answers[0], "answered: tried" in answers[-1]] == [True, True]
    stops = [record for record in results if record.tool == "shell_stop"]
    assert all("was stopped, with everything it had started." in record.content for record in stops)
    assert (stops[0].touched, stops[-1].touched) == (("page.txt",), ()), "who verifies has written into its view"
    assert (folder.workspace / "page.txt").read_text() == "made\n"
