"""Typing indicators of a conversation: they follow its state, and no failure of theirs reaches the work."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal

import pytest

from tenex.app import open_application
from tenex.app.typing_indicators import GRACE, PULSE, TypingIndicators, project_status
from tenex.cli.init import prepare
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import PublicKey, Slug
from tenex.core.messages import ModelStep
from tenex.core.pending import pending
from tenex.core.ports import ignore_text
from tenex.nostr.compose import NostrSealer
from tenex.nostr.ephemeral import ProjectStatus
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import load
from tests.fakes.scenario import Scenario, reply, rules
from tests.fakes.virtual import VirtualClock, run

from .test_run_indicator import FakeRelay

NEAR, FAR = "ws://127.0.0.1:7447", "wss://relay.example"
ROOT = "e" * 64
STARTS, STOPS, TEXT, OPERATIONS, STATUS = 24111, 24112, 24135, 24133, 24010
ROUTED = [(STARTS, "The orchestrator is deciding"), (STOPS, "")]
"""What is published while the router is asked, and when it has answered."""
KEYS = {slug: SecretKey(bytes([number]) * 32) for number, slug in enumerate(["orchestrator", *rules().roster], 1)}
RULES = dataclasses.replace(
    rules(),
    roster={slug: dataclasses.replace(agent, pubkey=KEYS[slug].public) for slug, agent in rules().roster.items()},
    project=dataclasses.replace(rules().project, pubkey=KEYS["orchestrator"].public),
)
EXECUTOR, PROJECT = KEYS["executor"].public, KEYS["orchestrator"].public


class Scene:
    """A conversation whose every step a test takes, and a relay that receives its indicators."""

    def __init__(self, worker: Callable[[Conversation, ModelCall], ModelStep], **options: Any) -> None:
        self.scenario = Scenario(
            lambda _: {"agents": ["executor"], "phase": "execute", "reason": "work"}, worker, config=RULES
        )
        self.relay = FakeRelay()
        self.indicators = listening(self.relay, **options)

    def starts(self, address: dict[str, Any] | None = None) -> None:
        """A person writes."""
        self.scenario.user_writes("Write something")
        home = {"form": "notes", "root": ROOT, "root_relay": NEAR, "relays": [NEAR]}
        self.scenario.conversation.address = address or home
        self.appended()

    def appended(self) -> None:
        """The actor has appended."""
        self.indicators.on_records(self.scenario.conversation, [])

    def step(self, kind: type[Any]) -> None:
        """One piece of work of that kind ends."""
        assert self.scenario.step(lambda effects: next(effect for effect in effects if isinstance(effect, kind)))
        self.appended()

    async def routed(self) -> None:
        """The router has named the executor, whose model is wanted."""
        self.starts()
        await asyncio.sleep(1)
        self.scenario.step()
        self.appended()

    @property
    def call(self) -> ModelCall:
        """The model call that is wanted."""
        return next(e for e in pending(self.scenario.conversation).values() if isinstance(e, ModelCall))

    def published(self, *kinds: int) -> list[tuple[int, str]]:
        """What was received of these kinds: who is active for 24133, else the text."""
        return [
            (event.kind, ",".join(tag[1][:4] for tag in event.tags if tag[0] == "p") or event.content)
            for _, event in self.relay.received
            if event.kind in (kinds or (event.kind,))
        ]


def listening(
    relay: FakeRelay, mode: Literal["auto", "on", "off"] = "auto", relays: tuple[str, ...] = (NEAR,)
) -> TypingIndicators:
    keys = {key.public: key for key in KEYS.values()}
    return TypingIndicators(
        relay, keys, NostrSealer(relays), VirtualClock(), speaker=PROJECT, status=status, mode=mode, relays=relays
    )


def status() -> ProjectStatus:
    return ProjectStatus(
        speaker=PROJECT, owners=(PublicKey("a" * 64),), agents=((PROJECT, Slug("orchestrator")),), models={}, tools={}
    )


def asks_once(conversation: Conversation, call: ModelCall) -> ModelStep:
    """Ask, then write, then have done."""
    results = sum(type(entry).__name__ == "CallResult" for entry in call.entries)
    calls: list[tuple[str, dict[str, Any]]] = [("ask", {"question": "Which name?"}), ("write_file", {"path": "f"})]
    return reply("It is done.") if results >= len(calls) else reply("One moment.", calls[results])


def scenario(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(main)


def test_a_run_is_shown_from_its_start_over_a_question_to_its_end() -> None:
    """Typing stops while a person is asked, begins again with their answer, and stops with the run."""
    scene = Scene(asks_once)

    async def main() -> None:
        await scene.routed()
        await asyncio.sleep(1)
        scene.indicators.on_text(scene.scenario.conversation, scene.call)("One mo")
        await asyncio.sleep(1)
        scene.step(ModelCall)
        assert scene.scenario.conversation.is_parked
        await asyncio.sleep(1)
        asked = len(scene.relay.received)
        await asyncio.sleep(60)
        assert len(scene.relay.received) == asked, "nothing is published while it waits for a user"
        scene.scenario.user_writes("greeter.py")
        scene.appended()
        await asyncio.sleep(1)
        scene.step(ModelCall)
        await asyncio.sleep(1)
        scene.scenario.settle()
        scene.appended()
        await asyncio.sleep(1)

    scenario(main)
    assert scene.published(STARTS, STOPS, TEXT) == [
        *ROUTED,
        (STARTS, "Executor is typing"),
        (TEXT, "One mo"),
        (STOPS, ""),
        (STARTS, "Executor is typing"),
        (STARTS, "Executor uses write_file"),
        (STOPS, ""),
    ]


def test_the_active_agents_are_published_when_they_change() -> None:
    """The orchestrator while it decides, then the agent, then none; and then nothing is kept."""
    scene = Scene(lambda *_: reply("It is done."))

    async def main() -> None:
        await scene.routed()
        await asyncio.sleep(1)
        scene.step(ModelCall)
        await asyncio.sleep(1)
        scene.scenario.user_writes("/stop")
        scene.appended()
        await asyncio.sleep(1)
        assert scene.indicators._conversations == {}

    scenario(main)
    assert scene.published(OPERATIONS) == [
        (OPERATIONS, PROJECT[:4]),
        (OPERATIONS, EXECUTOR[:4]),
        (OPERATIONS, PROJECT[:4]),
        (OPERATIONS, ""),
    ]
    people = {tag[1] for _, event in scene.relay.received for tag in event.tags if tag[0] == "P"}
    assert people == {"a" * 64}
    assert {event.pubkey for _, event in scene.relay.received if event.kind == OPERATIONS} == {PROJECT}


def test_a_stop_silences_a_model_that_goes_on_writing() -> None:
    """`/stop` ends the run: later text of its model is not published."""
    scene = Scene(asks_once)

    async def main() -> None:
        await scene.routed()
        on_text = scene.indicators.on_text(scene.scenario.conversation, scene.call)
        on_text("Once")
        await asyncio.sleep(1)
        on_text("Once upon")
        scene.scenario.user_writes("/stop")
        scene.appended()
        on_text("Once upon a time")
        await asyncio.sleep(60)

    scenario(main)
    own = [(STARTS, "Executor is typing"), (TEXT, "Once"), (STOPS, "")]
    assert scene.published(STARTS, STOPS, TEXT) == [*ROUTED, *own]


@pytest.mark.parametrize(
    ("mode", "relays", "is_published"),
    [("auto", (NEAR,), True), ("auto", (FAR,), False), ("on", (FAR,), True), ("off", (NEAR,), False)],
)
def test_the_mode_decides_which_relays_get_indicators(mode: str, relays: tuple[str, ...], is_published: bool) -> None:
    """On this machine by itself, elsewhere where it is set to, and nowhere where it is off."""
    scene = Scene(asks_once, mode=mode, relays=relays)

    async def main() -> None:
        scene.starts({"form": "notes", "root": ROOT, "root_relay": relays[0], "relays": list(relays)})
        scene.scenario.step()
        scene.appended()
        on_text = scene.indicators.on_text(scene.scenario.conversation, scene.call)
        assert (on_text is not ignore_text) is is_published
        await asyncio.sleep(1)

    scenario(main)
    assert bool(scene.relay.received) is is_published


@pytest.mark.parametrize("address", [{"form": "direct", "root": ROOT, "relays": [NEAR]}, {"root": ROOT}, {}])
def test_an_encrypted_conversation_has_no_indicators(address: dict[str, Any]) -> None:
    """Nor what has a form that is unknown here."""
    scene = Scene(asks_once, mode="on")

    async def main() -> None:
        scene.starts(address or {"form": ""})
        scene.scenario.step()
        scene.appended()
        assert scene.indicators.on_text(scene.scenario.conversation, scene.call) is ignore_text
        await asyncio.sleep(1)

    scenario(main)
    assert scene.relay.received == []


def test_an_error_does_not_reach_the_actor() -> None:
    """A state it cannot make sense of, or a sealer that fails: the work goes on, and its text is not published."""
    indicators = listening(FakeRelay())
    nothing: Any = object()
    indicators.on_records(nothing, [])
    assert indicators.on_text(nothing, nothing) is ignore_text


def test_a_reopened_conversation_has_indicators_before_its_first_append() -> None:
    """After a failed append the actor starts what is wanted before anything new is durable."""
    scene = Scene(asks_once)

    async def main() -> None:
        scene.indicators = listening(FakeRelay())
        scene.starts()
        scene.scenario.step()
        scene.indicators = listening(scene.relay)
        on_text = scene.indicators.on_text(scene.scenario.conversation, scene.call)
        on_text("Once")
        await asyncio.sleep(2 * GRACE)

    scenario(main)
    assert scene.published(STARTS, TEXT) == [(STARTS, "Executor is typing"), (TEXT, "Once")]


def test_the_project_status_is_published_at_an_interval_and_when_it_changes() -> None:
    """Every 30 s, at once after a reload, and never where no relay gets indicators."""
    relay, silent = FakeRelay(), FakeRelay()

    async def main() -> None:
        indicators = listening(relay)
        running = [asyncio.create_task(each.run()) for each in (indicators, listening(silent, relays=(FAR,)))]
        await asyncio.sleep(2 * PULSE + 1)
        indicators.changed()
        await asyncio.sleep(1)
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    run(main)
    assert [(at, event.kind) for at, event in relay.received] == [(at, STATUS) for at in (0.0, 30.0, 60.0, 61.0)]
    assert silent.received == []


def test_when_the_daemon_stops_everybody_is_silent() -> None:
    """Typing ends with the service, and no timer stays behind."""
    scene = Scene(asks_once)

    async def main() -> None:
        running = asyncio.create_task(scene.indicators.run())
        await scene.routed()
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        is_published = len(scene.relay.received)
        await asyncio.sleep(120)
        assert len(scene.relay.received) == is_published

    scenario(main)
    assert scene.published(STARTS, STOPS)[-1] == (STOPS, "")


async def test_the_status_of_a_real_configuration(tmp_path: Path) -> None:
    """The project first, every agent by key and slug, each model and tool with those who have it."""
    made = prepare(tmp_path, None, [NEAR])
    settings = load(made.config, tmp_path, env={}, parse_key=parse_public_key)
    async with open_application(settings) as app:
        shown = project_status(app.current.now)
    slugs = [slug for _, slug in shown.agents]
    assert shown.agents[0][0] == app.project.public == shown.speaker
    assert set(slugs[1:]) == set(app.rules.roster)
    assert set(shown.models) == {"offline"}
    assert set(shown.models["offline"]) == set(slugs)
    assert "executor" in shown.tools["write_file"]
    assert "planner" not in shown.tools["write_file"]
    assert len(shown.owners) == 1
