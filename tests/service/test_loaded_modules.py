"""What a daemon does not use does not stay in its memory: an import that is not needed costs up to 7 MB."""

import sys
from importlib.util import find_spec
from pathlib import Path

from .kit import Folder, running

RUN = """
import atexit, sys
from pathlib import Path
from tenex.main import main
atexit.register(lambda: Path(sys.argv.pop()).write_text("\\n".join(sys.modules)))
sys.exit(main(sys.argv[1:4]))
"""
UNUSED = {
    "rich": "no terminal is written to",
    "pygments": "comes with rich",
    "prompt_toolkit": "no terminal reads input",
    "cryptography": "nothing is encrypted",
    "regex": "no text is cut, and no file searched",
    "xml": "no check has run",
    "tree_sitter": "no command line is judged",
    "tomlkit": "no setting is changed",
    "segno": "no QR code is shown",
    "pydantic_ai": "the offline model answers",
    "openai": "comes with pydantic_ai",
    "mcp": "no server is configured",
    "starlette": "no page is served",
    "uvicorn": "no page is served",
    "psycopg": "conversations are files",
    "opentelemetry": "no spans are wanted",
    "prometheus_client": "no metrics are wanted",
    "tenex.web": "no page is served",
    "tenex.store.postgres": "conversations are files",
    "tenex.features.evaluation.run": "`tenex eval` has it",
    "tenex.operations.doctor.runner": "`tenex doctor` has it",
    "tenex.cli.chat": "`tenex chat` has it",
}


async def test_a_daemon_that_has_answered_a_turn_has_loaded_nothing_it_does_not_use(
    folder: Folder, tmp_path: Path
) -> None:
    listed = tmp_path / "modules"
    words = [sys.executable, "-c", RUN, "run", "--data", str(folder.data), str(listed)]
    async with running(words) as process:
        await process.until("runtime.ready")
        name = await folder.write("Hello")
        await folder.until(name, "waiting")
    assert [name for name in UNUSED if name.startswith("tenex.") and find_spec(name) is None] == []
    loaded = set(listed.read_text().splitlines())
    assert "tenex.runtime.actor" in loaded
    assert loaded & UNUSED.keys() == set()
