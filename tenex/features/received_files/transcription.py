"""Has voice notes transcribed: by a server that has the protocol of OpenAI, or by a program in the sandbox."""

import asyncio
import json
from pathlib import Path
from typing import Final

import httpx2

from tenex.configuration.transcription import Transcription
from tenex.log import get_logger
from tenex.nostr.public_web import body_of
from tenex.settings.sections import FILE_WORD
from tenex.tools import process, sandbox
from tenex.tools.daemon_programs import find_program
from tenex.tools.project_environment import SYSTEM
from tenex.tools.sandbox import RunPolicy

log = get_logger(__name__)

TIMEOUT: Final = 60.0
"""Seconds for a voice note and those before it: its message waits for that, and what comes after it."""
MOST_ANSWER: Final = 1_000_000
"""Bytes that a server may answer."""
MOST_CHARACTERS: Final = 20_000
"""Of a transcript: an hour of speech has more than twice that, and a message is read whole."""
LIMITS: Final = process.ProcessLimits(file=0, address_space=0, data=8 * 1024**3)
"""A model of a few GB is read into memory."""

_QUIET: Final = ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh")
"""Runs a command without what it says of itself: its words are all that it writes to its output."""


class NotTranscribed(Exception):
    """Why there is no transcript."""


async def transcribe(file: Path, media_type: str, by: Transcription, policy: RunPolicy) -> str:
    """What is said in a file.

    Args:
        file: the file.
        media_type: its type.
        by: what transcribes it.
        policy: how programs run.

    Raises:
        NotTranscribed: in words for whom reads the message.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            if by.command:
                text = await _by_program(file, by.command, policy)
            else:
                text = await _by_server(file, media_type, by)
    except TimeoutError as error:
        raise NotTranscribed(f"that took more than {TIMEOUT:g} s") from error
    text = text.strip()
    if not text:
        raise NotTranscribed("no words were found in it")
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} […]"


async def _by_server(file: Path, media_type: str, by: Transcription) -> str:
    content = await asyncio.to_thread(file.read_bytes)
    head = {"Authorization": f"Bearer {by.api_key}"} if by.api_key else {}
    form = {"model": by.model, "response_format": "json"}
    files = {"file": (file.name, content, media_type)}
    address = f"{by.server}/audio/transcriptions"
    try:
        async with (
            httpx2.AsyncClient(timeout=None) as client,  # the whole is bounded
            client.stream("POST", address, headers=head, data=form, files=files) as response,
        ):
            if response.status_code != httpx2.codes.OK:
                raise NotTranscribed(f"its server answers HTTP {response.status_code}")
            body = await body_of(response, MOST_ANSWER)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        log.warning("voice.not_transcribed", fault=type(error).__name__)
        raise NotTranscribed("its server does not answer") from error
    try:
        text = json.loads(body or b"")["text"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise NotTranscribed("its server gives no answer that can be read") from error
    if not isinstance(text, str):
        raise NotTranscribed("its server gives no answer that can be read")
    return text


async def _by_program(file: Path, command: tuple[str, ...], policy: RunPolicy) -> str:
    """Run a program that prints the words; in the sandbox it sees the inbox, and what its command names."""
    program = find_program(command[0])
    if program is None:
        raise NotTranscribed(f"there is no program {command[0]}")
    words = [program, *(word.replace(FILE_WORD, str(file)) for word in command[1:])]
    line = [*_QUIET, *words]
    environment = sandbox.clean_environment(sandbox.HOME)
    if policy is RunPolicy.SANDBOXED:
        named = [Path(word) for word in words if word != str(file) and _is_elsewhere(word)]
        line = await asyncio.to_thread(sandbox.wrapped, file.parent, line, environment, folders=named)
    elif policy is RunPolicy.OFF:
        raise NotTranscribed("its program needs a sandbox, and there is none here")
    done = await process.run(
        line,
        cwd=file.parent,
        environment=environment,
        deadline=TIMEOUT,
        most_output=MOST_ANSWER,
        limits=LIMITS,
    )
    if done.status is None:
        raise NotTranscribed("its program was stopped")
    if done.status:
        raise NotTranscribed(f"its program ended with exit status {done.status}")
    return done.output


def _is_elsewhere(word: str) -> bool:
    """Whether a word names a file or folder that the sandbox does not have by itself."""
    path = Path(word)
    return path.is_absolute() and path.exists() and not any(path.is_relative_to(folder) for folder in SYSTEM)
