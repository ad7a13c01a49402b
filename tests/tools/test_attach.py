"""`attach`: what is sent is what an agent may read, never what the settings or a secret in it forbid."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Role
from tenex.core.errors import FileNotSent
from tenex.core.ids import ConversationId, PublicKey
from tenex.core.port_values import AttachedFile, FileDestination
from tenex.core.ports import ToolResult
from tenex.core.values import replace
from tenex.nostr.keys import SecretKey
from tenex.settings.sections import Files
from tenex.tools.attach import attach_tool
from tenex.tools.inbox import Inboxes
from tenex.tools.sent_files import EXCERPT, MOST_WAITING, SentFiles, described
from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace
from tests.tools.conftest import make_context

THERE = FileDestination(address={"form": "notes"}, person=PublicKey("a" * 64), role=Role.OWNER)
NEVER = Files().never


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


@pytest.mark.parametrize(
    "path",
    [
        *(".env", "app/.env.local", "keys/server.pem", "A.PEM", "Id_rsa", ".ssh/config", "a/.ssh/b", "alias"),
        *(".npmrc", "web/.npmrc", ".pypirc", ".git-credentials", ".aws/credentials", ".yarnrc.yml"),
        *(".cargo/credentials.toml", "a/.cargo/credentials", ".docker/config.json", "b/.m2/settings.xml"),
    ],
)
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


@pytest.mark.parametrize("far", [0, 1_500_000])
@pytest.mark.parametrize("form", ["utf-8", "utf-16", "binary"])
async def test_a_key_is_seen_anywhere_and_in_any_form(workspace: Workspace, far: int, form: str) -> None:
    text = "a line of a log 12345\n" * (far // 22) + f"the key is {SecretKey.generate().nsec}\n"
    data = b"\0\xff" + text.encode() if form == "binary" else text.encode(form)
    (workspace.root / "debug.log").write_bytes(data)
    with pytest.raises(Refusal, match="holds what looks like a secret key"):
        await attach(workspace, Uploads(), "debug.log", most=10_000_000)


@pytest.mark.parametrize("kind", ["", "RSA ", "OPENSSH ", "ENCRYPTED "])
async def test_a_private_key_is_not_sent_whatever_the_file_is_called(workspace: Workspace, kind: str) -> None:
    pem = f"-----BEGIN {kind}PRIVATE KEY-----\n{'MIIEvQIBADANBgkq' * 4}\n-----END {kind}PRIVATE KEY-----\n"
    (workspace.root / "deploy").write_text(pem)
    (workspace.root / "account.json").write_text(json.dumps({"private_key": pem}))
    for name in ("deploy", "account.json"):
        with pytest.raises(Refusal, match="holds what looks like a secret key"):
            await attach(workspace, Uploads(), name)


async def test_a_page_whose_classes_begin_like_keys_is_sent(workspace: Workspace) -> None:
    (workspace.root / "model.html").write_text('<div class="sk-toggleable__content fitted sk-estimator-doc-link">\n')
    assert (await attach(workspace, Uploads(), "model.html")).ok
    for key in ("sk-proj-4fT" + "aB9x" * 12, "sk-ant-api03-" + "Qx_7" * 12, "sk-or-v1-" + "0af3" * 16):
        (workspace.root / "page.html").write_text(f'<div class="sk-toggleable__content" data-key="{key}">\n')
        with pytest.raises(Refusal, match="holds what looks like a secret key"):
            await attach(workspace, Uploads(), "page.html")


async def test_a_text_about_keys_is_sent(workspace: Workspace) -> None:
    about = "A task-force-of-many-people; keys begin with `-----BEGIN PRIVATE KEY-----`, or with nsec1.\n"
    for length in range(65_400, 65_560, 7):  # the end of a piece is anywhere in it
        (workspace.root / "about.md").write_text("x" * length + about)
        assert (await attach(workspace, Uploads(), "about.md")).ok


async def test_a_file_that_a_person_sent_is_said_to_be_in_the_inbox(tmp_path: Path) -> None:
    conversation = make_context().conversation_id
    folder = tmp_path / conversation / "inbox"
    folder.mkdir(parents=True)
    (folder / "scan.bin").write_bytes(b"\0")
    inbox = Inboxes(tmp_path).workspace(conversation, "/inbox/scan.bin")
    assert inbox is not None
    sent = await attach(inbox, Uploads(), "/inbox/scan.bin")
    assert sent.content == "Uploaded: /inbox/scan.bin (1 bytes) goes to the person with your answer."

    lost = await attach(inbox, Uploads("no"), "/inbox/scan.bin")
    place = "It is among the files that were sent in this conversation: scan.bin."
    assert lost.content == f"Not sent: no. The person is informed of it with your answer. {place}"
    assert lost.files[0].instead.endswith(f"could not be sent: no. {place}]")


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
        f"Not sent: {why}. The person is informed of it with your answer. It is in the workspace: chart.bin."
    )
    (file,) = binary.files
    place = "It is in the workspace: chart.bin."
    assert file.instead == f"[A chart (application/octet-stream, 3 bytes) could not be sent: {why}. {place}]"


class Page:
    """Keeps files for the page of a conversation, unless it is not served."""

    def __init__(self) -> None:
        self.is_served = True
        self.kept: dict[str, bytes] = {}

    async def keep(self, conversation: ConversationId, name: str, data: bytes) -> bool:
        assert conversation == make_context().conversation_id
        if self.is_served:
            self.kept[name] = data
        return self.is_served


async def test_where_no_server_takes_it_the_page_of_the_conversation_has_it(workspace: Workspace) -> None:
    page = Page()
    uploads = Uploads("no room")
    tool = attach_tool(lambda _context, _path: workspace, SentFiles(uploads, most=10_000, never=NEVER, keep=page.keep))

    async def attached(path: str) -> tuple[str, str]:
        result = await tool.body({"path": path}, replace(make_context(), destination=THERE))
        return result.content, result.files[0].instead

    (workspace.root / "chart.bin").write_bytes(b"\0\1\2")
    (workspace.root / "long.txt").write_text("a" * 5_000)
    (workspace.root / "short.txt").write_text("short")
    place = "t can be loaded from the page of this conversation (`tenex web`)"
    said, instead = await attached("chart.bin")
    assert said.startswith(f"Not sent: no room; i{place}. The person is informed of it")
    assert instead == f"[chart.bin (application/octet-stream, 3 bytes) could not be sent: no room. I{place}.]"
    assert (await attached("long.txt"))[1].endswith(f"[The rest was not sent: no room. I{place}.]")
    assert (await attached("short.txt"))[1] == "short.txt:\n\n```\nshort\n```"
    assert page.kept == {"chart.bin": b"\0\1\2", "long.txt": b"a" * 5_000}, "a short text is in the message"

    page.is_served = False
    assert (await attached("chart.bin"))[1].endswith("could not be sent: no room. It is in the workspace: chart.bin.]")
    uploads.fault = ""
    page.is_served = True
    page.kept.clear()
    await attached("chart.bin")
    assert page.kept == {}, "a server has it"


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
