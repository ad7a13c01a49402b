"""The mode and the model of a session: what the agent offers, and what it says is in force.

Agents say it in three ways: `modes` and `models` in the answer that begins a session, `configOptions` there and in the
answer of `session/set_config_option`, and updates. The last one counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SettingName = Literal["mode", "model"]


@dataclass(slots=True)
class Setting:
    """One of the two."""

    value: str = ""
    """As the agent has said it last; "" where it has not."""
    offered: tuple[str, ...] = ()
    option: str = ""
    """The id of the configuration option by which it is set; "" where it has none."""
    reports: int = 0
    """How often the agent has said it: whether it has since it was set."""


class Settings:
    """Both, from all that the agent says."""

    def __init__(self) -> None:
        self.mode = Setting()
        self.model = Setting()

    def of(self, name: SettingName) -> Setting:
        """One of them."""
        return self.mode if name == "mode" else self.model

    def take_answer(self, answer: Mapping[str, Any]) -> bool:
        """Take the answer that begins a session, or that to a setting; returns whether it says anything of them."""
        modes = self._take_state(self.mode, answer.get("modes"), "currentModeId", "availableModes", "id")
        models = self._take_state(self.model, answer.get("models"), "currentModelId", "availableModels", "modelId")
        return self._take_options(answer.get("configOptions")) or modes or models

    def take_update(self, update: Mapping[str, Any]) -> bool:
        """Take an update of the session; returns whether the mode has another value now."""
        before = self.mode.value
        match update.get("sessionUpdate"):
            case "current_mode_update":
                self._report(self.mode, update.get("currentModeId"))
            case "config_option_update":
                self._take_options(update.get("configOptions"))
            case _:
                return False
        return self.mode.value != before

    def _take_state(self, setting: Setting, state: object, current: str, available: str, id_: str) -> bool:
        if not isinstance(state, dict):
            return False
        setting.offered = _ids(state.get(available), id_) or setting.offered
        self._report(setting, state.get(current))
        return True

    def _take_options(self, options: object) -> bool:
        """The options by their category: `mode` and `model` are of the protocol, ids are each agent's own."""
        if not isinstance(options, list):
            return False
        for option in options:
            if not isinstance(option, dict) or option.get("category") not in ("mode", "model"):
                continue
            id_ = option.get("id")
            if not isinstance(id_, str) or not id_:
                continue
            setting = self.of(option["category"])
            if setting.option not in ("", id_):
                continue  # the first one of a category: a second may be a detail of it
            setting.option = id_
            setting.offered = _values(option.get("options")) or setting.offered
            self._report(setting, option.get("currentValue"))
        return True

    def _report(self, setting: Setting, value: object) -> None:
        if isinstance(value, str) and value:
            setting.value = value
            setting.reports += 1


def _ids(offered: object, name: str) -> tuple[str, ...]:
    if not isinstance(offered, list):
        return ()
    ids = (each.get(name) for each in offered if isinstance(each, dict))
    return tuple(id_ for id_ in ids if isinstance(id_, str) and id_)


def _values(options: object) -> tuple[str, ...]:
    """The values of a select, which may be in groups."""
    if not isinstance(options, list):
        return ()
    grouped = [each["options"] for each in options if isinstance(each, dict) and isinstance(each.get("options"), list)]
    return tuple(value for group in (*grouped, options) for value in _ids(group, "value"))
