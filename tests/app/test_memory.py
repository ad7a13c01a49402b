"""What stays in memory of conversations that have ended."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenex.core.conversation import Conversation
from tenex.core.work.turn import OrchestratorTurn
from tenex.runtime.actor import ConversationActor
from tenex.runtime.reconciler import Reconciler
from tenex.store.view_json import Rendered
from tests.benchmarks.crowd import among_people
from tests.benchmarks.daemon import Instant
from tests.service import person

CONVERSATIONS = 40
OF_A_CONVERSATION = (ConversationActor, Conversation, Reconciler, Rendered, OrchestratorTurn)


@pytest.fixture
def without_collections() -> Iterator[None]:
    """What only a collection of cycles would free stays: a daemon makes full ones rarely."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    """How many objects there are of each kind that belongs to one conversation."""
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, OF_A_CONVERSATION))


@pytest.mark.usefixtures("without_collections")
async def test_nothing_is_held_of_conversations_that_have_left_memory(tmp_path: Path) -> None:
    before = alive()
    async with among_people(tmp_path, Instant()) as (app, crowd):
        coordinator = app.runtime.coordinator
        crowd.begin(CONVERSATIONS, 1)
        await person.until(crowd.done.is_set)
        await person.until(lambda: (alive() - before)["Rendered"])
        assert (alive() - before)["ConversationActor"] == CONVERSATIONS

        def have_left() -> bool:
            coordinator.hand_over()  # as after 30 s without work
            return not list(coordinator) and not alive() - before

        await person.until(have_left)
