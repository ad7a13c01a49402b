"""A conversation of some cycles, with failures, refusals and a crash."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

from tenex.core.config import Limits
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import Millis
from tenex.core.messages import ModelStep, Usage
from tenex.core.signals import ModelFailed
from tests.fakes.scenario import Scenario, diligent, longest_way, policy


def costly(seed: int) -> Callable[[Conversation, ModelCall], ModelStep | ModelFailed]:
    """A diligent agent whose calls cost what cannot be added up at sight, and that fails in every way."""
    numbers = itertools.count(seed)

    def model(conversation: Conversation, call: ModelCall) -> ModelStep | ModelFailed:
        number = next(numbers)
        usage = Usage(
            input_tokens=number * 37 % 1009,
            output_tokens=number % 13,
            cost_usd=0.1 / (number + 3) if number % 11 else None,
            cache_read_tokens=number * 37 % 1009 // 2,
            cache_write_tokens=number % 3,
            estimated=number % 13 if number % 4 == 3 else 0,
        )
        if number % 5 == 1:
            return ModelFailed(key=call.key, message="busy", retryable=True, usage=usage)
        if number % 7 == 2:
            return ModelFailed(key=call.key, message="filtered", retryable=False, usage=usage)
        step = diligent(conversation, call)
        assert isinstance(step, ModelStep)
        return dataclasses.replace(step, usage=usage, model=f"m:{number % 3}")

    return model


def restless(seed: int) -> Callable[[dict[str, Any]], Any]:
    """A router whose answer cannot be used now and then."""
    numbers = itertools.count(seed)
    useless = {2: "no JSON at all", 4: {"agents": ["unknown"], "reason": "x"}}
    return lambda question: useless.get(next(numbers) % 6) or longest_way(question)


@cache
def lived(seed: int) -> Scenario:
    """Look only, it is shared: a conversation of some cycles with failures, refusals and a crash in the middle."""
    scenario = Scenario(restless(seed), costly(seed), config=policy(limits=Limits(retry_delays=(Millis(5),) * 3)))
    scenario.crash_at = (20 + seed, "after")
    for cycle in range(2):
        scenario.user_writes(f"Do something nice, number {cycle}")
        for _ in range(200):
            scenario.settle()
            if scenario.conversation.cycle.status == "ended":
                break
            due = [e for e in scenario.running.values() if getattr(e.key, "part", "") in ("retry", "route")]
            if due:
                scenario.fire(due[0].key.part)
            elif scenario.conversation.work.asks:
                scenario.user_writes("Green", reply_to=next(iter(scenario.conversation.work.asks)))
            else:
                scenario.user_writes("go on, please")
    return scenario
