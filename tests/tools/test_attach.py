"""`attach`: what is sent is what an agent may read, never what the settings or a secret in it forbid."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Role
from tenex.core.errors import FileNotSent
from tenex.core.ids import PublicKey
from tenex.core.port_values import AttachedFile, FileDestination
from tenex.core.ports import ToolResult
from tenex.core.values import replace
from tenex.nostr.keys import SecretKey
from tenex.tools.attach import attach_tool
from tenex.tools.sent_files import EXCERPT, MOST_WAITING, SentFiles, described
from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace
from tests.tools.conftest import make_context

THERE = FileDestination(address={"form": "notes"}, person=PublicKey("a" * 64), role=Role.OWNER)
NEVER = (".env", ".env.*", "*.pem", "id_*", ".ssh")


class Uploads:
    """A sender that keeps what it is given, or refuses it."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.sent: list[dict[str, Any]] = []

    async def send(self, data: bytes, **more: Any) -> AttachedFile:
        if self.fault:
            raise FileNotSent(self.fault)
        self.sent.append({"data": data, **more})
        name, media_type = more["name"], more["media_type"]
        return AttachedFile(name=name, media_type=media_type, size=len(data), url=f"https://b.example/{name}")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace").mkdir()
    return Workspace(tmp_path / "workspace")


async def attach(
    workspace: Workspace, uploads: Uploads | None, path: str, *, most: int = 1_000_000, where: FileDestination = THERE
) -> ToolResult:
    tool = attach_tool(lambda _context, _path: workspace, SentFiles(uploads, most=most, never=NEVER))
    context = replace(make_context(), destination=where)
    return await tool.body({"path": path, "caption": "  A \n chart "}, context)


async def test_a_file_is_uploaded_with_its_name_type_and_size(workspace: Workspace) -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    (workspace.root / "plots").mkdir()
    (workspace.root / "plots" / "chart.png").write_bytes(png)
    uploads = Uploads()
    result = await attach(workspace, uploads, "plots/chart.png")
    assert result.content == "Uploaded: plots/chart.png (24 bytes) goes to the person with your answer."
    (sent,) = uploads.sent
    assert (sent["data"], sent["name"], sent["media_type"]) == (png, "chart.png", "image/png")
    assert sent["destination"] == THERE
    assert sent["unique"] == make_context().idempotency_key
    (file,) = result.files
    assert (file.url, file.caption, file.dim) == ("https://b.example/chart.png", "A chart", "640x480")
    assert result.read == {}, "the agent has not seen what is in it"


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link.txt", "missing.txt", ".git/config", "folder"])
async def test_what_an_agent_may_not_read_it_may_not_send(workspace: Workspace, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (workspace.root / "folder").mkdir()
    (workspace.root / ".git").mkdir()
    (workspace.root / ".git" / "config").write_text("[core]\n")
    (workspace.root / "link.txt").symlink_to(tmp_path / "secret.txt")
    uploads = Uploads()
    with pytest.raises(Refusal):
        await attach(workspace, uploads, path)
    assert uploads.sent == []


@pytest.mark.parametrize("path", [".env", "app/.env.local", "keys/server.pem", ".ssh/config", "a/.ssh/known", "alias"])
async def test_what_the_settings_list_is_never_sent_also_by_a_link(workspace: Workspace, path: str) -> None:
    place = workspace.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if path == "alias":
        (workspace.root / ".env").write_text("TOKEN=1")
        place.symlink_to(workspace.root / ".env")
    else:
        place.write_text("TOKEN=1")
    with pytest.raises(Refusal, match=r"is never sent: `.+` is listed in `files\.never` of the settings\."):
        await attach(workspace, Uploads(), path)


async def test_a_text_with_a_secret_key_is_not_sent(workspace: Workspace) -> None:
    (workspace.root / "notes.txt").write_text(f"the key is {SecretKey.generate().nsec}\n")
    with pytest.raises(Refusal, match=r"notes\.txt is not sent: it holds what looks like a secret key"):
        await attach(workspace, Uploads(), "notes.txt")


async def test_too_large_and_too_many_are_refused(workspace: Workspace) -> None:
    (workspace.root / "big.bin").write_bytes(b"\0" * 2_000)
    with pytest.raises(Refusal, match=r"big\.bin"):
        await attach(workspace, Uploads(), "big.bin", most=1_000)
    full = replace(THERE, waiting=MOST_WAITING)
    with pytest.raises(Refusal, match="10 files go with your answer already"):
        await attach(workspace, Uploads(), "big.bin", where=full)


@pytest.mark.parametrize("uploads", [Uploads("b.example answers HTTP 413"), None])
async def test_where_no_server_takes_it_text_goes_into_the_message(
    workspace: Workspace, uploads: Uploads | None
) -> None:
    why = uploads.fault if uploads is not None else "this program uploads no files"
    (workspace.root / "short.md").write_text("# Short\n")
    short = await attach(workspace, uploads, "short.md")
    assert short.ok
    assert short.content == f"Not sent as a file ({why}). Its text goes to the person with your answer."
    assert [file.instead for file in short.files] == ["A chart:\n\n# Short"]

    (workspace.root / "long.md").write_text("é" * EXCERPT)
    long = await attach(workspace, uploads, "long.md")
    assert long.ok
    assert "Only its first 4 kB of 8 kB go with your answer" in long.content
    (file,) = long.files
    begin = "é" * (EXCERPT // 2)
    head = f"A chart, the first 4 kB of 8 kB:\n\n{begin}\n\n"
    assert file.instead == f"{head}[The rest was not sent: {why}. It is in the workspace: long.md.]"

    (workspace.root / "run.py").write_text('"""```"""\nprint(*words)\n')
    code = await attach(workspace, uploads, "run.py")
    block = '````\n"""```"""\nprint(*words)\n````'
    assert [file.instead for file in code.files] == [f"A chart:\n\n{block}"], "clients change nothing in it"

    (workspace.root / "chart.bin").write_bytes(b"\0\1\2")
    binary = await attach(workspace, uploads, "chart.bin")
    assert not binary.ok
    assert binary.content == (
        f"Not sent: {why}. The person is told with your answer that chart.bin is in the workspace."
    )
    (file,) = binary.files
    place = "It is in the workspace: chart.bin."
    assert file.instead == f"[A chart (application/octet-stream, 3 bytes) could not be sent: {why}. {place}]"


@pytest.mark.parametrize(
    ("name", "data", "media_type", "dim"),
    [
        ("a.md", b"# A", "text/markdown", ""),
        ("Makefile", b"all:\n", "text/plain", ""),
        ("data", b"\0\1", "application/octet-stream", ""),
        ("a.gif", b"GIF89a\x02\x00\x03\x00", "image/gif", "2x3"),
        ("a.png", b"\x89PNG\r\n\x1a\n short", "image/png", ""),
    ],
)
def test_what_a_file_is(name: str, data: bytes, media_type: str, dim: str) -> None:
    file = described(name, data)
    assert (file.media_type, file.dim) == (media_type, dim)
