"""Messages to users, with the tags that every threading scheme carries (docs/protocol.md, "Tags on every message")."""

from itertools import pairwise

from tenex.core.config import Agent
from tenex.core.ids import CallId, EventId, PublicKey
from tenex.core.kind import kind_of_conversation
from tenex.core.messages import Usage
from tenex.core.port_values import AttachedFile, Buttons
from tenex.core.transaction import Transaction
from tenex.core.work.run import Run

from .files import WITHOUT_FILES, taken_along, words_with_files
from .notifications import Audience, audience
from .records import Ask, MessageSent, Purpose


def notify(
    transaction: Transaction,
    text: str,
    purpose: Purpose = "notice",
    *,
    error: str = "",
    tags: tuple[tuple[str, ...], ...] = (),
    asks: Ask = "",
    agent: Agent | None = None,
    notifies: tuple[PublicKey, ...] | None = None,
    files: tuple[AttachedFile, ...] = (),
    buttons: Buttons | None = None,
) -> MessageSent:
    """Send a message of the conversation itself: signed by its kind, else by `agent` or the project.

    With `notifies` it notifies these people, whatever they have said and whatever the hour. `files` go with it.
    """
    sender = kind_of_conversation(transaction.state).sender(transaction.state) or agent or transaction.policy.project
    with_error = (("error", error), *tags) if error else tags
    return _send(
        transaction,
        sender,
        text,
        purpose,
        with_error,
        asks=asks,
        notifies=notifies,
        files=files,
        buttons=buttons,
    )


def repeat(transaction: Transaction, agent: Agent, text: str, in_place_of: EventId) -> MessageSent:
    """Send by another key what relays refused to take: `in_place_of` is the event that a reply to it is meant for."""
    return _send(transaction, agent, text, "notice", (), in_place_of=in_place_of)


def send_as_agent(
    transaction: Transaction,
    run: Run,
    text: str,
    purpose: Purpose,
    *,
    call: CallId | None = None,
    completed: bool = False,
    asks: Ask = "",
    is_published: bool = True,
    extra_tags: tuple[tuple[str, ...], ...] = (),
    buttons: Buttons | None = None,
) -> MessageSent:
    """Send a message of an agent, signed with its own key, or only record it."""
    agent = Agent(slug=run.agent, name=run.name, pubkey=run.pubkey)
    tags: tuple[tuple[str, ...], ...] = ()
    if purpose == "completion":
        tags = (("status", "completed"), *((("tool", "complete"),) if completed else ()))
    elif purpose == "error":
        tags = (("error", "agent"),)
    return _send(
        transaction,
        agent,
        text,
        purpose,
        (*tags, *extra_tags, *_usage_tags(run.model, run.usage)),
        run=run,
        call=call,
        asks=asks,
        is_published=is_published,
        buttons=buttons,
    )


def _send(
    transaction: Transaction,
    author: Agent,
    text: str,
    purpose: Purpose,
    tags: tuple[tuple[str, ...], ...],
    *,
    run: Run | None = None,
    call: CallId | None = None,
    asks: Ask = "",
    is_published: bool = True,
    notifies: tuple[PublicKey, ...] | None = None,
    files: tuple[AttachedFile, ...] = (),
    buttons: Buttons | None = None,
    in_place_of: EventId | None = None,
) -> MessageSent:
    state = transaction.state
    if notifies is None:
        whom = audience(transaction, purpose, text, tags, is_published=is_published)
    else:
        whom = Audience(is_published=is_published, notifies=notifies)
    left = next((kind.unannounced_phases for kind in state.kinds.values() if kind.unannounced_phases), ())
    came_from = left[-1] if left and whom.is_published else None
    sender = kind_of_conversation(state).sender(state)
    phase_tags: tuple[tuple[str, ...], ...] = (("phase", str(state.cycle.phase)),) if state.has_phases else ()
    if sender is not None:
        phase_tags = (("workflow", str(sender.slug)),)
    elif came_from is not None:
        earlier = [("phase-transition", str(from_), str(to)) for from_, to in pairwise(left)]
        last = [("phase-from", str(came_from)), ("new-phase", str(state.cycle.phase))]
        phase_tags = (*phase_tags, *earlier, *last)
    if whom.is_published and purpose not in WITHOUT_FILES:
        files = (*taken_along(state, run.id if run is not None else None), *files)
        text = words_with_files(text, files, state.identity.address)
    return transaction.add(
        MessageSent,
        speaker=author.pubkey,
        name=author.name,
        text=text,
        purpose=purpose,
        phase=state.cycle.phase,
        phase_from=came_from,
        run=run.id if run and call else None,
        call=call,
        tags=(*phase_tags, *tags),
        asks=asks,
        is_published=whom.is_published,
        notifies=whom.notifies,
        silent=whom.silent,
        missed_by=whom.missed_by,
        missed_until=whom.missed_until,
        files=files,
        buttons=buttons,
        in_place_of=in_place_of,
    )


def _usage_tags(model: str, usage: Usage) -> tuple[tuple[str, ...], ...]:
    if not usage.calls:
        return ()
    total = usage.input_tokens + usage.output_tokens
    tags = [
        ("llm-model", model),
        ("llm-prompt-tokens", str(usage.input_tokens)),
        ("llm-completion-tokens", str(usage.output_tokens)),
        ("llm-total-tokens", str(total)),
    ]
    if usage.cost_usd is not None:
        # no exponent, no trailing zeros: clients show the text as it is
        tags.append(("llm-cost-usd", f"{usage.cost_usd:.8f}".rstrip("0").rstrip(".")))
    return tuple(tags)


def as_sentence(text: str) -> str:
    """The text with a full stop, so that another sentence can follow."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
