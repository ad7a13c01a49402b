"""Has the running daemon carry out a command, or carries it out here where none runs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tenex.core.errors import TenexError

if TYPE_CHECKING:
    from tenex.settings import ProjectPaths

ALIVE: Final = 10.0
"""Seconds for a first answer: a healthy daemon needs a few ms."""


async def ask_or_run(
    where: "ProjectPaths",
    word: str,
    arguments: Mapping[str, Any],
    run: Callable[[], Awaitable[Any]],
    *,
    patience: float,
    check: str,
) -> tuple[Any, bool]:
    """Return the result, and whether a daemon gave it; without one `run` is called while the folder is locked.

    `patience` is in seconds; `check` is the command that shows whether a request without an answer was carried out.

    Raises:
        StoreLocked: a daemon runs, and does not listen.
        TenexError: the daemon refused, or does not answer.
    """
    from tenex.operations.daemon_start import ask_when_started
    from tenex.service.client import NOT_LISTENING, ask, unanswered
    from tenex.store.lock import FolderLock

    async def ask_the_daemon() -> Any:
        # first a question without effect: a stopped process would carry out a request whenever it continues
        try:
            await ask_when_started(where.socket, where.conversations, "status", patience=ALIVE)
        except ConnectionResetError:  # it has just ended, and nothing was asked of it; another may have begun
            await ask_when_started(where.socket, where.conversations, "status", patience=ALIVE)
        except TimeoutError as error:
            raise TenexError(
                f"The daemon at {where.socket} gave no answer within {ALIVE:g} s. Nothing was done. See `tenex status`."
            ) from error
        return await ask(where.socket, word, patience=patience, **arguments)

    try:
        return await ask_the_daemon(), True
    except NOT_LISTENING:
        with FolderLock(where.conversations):
            return await run(), False
    except OSError as error:
        raise TenexError(unanswered(where.socket, error, patience, f"with `{check}`")) from error
