"""Voice notes: transcribed by a server on loopback, or by a program in the sandbox, in bounded time and size."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.configuration.transcription import Transcription, transcription_of
from tenex.core.errors import ConfigurationError
from tenex.features.received_files import transcription
from tenex.features.received_files.transcription import NotTranscribed, transcribe
from tenex.settings import load, resolve_paths
from tenex.tools.sandbox import RunPolicy
from tests.kits.connections import ends_with_its_test
from tests.kits.transcription_server import TranscriptionServer, transcription_server
from tests.programs import needs_bubblewrap

VOICE = b"OggS of a voice"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    (folder / "note.ogg").write_bytes(VOICE)
    return folder / "note.ogg"


def by(server: TranscriptionServer) -> Transcription:
    return Transcription(server=server.url, model="whisper-1", api_key="k3y")


async def failed(note: Path, who: Transcription, policy: RunPolicy = RunPolicy.SANDBOXED) -> str:
    with pytest.raises(NotTranscribed) as fault:
        await transcribe(note, "audio/ogg", who, policy)
    return str(fault.value)


# ---- by a server


async def test_a_server_gets_the_file_and_the_model_as_openai_has_it(note: Path) -> None:
    async with transcription_server({"text": " Pay the rent. "}) as server:
        assert await transcribe(note, "audio/ogg", by(server), RunPolicy.OFF) == "Pay the rent."
    (head, body) = server.asked[0]
    assert head.startswith("POST /v1/audio/transcriptions HTTP/1.1")
    assert "authorization: bearer k3y" in head.lower()
    assert VOICE in body
    assert b'name="model"\r\n\r\nwhisper-1' in body
    assert b'filename="note.ogg"' in body


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ({"text": " "}, 200, "no words were found in it"),
        ({"text": 5}, 200, "its server gives no answer that can be read"),
        (["text"], 200, "its server gives no answer that can be read"),
        ({}, 401, "its server answers HTTP 401"),
        ({"text": "x" * 2_000_000}, 200, "its server gives no answer that can be read"),
    ],
    ids=["no words", "a number", "a list", "refused", "too large"],
)
async def test_an_answer_that_is_none_is_said(note: Path, answer: Any, status: int, why: str) -> None:
    async with transcription_server(answer, status) as server:
        assert await failed(note, by(server)) == why


async def test_a_long_transcript_is_cut(note: Path) -> None:
    async with transcription_server({"text": "word " * 10_000}) as server:
        text = await transcribe(note, "audio/ogg", by(server), RunPolicy.OFF)
    assert len(text) == transcription.MOST_CHARACTERS + len(" […]")


async def test_a_server_that_is_away_or_silent_is_not_waited_for(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await failed(note, Transcription(server="http://127.0.0.1:1/v1", model="m")) == "its server does not answer"
    monkeypatch.setattr(transcription, "TIMEOUT", 0.05)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with await asyncio.start_server(ends_with_its_test(silent), "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        why = await failed(note, Transcription(server=f"http://127.0.0.1:{port}/v1", model="m"))
    assert why == "that took more than 0.05 s"


# ---- by a program


@needs_bubblewrap
async def test_a_program_reads_the_file_in_the_sandbox_and_what_it_says_of_itself_is_left_out(
    note: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.bin"
    model.write_text("model")
    script = "cat $0; echo; cat $1; echo loading >&2; echo x > $0 || echo ' read-only'"
    command = ("sh", "-c", script, "{file}", str(model))
    text = await transcribe(note, "audio/ogg", Transcription(command=command), RunPolicy.SANDBOXED)
    assert text == f"{VOICE.decode()}\nmodel read-only"
    assert note.read_bytes() == VOICE


@needs_bubblewrap
async def test_a_program_that_fails_or_is_not_there_is_said(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = await failed(note, Transcription(command=("no-such-whisper", "{file}")))
    assert missing == "there is no program no-such-whisper"
    ended = await failed(note, Transcription(command=("sh", "-c", "exit 3", "{file}")))
    assert ended == "its program ended with exit status 3"
    monkeypatch.setattr(transcription, "TIMEOUT", 0.5)
    slow = await failed(note, Transcription(command=("sleep", "100", "{file}")))
    assert slow in ("that took more than 0.5 s", "its program was stopped", "its program ended with exit status 1")


async def test_without_a_sandbox_a_program_runs_only_where_the_operator_has_set_that(note: Path) -> None:
    command = Transcription(command=("cat", "{file}"))
    assert await failed(note, command, RunPolicy.OFF) == "its program needs a sandbox, and there is none here"
    assert await transcribe(note, "audio/ogg", command, RunPolicy.UNSANDBOXED) == VOICE.decode()


# ---- the setting


def set_to(tmp_path: Path, lines: str) -> Transcription | None:
    (tmp_path / "tenex.toml").write_text(lines)
    settings = load(None, tmp_path, env={})
    return transcription_of(settings, resolve_paths(settings))


def test_the_setting_names_a_model_or_a_command(tmp_path: Path) -> None:
    assert set_to(tmp_path, "") is None
    command = set_to(tmp_path, '[models]\ntranscription = ["whisper-cli", "-f", "{file}"]')
    assert command == Transcription(command=("whisper-cli", "-f", "{file}"))
    near = '[models]\ntranscription = "near:w"\n[models.providers.near]\nkind = "openai"\nbase_url = "http://a:1/v1/"'
    assert set_to(tmp_path, near) == Transcription(server="http://a:1/v1", model="w")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('"whisper"', 'name a model as "<provider>:<model>"'),
        ('["whisper-cli"]', 'add "{file}"'),
        ('"anthropic:w"', 'the kind of the provider anthropic must be "openai"'),
        ('"openai:w"', "the provider openai has no key"),
    ],
)
def test_a_setting_that_cannot_work_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, fault: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError) as error:
        set_to(tmp_path, f"[models]\ntranscription = {value}")
    assert fault in "; ".join(error.value.faults)
