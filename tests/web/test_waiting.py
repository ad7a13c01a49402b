"""What cannot go on by itself is on the front page, with its cause, what to do, and a button where one does it."""

from pathlib import Path

import pytest

from tenex.core.delivery.records import MessageSent
from tenex.core.effects import ModelCall, Route
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.signals import DayLimitReached
from tenex.core.text.state_words import STATES
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import parse_event
from tenex.nostr.keys import KeyRing
from tenex.operations.listing import STATUSES
from tests.cli.journals import TWO, changed, renamed
from tests.fakes.scenario import Router, Scenario, route, scenario_at
from tests.kits.retries import broken, fire
from tests.kits.web_answers import ADDRESSES
from tests.repository.tree import ROOT
from tests.service.person import stored

from .kit import rewrite, served


def held() -> Scenario:
    """Its model cannot be reached, and users know."""
    return fire(broken("route", times=6), "route", times=5)


def limited() -> Scenario:
    """A limit of the day holds its next model call back."""
    scenario = scenario_at(Phase.CHAT, Router(route("chat", "helper")))
    (call,) = (work for work in pending(scenario.conversation).values() if isinstance(work, ModelCall | Route))
    until = Millis(scenario.now + 3_600_000)
    scenario.handle(DayLimitReached(key=call.key, limit="cost_per_day_usd", sentence="$5 are spent.", until=until))
    return scenario


@pytest.mark.parametrize(
    ("scenario", "status", "cause", "has_button"),
    [(held, "held", "connection refused", True), (limited, "limited", "$5 are spent.", False)],
)
async def test_what_does_not_go_on_is_named_with_its_cause_and_what_to_do(
    data: Path, scenario: object, status: str, cause: str, has_button: bool
) -> None:
    assert callable(scenario)
    await rewrite(data, {TWO: renamed(TWO, scenario().journal)})
    async with served(data) as pages:
        page = await pages.get("/")
        (section,) = page.all("section", aria_label=status)
        assert cause in section.text
        assert STATES[status].remedy.replace("`", "") in section.text
        assert ("Continue now" in section.text) == has_button
        assert [chip.text for chip in page.of_class(f"is-{status}")] == [status]
        assert page.all("span", id="open")[0].text == "1"


async def test_the_button_of_a_remedy_writes_the_command(data: Path) -> None:
    async with embedded_relay() as relay:
        address = {**ADDRESSES["notes"], "relays": [relay]}
        decisions = changed(renamed(TWO, held().journal), ConversationStarted, address=address)
        await rewrite(data, {TWO: changed(decisions, MessageSent, relays=(relay,))})
        async with served(data) as pages:
            fields = await pages.form("/", f"/c/{TWO}/reply/0")
            sent = await pages.post(f"/c/{TWO}/reply/0", {**fields, "text": "/continue"})
            assert sent.headers["location"].startswith(f"{pages.site.base}/?sent=")
        owner = KeyRing(data / "keys").get("owner").public
        (wire,) = await stored(relay, authors=[owner])
        assert parse_event(wire).content == "/continue"


def test_the_glossary_names_each_state_as_the_program_does() -> None:
    rows = [line.split(" | ") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()]
    states = {
        row[0].removeprefix("| "): row[1:] for row in rows if row[0].removeprefix("| ") in STATES and len(row) == 3
    }
    assert states == {name: [text.meaning, f"{text.remedy} |"] for name, text in STATES.items()}
    assert set(STATUSES) == STATES.keys() - {"suspended"}, "a list can be asked for each that is in the files"
