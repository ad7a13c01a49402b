"""Agents elsewhere are answered a bounded number of times until a person writes, and that is said once."""

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import fold
from tenex.core.ids import PublicKey
from tenex.core.inbox.claims import MACHINES
from tests.fakes.scenario import ID, WAITS, Router, Scenario, plain_model

OTHER = PublicKey("d" * 64)
SAID = "Agents have written here"


def machine_writes(scenario: Scenario, text: str = "and you?") -> list[r.Record]:
    """An agent of another daemon writes, and what follows is done."""
    records = scenario.user_writes(text, author=OTHER, name="other", role=Role.GUEST, by_machine=True)
    scenario.settle()
    return records


def begun() -> Scenario:
    """A conversation that a person has begun."""
    scenario = Scenario(Router(WAITS), plain_model)
    scenario.user_writes("talk to the other agent")
    scenario.settle()
    return scenario


def notices(scenario: Scenario) -> list[r.MessageSent]:
    return [sent for sent in scenario.records(r.MessageSent) if sent.text.startswith(SAID)]


def test_agents_elsewhere_are_answered_so_many_times_and_the_last_time_says_so() -> None:
    scenario = begun()
    for number in range(1, MACHINES + 1):
        assert machine_writes(scenario), number
        assert len(notices(scenario)) == (number == MACHINES)
    assert machine_writes(scenario) == []
    assert machine_writes(scenario) == []
    assert len(notices(scenario)) == 1
    assert sum(record.by_machine for record in scenario.records(r.MessageRecorded)) == MACHINES


def test_a_person_who_writes_begins_the_count_again() -> None:
    scenario = begun()
    for _ in range(MACHINES + 3):
        machine_writes(scenario)
    scenario.user_writes("go on")
    scenario.settle()
    assert all(machine_writes(scenario) for _ in range(MACHINES))
    assert machine_writes(scenario) == []
    assert len(notices(scenario)) == 2


def test_the_count_is_that_of_the_journal_so_a_restart_does_not_begin_it_again() -> None:
    scenario = begun()
    for _ in range(MACHINES):
        machine_writes(scenario)
    assert fold(ID, scenario.records()).identity.by_machines == MACHINES
