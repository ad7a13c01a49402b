"""What holds for an agent of others, and what cannot be promised, as `tenex agents show` says it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promises:
    """Sentences for people."""

    held: tuple[str, ...]
    not_held: tuple[str, ...]


_CONTAINED = (
    "It runs in the sandbox, with a home folder of its own for each conversation, and changes files only where the "
    "phase permits it."
)
_ALONE = "It has no network."
_SEEN = (
    "A list of all that it does: programs may do more than they report.",
    "A permission for each effect: it asks about calls as its own mode says.",
    "A checkpoint for each of its calls: `/undo` rests on what changed in files between two looks of the daemon.",
    "The same steps again after a restart: what it was doing then is unknown, and it is asked to look.",
)


def promises(models: Sequence[str], hosts: Sequence[str]) -> Promises:
    """What holds for an agent that may use these models, by their full names, and reach these hosts."""
    held = [_CONTAINED]
    not_held = list(_SEEN)
    if models:
        held.append(
            f"It uses {', '.join(models)} through the daemon: the key stays outside of the sandbox, tokens and money "
            "are measured, and the limits of a run hold."
        )
    if hosts:
        held.append(f"Of the network it reaches {', '.join(hosts)}, by TLS through the daemon, and nothing else.")
        not_held.append(
            "What it uses at these hosts: tokens and money there are its own numbers, and no limit but time holds for "
            "them. What it sends there is not seen."
        )
    else:
        held.append(_ALONE)
    return Promises(tuple(held), tuple(not_held))
