"""The real store on virtual time: work is done on the loop after a wait, and writes may break off as the dice state."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import ParamSpec, TypeVar

from tenex.store.disk import Disk
from tenex.store.file_writer import FileWriter

P = ParamSpec("P")
T = TypeVar("T")


class VirtualDisk(Disk):
    def __init__(self, dice: Random) -> None:
        super().__init__(write=self._take, sync=self._flush_out)
        self.dice = dice
        self.trouble = 0.0
        """How often a write or a flush fails."""
        self.slow = 0.0
        """How often it takes half a minute."""
        self.failed = 0
        self._short = False

    async def run(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Do work on the loop; a process that dies meanwhile may have written any part of what it was writing."""
        try:
            if self.trouble and self.dice.random() < self.trouble:  # what has started early ends before the write fails
                await asyncio.sleep(self.dice.choice([0.1, 5.0]))
            await asyncio.sleep(30.0 if self.dice.random() < self.slow else self.dice.uniform(0.0001, 0.003))
        except asyncio.CancelledError:
            owner = getattr(work, "__self__", None)
            if isinstance(owner, FileWriter) and arguments and isinstance(arguments[0], bytes):
                self._break_off(owner.path, arguments[0])
            raise
        return work(*arguments, **keywords)

    async def change(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """As `run`, which sees then what is written: no folder is moved here."""
        return await self.run(work, *arguments, **keywords)

    def _break_off(self, path: Path, data: bytes) -> None:
        """Leave on disk what a process that dies in a write leaves: nothing, a part, or all of it."""
        dice = Random(data)  # tasks die in an order that is not the seed's: each has dice of its own
        kept = dice.choice([0, dice.randint(0, len(data)), len(data)])
        if kept:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data[:kept])

    def _take(self, descriptor: int, data: memoryview) -> int:
        if self._short:
            self._short = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.dice.random() < self.trouble:
            self.failed += 1
            self._short = self.dice.random() < 0.7
            if not self._short:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return os.write(descriptor, data[: self.dice.randint(1, max(1, len(data) - 1))])
        return os.write(descriptor, data)

    def _flush_out(self, _descriptor: int) -> None:
        """Flushing for real would prove nothing here and cost most of the time."""
        if self.dice.random() < self.trouble:
            self.failed += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
