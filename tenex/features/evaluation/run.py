"""Runs a scenario: a daemon on a temporary data folder, and a person's client on an embedded relay, in this process."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tenex.app import Application, open_application
from tenex.app.extension import Extension
from tenex.cli.shared.nostr_client import ChatClient, connected_client
from tenex.configuration.build import shell_policy
from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall, Route, ToolCall
from tenex.core.errors import RelayUnavailable
from tenex.core.messages import CallResult, ModelRequest
from tenex.core.pending import pending
from tenex.core.ports import Model
from tenex.core.projection import glance_of, is_idle
from tenex.llm.config import OFFLINE
from tenex.llm.scripted import OfflineModel
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing
from tenex.settings import KEY_SUFFIX, Settings, resolve_paths
from tenex.settings.sections import ApproveRule, Metrics, Models, Paths, People, Relays, Traces
from tenex.tools.sandbox import RunPolicy, probe_bubblewrap

from .expectations import Run, failures
from .figures import CallRecorder, Figures, figures_of
from .scenario import Message, Scenario, Script
from .scripted import Held, ScriptedModel, Together
from .workspace import prepare_workspace

_NO_SANDBOX: Final = (
    "its script runs commands, and there is no sandbox here for them; `tenex doctor` says what is missing"
)


async def run_scenario(
    scenario: Scenario,
    settings: Settings,
    models: Models | None,
    name: str,
    data: Path,
    extensions: Sequence[Callable[[Application], Extension]] = (),
) -> dict[str, Any]:
    """Run a scenario to its end; returns how it went, as the command prints it for programs.

    Args:
        scenario: what to run.
        settings: those of the user; agents and models are taken from them, folders, keys and relays are not.
        models: the models that answer, named `name`; None: whom the scenario names.
        name: of the models, for the result.
        data: an empty folder for everything the daemon writes.
        extensions: what features do in it.
    """
    is_real = models is not None or scenario.answered_by == "settings"
    chosen = models or (settings.models if is_real else Models(default=OFFLINE))
    lacking = [program for program in scenario.needs if shutil.which(program) is None]
    if lacking:
        return _result(scenario, name, skipped=f"{' and '.join(lacking)} not installed")
    if not is_real and scenario.needs_sandbox and not await asyncio.to_thread(_has_sandbox, settings):
        return _result(scenario, name, skipped=_NO_SANDBOX)
    began = time.monotonic()
    watch = _Watch(scenario, is_real=is_real)
    async with embedded_relay() as url:
        own = _isolated(settings, chosen, data, url, scenario, is_trusted=scenario.is_shipped and not is_real)
        places = resolve_paths(own)
        prepare_workspace(scenario, places.workspace)
        user, project = (KeyRing(*places.key_folders).get_or_create(one) for one in ("owner", "project"))
        scripted = None if is_real else OfflineModel()  # named here it is not trusted, unlike that of the settings
        async with (
            open_application(
                own, model=scripted, observers=(watch,), wrap_model=watch.wrapped, extensions=extensions
            ) as app,
            app.serving(),
        ):
            await _teach(scenario, app)
            try:
                await _converse(scenario, lambda: connected_client(url, user, project.public), watch)
            except* RelayUnavailable as errors:
                watch.fault = str(errors.exceptions[0])
    figures = figures_of(watch.recorder.calls)
    found = watch.faults() or failures(scenario.expect, watch.run, figures, places.workspace)
    return _result(
        scenario, name, passed=not found, failures=found, figures=figures, notes=watch.run.notes, began=began
    )


def _result(
    scenario: Scenario,
    name: str,
    *,
    skipped: str = "",
    passed: bool | None = None,
    failures: Sequence[str] = (),
    figures: Figures | None = None,
    notes: int | None = None,
    began: float | None = None,
) -> dict[str, Any]:
    """How a run went; where it was skipped, `skipped` says why, and nothing was measured."""
    return {
        "scenario": scenario.name,
        "model": name,
        "passed": passed,
        "skipped": skipped,
        "failures": list(failures),
        "calls": figures and figures.calls,
        "sequentialCalls": figures and figures.sequential_calls,
        "promptTokens": figures and figures.prompt_tokens,
        "cached": figures and figures.cached,
        "notes": notes,
        "costUsd": figures and figures.cost,
        "seconds": None if began is None else round(time.monotonic() - began, 2),
    }


async def _teach(scenario: Scenario, app: Application) -> None:
    """Record the lessons with which the scenario begins."""
    for agent, lessons in scenario.lessons.items():
        for number, lesson in enumerate(lessons, 1):
            await app.daemon_journal.record(agent, "", lesson, lesson, "", f"scenario {agent} {number}")


def _has_sandbox(settings: Settings) -> bool:
    return shell_policy(settings, has_sandbox=probe_bubblewrap()) is RunPolicy.SANDBOXED


async def _converse(
    scenario: Scenario, connect: Callable[[], AbstractAsyncContextManager[ChatClient]], watch: "_Watch"
) -> None:
    """Send the messages, each when the work for the one before it rests or in mid-work, and wait for the end."""
    try:
        async with asyncio.timeout(scenario.timeout), AsyncExitStack() as clients:
            client = await clients.enter_async_context(connect())
            following = [*scenario.messages[1:], None]
            for number, (message, next_message) in enumerate(zip(scenario.messages, following, strict=True), 1):
                if message.new_thread and number > 1:
                    client = await clients.enter_async_context(connect())
                watch.expect(next_message)
                outcome = await client.send(message.text)
                if not outcome.accepted:
                    watch.fault = f"the relay refused message {number}: {outcome.detail}"
                    return
                await watch.rest(number)
                if watch.is_over:
                    return
    except TimeoutError:
        watch.fault = f"not finished within {scenario.timeout:g} s, which `timeout` sets"


class _Watch:
    """Sees what becomes durable and what models are asked. An `Observer`."""

    def __init__(self, scenario: Scenario, *, is_real: bool) -> None:
        self.run = Run()
        self.fault = ""
        self.recorder: CallRecorder
        self._scenario = scenario
        self._is_real = is_real
        self._scripts: list[ScriptedModel] = []
        self._conversation: Conversation | None = None
        self._received = 0
        self._held = ""
        self._after: str | None = None
        """The tool after which the next message is sent."""
        self._answers = asyncio.Event()
        """Cleared from then until that message is received: how far work gets before it is no matter of time."""
        self._answers.set()
        self._changed = asyncio.Event()

    def wrapped(self, model: Model) -> Model:
        """The model of a run: answers that are given, then the real model, or the script."""
        scenario = self._scenario
        otherwise = model
        if not self._is_real:
            rest = OfflineModel() if scenario.answered_by == "offline" else None
            otherwise = self._scripted(scenario.script, rest)
        held: Model = Held(self._scripted(scenario.given, otherwise), self._before_answer)
        self.recorder = CallRecorder(held if self._is_real else Together(held, self._under_way))
        return self.recorder

    def _under_way(self) -> int:
        """How many calls to models and tools the conversation waits for."""
        effects = pending(self._conversation).values() if self._conversation is not None else ()
        return sum(isinstance(effect, ModelCall | Route | ToolCall) for effect in effects)

    async def _before_answer(self, request: ModelRequest) -> None:
        """Let the next message come first, where it is sent after a tool whose result the request has."""
        results = (entry for entry in request.entries if isinstance(entry, CallResult))
        if any(result.ok and result.tool == self._after for result in results):
            self._after = None
            self._answers.clear()
            self._changed.set()
        await self._answers.wait()

    def _scripted(self, script: Script, otherwise: Model | None) -> Model:
        made = ScriptedModel(script, otherwise)
        self._scripts.append(made)
        return made

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """Take the records of one append."""
        self._conversation = conversation
        for record in records:
            if self.is_over:
                break
            self.run.add(record)
            if isinstance(record, r.MessageRecorded | r.CommandGiven):
                self._received += 1
                self._answers.set()
            elif isinstance(record, r.RetryScheduled) and record.on_hold:
                self._held = f"a model cannot be reached: {record.message}"
        self.run.status = glance_of(conversation).status
        self.recorder.is_closed = self.is_over
        self._changed.set()

    @property
    def is_over(self) -> bool:
        """Whether the run ends before its last message has been worked on."""
        most = self._scenario.turns
        return bool(self.faults()) or (most is not None and self.run.turns >= most)

    def faults(self) -> list[str]:
        """What kept the run from going on."""
        missing = [script.missing for script in self._scripts if script.missing]
        if missing and self.run.reason:
            missing = [f"{fault}; its turn was begun because of: {self.run.reason}" for fault in missing]
        return [*missing, *(fault for fault in (self._held, self.fault) if fault)]

    def expect(self, message: Message | None) -> None:
        """Take the message that is sent next."""
        self._after = message.after if message is not None else None

    async def rest(self, messages: int) -> None:
        """Wait until the work for so many messages rests, the next message is to be sent, or the run is over."""
        while not self.is_over and not self._rests(messages):
            self._changed.clear()
            await self._changed.wait()

    def _rests(self, messages: int) -> bool:
        """With all that was said delivered: a person replies to the newest of it."""
        conversation = self._conversation
        if conversation is None or self._received < messages:
            return False
        if not self._answers.is_set():
            return True
        return is_idle(conversation) and not conversation.delivery.outbox


def _isolated(
    settings: Settings, models: Models, data: Path, url: str, scenario: Scenario, *, is_trusted: bool
) -> Settings:
    """The settings with folders, keys, a relay, a user and checks of the run's own; keys of models are linked."""
    theirs = resolve_paths(settings)
    paths = Paths(agents=str(theirs.agents), workflows=str(theirs.workflows))
    keys = data / paths.keys
    keys.mkdir(mode=0o700, parents=True)
    for file in theirs.keys.glob(f"*{KEY_SUFFIX}"):
        (keys / file.name).symlink_to(file)
    providers = {
        name: one
        if one.api_key_file is None
        else one.model_copy(update={"api_key_file": str(theirs.data / one.api_key_file)})
        for name, one in models.providers.items()
    }
    own: dict[str, Any] = {
        "paths": paths,
        "relays": Relays(urls=[url], typing_indicators="off"),
        "people": People(owners=[KeyRing(*replace(theirs, keys=keys).key_folders).get_or_create("owner").npub]),
        "models": models.model_copy(update={"providers": providers}),
        "metrics": Metrics(),
        "traces": Traces(),
        "checks": scenario.checks,
        "conversations": settings.conversations.model_copy(update={"agent": scenario.agent}),
        "approvals": settings.approvals.model_copy(update={"unattended": True}),
    }
    if is_trusted:
        own["tools"] = settings.tools.model_copy(update={"check": "on"})
        own["approve"] = [*settings.approve, ApproveRule(tool="check", decision="allow")]
    copy = settings.model_copy(update=own)
    copy._data = data
    return copy
