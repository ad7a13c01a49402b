"""Seeds of the simulation: some in every run, as many as one likes with `-m soak` and TENEX_SEEDS=FROM-TO."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tenex.core.phases import Phase

from .models import ONWARD
from .story import simulate

FEW = range(16)
"""In every run: about seven seconds of work."""
FROM, _, TO = os.environ.get("TENEX_SEEDS", "16-1500").partition("-")
MANY = range(int(FROM), int(TO or int(FROM) + 1))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tracebacks of the faults we bring about would fill the screen, and cost most of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


def test_a_simulated_conversation_can_enter_every_phase() -> None:
    assert {"chat"}.union(*ONWARD.values()) == set(Phase)


@pytest.mark.parametrize("seed", FEW)
def test_whatever_fails_nothing_is_lost_and_nothing_is_sent_twice(seed: int, tmp_path: Path) -> None:
    """Every fault a port can have, several conversations, deaths and restarts; at last all comes to rest."""
    simulate(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(MANY.start, MANY.stop, 50))
def test_many_seeds(block: int, tmp_path: Path) -> None:
    """The same, for as many seeds as there is time; all that fail are named."""
    faults = []
    for seed in range(block, min(block + 50, MANY.stop)):
        try:
            simulate(seed, tmp_path / str(seed))
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)
