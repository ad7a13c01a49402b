"""Whispers of a conversation: what follows from its state, and that nothing of it can hurt the work."""

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
"""What is whispered while the router is asked, and when it has answered."""
KEYS = {slug: SecretKey(bytes([number]) * 32) for number, slug in enumerate(["orchestrator", *rules().roster], 1)}
RULES = dataclasses.replace(
    rules(),
    roster={slug: dataclasses.replace(agent, pubkey=KEYS[slug].public) for slug, agent in rules().roster.items()},
    project=dataclasses.replace(rules().project, pubkey=KEYS["orchestrator"].public),
)
EXECUTOR, PROJECT = KEYS["executor"].public, KEYS["orchestrator"].public


class Scene:
    """A conversation whose every step a test takes, and a relay that hears what is whispered of it."""

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
        self.tell()

    def tell(self) -> None:
        """The actor has appended."""
        self.indicators.on_records(self.scenario.conversation, [])

    def step(self, kind: type[Any]) -> None:
        """One piece of work of that kind ends."""
        assert self.scenario.step(lambda effects: next(effect for effect in effects if isinstance(effect, kind)))
        self.tell()

    async def routed(self) -> None:
        """The router has named the executor, whose model is wanted."""
        self.starts()
        await asyncio.sleep(1)
        self.scenario.step()
        self.tell()

    @property
    def call(self) -> ModelCall:
        """The model call that is wanted."""
        return next(e for e in pending(self.scenario.conversation).values() if isinstance(e, ModelCall))

    def published(self, *kinds: int) -> list[tuple[int, str]]:
        """What was heard of these kinds: who is active for 24133, else the words."""
        return [
            (event.kind, ",".join(tag[1][:4] for tag in event.tags if tag[0] == "p") or event.content)
            for _, event in self.relay.received
            if event.kind in (kinds or (event.kind,))
        ]


def listening(
    relay: FakeRelay, mode: Literal["auto", "on", "off"] = "auto", relays: tuple[str, ...] = (NEAR,)
) -> TypingIndicators:
    voices = {key.public: key for key in KEYS.values()}
    return TypingIndicators(
        relay, voices, NostrSealer(relays), VirtualClock(), speaker=PROJECT, status=status, mode=mode, relays=relays
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


def test_a_run_is_heard_from_its_beginning_over_a_question_to_its_end() -> None:
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
        assert len(scene.relay.received) == asked, "while a person is waited for nothing is whispered"
        scene.scenario.user_writes("greeter.py")
        scene.tell()
        await asyncio.sleep(1)
        scene.step(ModelCall)
        await asyncio.sleep(1)
        scene.scenario.settle()
        scene.tell()
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


def test_who_is_active_is_told_when_it_changes() -> None:
    """The orchestrator while it decides, then the agent, then nobody; and then nothing is kept in mind."""
    scene = Scene(lambda *_: reply("It is done."))

    async def main() -> None:
        await scene.routed()
        await asyncio.sleep(1)
        scene.step(ModelCall)
        await asyncio.sleep(1)
        scene.scenario.user_writes("/stop")
        scene.tell()
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
    """`/stop` ends the run: whatever its model still says is heard by nobody."""
    scene = Scene(asks_once)

    async def main() -> None:
        await scene.routed()
        on_text = scene.indicators.on_text(scene.scenario.conversation, scene.call)
        on_text("Once")
        await asyncio.sleep(1)
        on_text("Once upon")
        scene.scenario.user_writes("/stop")
        scene.tell()
        on_text("Once upon a time")
        await asyncio.sleep(60)

    scenario(main)
    own = [(STARTS, "Executor is typing"), (TEXT, "Once"), (STOPS, "")]
    assert scene.published(STARTS, STOPS, TEXT) == [*ROUTED, *own]


@pytest.mark.parametrize(
    ("mode", "relays", "heard"),
    [("auto", (NEAR,), True), ("auto", (FAR,), False), ("on", (FAR,), True), ("off", (NEAR,), False)],
)
def test_where_it_is_whispered(mode: str, relays: tuple[str, ...], heard: bool) -> None:
    """On this machine by itself, elsewhere where the operator says so, nowhere where they do not want it."""
    scene = Scene(asks_once, mode=mode, relays=relays)

    async def main() -> None:
        scene.starts({"form": "notes", "root": ROOT, "root_relay": relays[0], "relays": list(relays)})
        scene.scenario.step()
        scene.tell()
        on_text = scene.indicators.on_text(scene.scenario.conversation, scene.call)
        assert (on_text is not ignore_text) is heard
        await asyncio.sleep(1)

    scenario(main)
    assert bool(scene.relay.received) is heard


class Untouched:
    """A conversation nobody may look at."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"it was asked for its {name}")


def test_off_costs_nothing() -> None:
    """Nothing is looked at, not even the conversation."""
    indicators = listening(FakeRelay(), "off")
    conversation: Any = Untouched()
    indicators.on_records(conversation, [])
    assert indicators.on_text(conversation, conversation) is ignore_text


@pytest.mark.parametrize("address", [{"form": "direct", "root": ROOT, "relays": [NEAR]}, {"root": ROOT}, {}])
def test_what_is_encrypted_is_never_whispered_of(address: dict[str, Any]) -> None:
    """Nor what has a form that is unknown here."""
    scene = Scene(asks_once, mode="on")

    async def main() -> None:
        scene.starts(address or {"form": ""})
        scene.scenario.step()
        scene.tell()
        assert scene.indicators.on_text(scene.scenario.conversation, scene.call) is ignore_text
        await asyncio.sleep(1)

    scenario(main)
    assert scene.relay.received == []


def test_a_fault_of_a_whisper_does_not_reach_the_actor() -> None:
    """A state it cannot make sense of, or a sealer that fails: the work goes on, and its text is heard by nobody."""
    indicators = listening(FakeRelay())
    nothing: Any = object()
    indicators.on_records(nothing, [])
    assert indicators.on_text(nothing, nothing) is ignore_text


def test_a_conversation_that_was_read_again_is_heard_without_being_told() -> None:
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


def test_the_project_is_told_of_at_a_pulse_and_when_it_changes() -> None:
    """Every 30 s, at once after a reload, and to nobody where no relay is whispered to."""
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
        heard = len(scene.relay.received)
        await asyncio.sleep(120)
        assert len(scene.relay.received) == heard

    scenario(main)
    assert scene.published(STARTS, STOPS)[-1] == (STOPS, "")


async def test_the_status_of_a_real_configuration(tmp_path: Path) -> None:
    """The project first, every agent by key and slug, each model and tool with those who have it."""
    made = prepare(tmp_path, None, [NEAR])
    settings = load(made.config, tmp_path, env={}, parse_key=parse_public_key)
    async with open_application(settings) as app:
        told = project_status(app.current.now)
    slugs = [slug for _, slug in told.agents]
    assert told.agents[0][0] == app.project.public == told.speaker
    assert set(slugs[1:]) == set(app.rules.roster)
    assert set(told.models) == {"offline"}
    assert set(told.models["offline"]) == set(slugs)
    assert "executor" in told.tools["write_file"]
    assert "planner" not in told.tools["write_file"]
    assert len(told.owners) == 1
