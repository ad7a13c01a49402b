"""Loads the pictures of users' messages: bounded in number, size and time, and never from private addresses."""

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx2

from tenex.core.text.foreign import plain
from tenex.log import get_logger
from tenex.nostr.addresses import PrivateAddress
from tenex.nostr.public_web import asked, body_of
from tenex.store.pictures import MOST_BYTES, PictureFolder, media_type

log = get_logger(__name__)

TIMEOUT: Final = 5.0
"""Seconds for all pictures of a message: it waits for them, and what comes after it in the conversation."""
AT_ONCE: Final = 4
"""Pictures of all messages that are loaded at the same time."""


class PictureLoader:
    """`Pictures` over the web."""

    def __init__(self, folder: PictureFolder) -> None:
        self._folder = folder
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def load(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Load those that are not there; why each of the others could not be. Never raises."""
        faults = await asyncio.gather(*(self._load(address) for address in addresses))
        return tuple(fault for fault in faults if fault)

    async def _load(self, address: str) -> str:
        host = "its host"
        try:
            host = urlsplit(address).hostname or host
            async with asyncio.timeout(TIMEOUT), self._turns:
                if await asyncio.to_thread(self._folder.has, address):
                    return ""
                data = await _fetched(address, host)
                await asyncio.to_thread(self._folder.write, address, data)
        except TimeoutError:
            return f"{host} has not given it within {TIMEOUT:g} s"
        except PrivateAddress:
            return f"{host} is not at a public address"
        except ValueError as fault:
            return str(fault)
        except Exception as error:  # noqa: BLE001  anyone writes addresses, and the message is needed without pictures
            log.info("picture.not_loaded", host=plain(host), fault=type(error).__name__)
            return f"{host} does not answer, or it cannot be kept"
        return ""


async def _fetched(address: str, host: str) -> bytes:
    """The bytes of a picture.

    Raises:
        ValueError: why it is none.
    """
    async with asked(address, "image/png,image/jpeg,image/webp,image/gif") as response:
        if response.status_code != httpx2.codes.OK:
            raise ValueError(f"{host} answers HTTP {response.status_code}")
        body = await body_of(response, MOST_BYTES)
    if body is None:
        raise ValueError(f"it has more than {MOST_BYTES / 1024 / 1024:.2f} MB")
    if not media_type(body):
        raise ValueError("it is no PNG, JPEG, GIF or WebP")
    return body
