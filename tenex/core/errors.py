"""Every error we raise on purpose, in one tree; its branches are who can fix it.

TenexError
├── InternalError            we can: the program contradicts itself            exit 1
├── OperatorError            the operator can
│   ├── UsageError           a command was given wrongly                       exit 2
│   ├── ConfigurationError   settings, keys, agents or prompts are wrong       exit 3
│   └── StoreError           the folder is locked or damaged                   exit 4
│       ├── StoreLocked
│       └── StoreDamaged
│           └── StoreOtherVersion   it is whole, and another version of the program wrote it
├── WorkflowError            the author of the workflow can                    exit 1
│   ├── StepFailed           a durable step of a node failed
│   ├── MissionFailed        a mission ended without a result
│   ├── SerializationError   a value does not match its type and cannot be journaled
│   └── DeserializationError what is journaled is no value of the type it is read as
├── RemoteError              a stranger's software can; we only refuse         exit 1
│   ├── InvalidEvent
│   └── ModelRefused         its answer is of no use: refused, filtered, not to be read
└── TransientError           no one needs to: it may pass                      exit 1, retryable
    ├── AppendFailed         the store did not take a record, or may have
    │   ├── AppendConflict   another writer has appended: nothing was stored
    │   ├── HeldElsewhere    another worker writes the conversation now
    │   ├── DatabaseFailed   it was the database that did not take it
    │   └── FolderMoved      the data folder is not where this process has locked it
    ├── RelayUnavailable
    └── ModelUnavailable
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from tenex.core.messages import NO_USAGE, Usage


def words_of(error: BaseException) -> str:
    """An error's text; "" where it has none or `__str__` fails: its class may be user code."""
    try:
        return str(error).strip()
    except Exception:  # noqa: BLE001 - the handling of a failure must not fail of it
        return ""


def kind_of(value: object) -> str:
    """What a value is, for a sentence about it: `the class dict`, `None`, `an int`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


class TenexError(Exception):
    """Anything this program refuses to do, with a sentence on what to do about it."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class InternalError(TenexError):
    """The program contradicts itself; no one outside can fix it."""


class OperatorError(TenexError):
    """The operator can fix it."""

    exit_code = 2


class UsageError(OperatorError):
    """A command was given wrongly."""


class ConfigurationError(OperatorError):
    """Settings, keys, agents or prompts are wrong; holds every fault found, not just the first."""

    exit_code = 3

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class UntrustedFolder(ConfigurationError):
    """The current folder holds settings that the user has not trusted, or that have changed since."""


class StoreError(OperatorError):
    """The conversations' folder cannot be used as it is."""

    exit_code = 4


class StoreLocked(StoreError):
    """Another process holds the folder."""


class StoreDamaged(StoreError):
    """A file holds something we did not write."""


class StoreOtherVersion(StoreDamaged):
    """A file is whole, but holds what another version of the program wrote: it is read by that one, and left alone."""


class WorkflowError(TenexError):
    """A workflow does what it may not, or reports that it could not be done."""


class StepFailed(WorkflowError):
    """A durable step of a node failed, now or before the process started again: the same error both times.

    `kind` is the name of the exception's class, `may_pass` whether another try may help, `is_unknown` whether no one
    knows what the step did: check before repeating it. `needs_operator`: as of `ModelUnavailable`.
    """

    def __init__(
        self,
        step: str,
        kind: str,
        message: str,
        *,
        may_pass: bool = False,
        is_unknown: bool = False,
        needs_operator: bool = False,
    ) -> None:
        self.step = step
        self.kind = kind
        self.message = message
        self.may_pass = may_pass
        self.is_unknown = is_unknown
        self.needs_operator = needs_operator
        super().__init__(f"step {step}: {message}" if is_unknown else f"step {step}: {kind}: {message}")


class MissionFailed(WorkflowError):
    """A mission has no result: it failed, was stopped, or is paused."""


class SerializationError(WorkflowError):
    """A value does not match its type and cannot be journaled; the message states what to do."""


class DeserializationError(WorkflowError):
    """What a journal holds is no value of the type it is read as: the type has changed since."""


class RemoteError(TenexError):
    """Someone sent what their software should not have sent."""


class InvalidEvent(RemoteError):
    """An event breaks NIP-01: its shape, its id or its signature."""


class ModelRefused(RemoteError):
    """A model answered, and the answer is of no use; asking the same again is no help.

    `usage` is what the answer cost all the same, `model` gave it, `queued` are the seconds waited for its turn.
    """

    def __init__(self, message: str, usage: Usage = NO_USAGE, *, model: str = "", queued: float = 0.0) -> None:
        self.usage = usage
        self.model = model
        self.queued = queued
        super().__init__(message)


class TransientError(TenexError):
    """A fault of the world that may pass by itself."""

    retryable = True


class AppendFailed(TransientError):
    """The store did not take a record, or may have; the conversation is suspended until its journal is read again."""


class AppendConflict(AppendFailed):
    """Another writer has appended since the journal was read; nothing of this append is stored."""


class HeldElsewhere(AppendFailed):
    """Another worker writes the conversation now: it cannot be opened here, or was taken over and must be let go."""


class DatabaseFailed(AppendFailed):
    """The database did not take a record, or may have."""


class FolderMoved(AppendFailed):
    """The data folder was moved, replaced or removed while this process has it: nothing is written at its old place."""


class RelayUnavailable(TransientError):
    """A relay did not answer in time, or is not there."""


class FileNotSent(TransientError):
    """No server has taken a file for a person."""


class ModelUnavailable(TransientError):
    """A model's server did not answer, or asked us to wait.

    `retry_after` is in seconds, where the server sent it; `usage` is what was billed nevertheless, by `model`; `queued`
    are the seconds waited for its turn. `needs_operator`: no try succeeds before somebody has acted, as with a wrong
    key. `refused_key`: the key is wrong for all models of the provider, or for this model alone. `nothing_done`: it was
    the first call of what failed, which therefore has had no effect.
    """

    nothing_done = False

    def __init__(
        self,
        message: str,
        retry_after: float | None = None,
        usage: Usage = NO_USAGE,
        *,
        model: str = "",
        queued: float = 0.0,
        needs_operator: bool = False,
        refused_key: Literal["", "provider", "model"] = "",
    ) -> None:
        self.retry_after = retry_after
        self.needs_operator = needs_operator
        self.refused_key = refused_key
        self.usage = usage
        self.model = model
        self.queued = queued
        super().__init__(message)
