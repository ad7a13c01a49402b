"""The model client: chooses the models for a request and asks them in order until one answers.

Importing this is cheap; the library is loaded when the first model is made, by `check` at the latest.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tenex.core.errors import ConfigurationError, ModelRefused, ModelUnavailable
from tenex.core.installation import pip_install
from tenex.core.memory.window import LONG_ANSWER, UNCERTAIN, request_tokens
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Quote, Usage
from tenex.core.ports import Model, OnText, ignore_text
from tenex.log import get_logger

from .config import OFFLINE, Choice, ModelClientConfig, Price, ProviderConfig, ProviderStatus, split_name
from .pricing import MILLION, price_of
from .rate_limit import ProviderQueue

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider

log = get_logger(__name__)

Wrap = Callable[[Model, ProviderConfig], Model]
"""Wraps a provider's model, as output states do."""


class ModelClient:
    """A `core.ports.Model` in front of all configured models.

    A model is built at its first use. After a reload of the settings a new client takes over; `close` waits for the
    calls of the old one.
    """

    def __init__(
        self,
        config: ModelClientConfig,
        choose: Choice,
        offline: Model,
        wrap: Wrap = lambda model, _: model,
    ) -> None:
        self._config = config
        self._wrap = wrap
        self._choose = choose
        self._offline = offline
        self._providers = dict(config.providers)
        """As they are configured, with keys that were read again."""
        self._refused_keys: dict[str, ModelUnavailable] = {}
        """Providers, and models, whose server refused the key, until it has changed or a user wants a try."""
        self._connections: dict[str, Provider[Any]] = {}
        """The client of each provider in use."""
        self._queues: dict[str, ProviderQueue] = {}
        self._replaced: list[Provider[Any]] = []
        """Clients with a key that was refused; calls of theirs may be under way."""
        self._models: dict[str, Model] = {}
        self._prices: dict[str, Price | None] = {}
        self._daemons = 1
        """How many share the limits of the providers."""
        self._active = 0
        self._idle = asyncio.Event()

    def check(self, names: Iterable[str]) -> None:
        """Make every model named, without a network call.

        Raises:
            ConfigurationError: with every fault: names, kinds, keys, packages.
        """
        faults: list[str] = []
        for name in dict.fromkeys(names):
            try:
                self._model(name)
            except ConfigurationError as error:
                faults.extend(fault for fault in error.faults if fault not in faults)
        if faults:
            raise ConfigurationError(faults)

    def quote(self, request: ModelRequest) -> Quote:
        """The bounds of a call's usage, by the most expensive model of its chain; unknown prices count as free."""
        names = self._choose(request.purpose, request.agent, request.phase)
        if all(name == OFFLINE for name in names):
            return Quote(least=NO_USAGE, most=NO_USAGE)
        held = request_tokens(request.system, request.entries, request.tools)
        answer = self._config.max_output_tokens or LONG_ANSWER
        prices = [price for price in map(self._price, names) if price is not None]

        def usage(held: int, answer: int, *, most: bool) -> Usage:
            costs: list[float] = []
            for price in prices:
                input_price = max(price.input, price.cache_write or 0.0) if most else price.input
                costs.append((held * input_price + answer * price.output) / MILLION)
            return Usage(input_tokens=held, output_tokens=answer, cost_usd=max(costs, default=None))

        return Quote(least=usage(held, 0, most=False), most=usage(UNCERTAIN * held, answer, most=True))

    def _price(self, name: str) -> Price | None:
        if name not in self._prices:
            self._prices[name] = price_of(self._config, name)
        return self._prices[name]

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once, by the first model of the chain that does; its usage holds what the others cost.

        Raises:
            ModelUnavailable: the last model of the chain could not be reached. If none could, `retry_after` is the
                shortest of their waits.
            ModelRefused: the last model of the chain gave an unusable answer.
        """
        self._active += 1
        try:
            return await self._step_with_fallback(request, on_text)
        finally:
            self._active -= 1
            self._idle.set()

    async def _step_with_fallback(self, request: ModelRequest, on_text: OnText) -> ModelStep:
        names = self._choose(request.purpose, request.agent, request.phase)
        if not names:
            raise ModelUnavailable(f"no model is set for {request.agent} in {request.phase}: set models.default")
        failures: list[ModelUnavailable | ModelRefused] = []
        for name in names:
            spent = sum((failure.usage for failure in failures), start=NO_USAGE)
            try:
                self._check_key(name, is_urgent=request.is_urgent)
                step = await self._model(name).step(request, on_text)
            except ConfigurationError as error:
                failures.append(ModelUnavailable(str(error), model=name))
            except (ModelUnavailable, ModelRefused) as error:
                failures.append(error)
                if isinstance(error, ModelUnavailable) and error.refused_key:
                    refused = name if error.refused_key == "model" else name.partition(":")[0]
                    self._refused_keys[refused] = error
            except asyncio.CancelledError:
                request.on_cancelled(spent, failures[-1].model if failures else name)
                raise
            else:
                queued = step.queued + int(sum(failure.queued for failure in failures) * 1000)
                return replace(step, usage=spent + step.usage, queued=queued) if failures else step
            if len(failures) < len(names):
                log.info("model.fallback", failed=name, then=names[len(failures)])
        raise _combined(failures) from failures[-1]

    def _model(self, name: str) -> Model:
        if name == OFFLINE:
            return self._offline
        if name not in self._models:
            self._models[name] = self._build(name)
        return self._models[name]

    def _check_key(self, name: str, *, is_urgent: bool) -> None:
        """Take the key of a model's provider as it is now, if its server has refused the one before.

        Raises:
            ModelUnavailable: it is the same, and no user wants it to be tried all the same.
        """
        provider = name.partition(":")[0]
        refused_to_all = self._refused_keys.pop(provider, None)
        refused_to_it = self._refused_keys.pop(name, None)
        refused = refused_to_all or refused_to_it
        if refused is None:
            return

        before = self._provider(provider)
        now = self._config.read_again(before)
        self._providers[provider] = now
        if now.api_key != before.api_key:
            if provider in self._connections:
                self._replaced.append(self._connections.pop(provider))
            self._models = {
                other: model for other, model in self._models.items() if other.partition(":")[0] != provider
            }
        elif not is_urgent:
            raise ModelUnavailable(str(refused), model=name, needs_operator=True, refused_key=refused.refused_key)

    def _provider(self, name: str) -> ProviderConfig:
        return self._providers.get(name) or ProviderConfig(name=name)

    def _build(self, name: str) -> Model:
        own = split_name(name)
        if own is None:
            raise ConfigurationError(
                [f'models: "{name}" names no model; write <provider>:<model>, as in "openai:gpt-5", or "{OFFLINE}".']
            )
        try:
            from .provider_model import ProviderModel
            from .providers import make_model, make_provider
        except ImportError as error:
            command = pip_install(requirement="pydantic-ai-slim[openai]")
            raise ConfigurationError([f'models: "{name}" needs {error.name}. Install it: {command}']) from error

        config = self._provider(own[0])
        if config.name not in self._connections:
            self._connections[config.name] = make_provider(config)
        model = make_model(config, self._connections[config.name], own[1])
        return self._wrap(ProviderModel(name, self._config, config, model, self.queue(config.name)), config)

    def queue(self, provider: str) -> ProviderQueue:
        """The queue of a provider's calls, also for those that others make in its name."""
        if provider not in self._queues:
            queue = ProviderQueue.of(self._provider(provider))
            if self._daemons > 1:
                queue.share(self._daemons)
            self._queues[provider] = queue
        return self._queues[provider]

    def share(self, daemons: int) -> None:
        """Keep to the part of each provider's limits that one of so many daemons has."""
        self._daemons = daemons
        for queue in self._queues.values():
            queue.share(daemons)

    def status(self) -> tuple[ProviderStatus, ...]:
        """The load of each provider in use. Must be called within the event loop."""
        return tuple(
            ProviderStatus(name=name, active=queue.active, waiting=queue.waiting, paused=queue.paused)
            for name, queue in self._queues.items()
        )

    async def close(self) -> None:
        """Let the calls under way finish, then close the connections; a second call does nothing."""
        while self._active:
            self._idle.clear()
            await self._idle.wait()

        connections = self._connections
        self._connections = {}
        self._queues = {}
        self._models = {}
        replaced = self._replaced
        self._replaced = []
        for provider in [*replaced, *connections.values()]:
            with suppress(OSError):  # a connection that is gone is closed
                async with provider:
                    pass


def _combined(failures: list[ModelUnavailable | ModelRefused]) -> ModelUnavailable | ModelRefused:
    """The last failure, with what all of them cost, and the shortest wait where every model may come back."""
    last = failures[-1]
    usage: Usage = sum((failure.usage for failure in failures), start=NO_USAGE)
    queued = sum(failure.queued for failure in failures)
    if isinstance(last, ModelRefused):
        return ModelRefused(str(last), usage, model=last.model, queued=queued)
    waits = [failure.retry_after or 0.0 for failure in failures if isinstance(failure, ModelUnavailable)]
    shortest = min(waits) if len(waits) == len(failures) else last.retry_after
    lasts = all(isinstance(failure, ModelUnavailable) and failure.needs_operator for failure in failures)
    return ModelUnavailable(str(last), shortest or None, usage, model=last.model, queued=queued, needs_operator=lasts)
