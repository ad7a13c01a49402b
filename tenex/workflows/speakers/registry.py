"""Conditions and targets by name: how they are written down as dicts, and found again.

A part is `{"name": ..., "args": {...}}`, the arguments being the fields of its dataclass: AG2's form, and so a graph
written by AG2 is read as it is. A field whose annotation names `TransitionCondition` or `TransitionTarget` holds parts.
"""

import inspect
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

from tenex.core.errors import ConfigurationError, kind_of
from tenex.core.text.json_values import DEEPEST, faults_of_value, plain
from tenex.workflows.speakers.conditions import (
    CONDITIONS,
    TARGETS,
    OwnPart,
    TransitionCondition,
    TransitionTarget,
    UnreadablePartError,
)

ConditionClass = TypeVar("ConditionClass", bound=type[TransitionCondition])
TargetClass = TypeVar("TargetClass", bound=type[TransitionTarget])

CONDITION, TARGET = "condition", "target"
_METHODS = {CONDITION: "evaluate", TARGET: "resolve"}
_BUILT_IN: dict[str, dict[str, type]] = {
    CONDITION: {cls.name: cls for cls in CONDITIONS},
    TARGET: {cls.name: cls for cls in TARGETS},
}
_RECIPES = ("all_of", "any_of", "not", "context_in", "context_threshold")
"""Conditions that AG2's documents let users write and register themselves."""
_SCALARS: dict[type, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}
"""What a field with such an annotation may hold."""
_NAMING = (".agent_id", ".tool_name")
"""Fields of built-in parts that name something."""


class TransitionRegistry:
    """Classes of conditions and targets by name; a new one knows what is built in, and nothing of other registries."""

    _default: ClassVar["TransitionRegistry | None"] = None

    def __init__(self) -> None:
        self._classes = {kind: dict(known) for kind, known in _BUILT_IN.items()}
        self._makes_own = True

    @classmethod
    def default(cls) -> "TransitionRegistry":
        """The registry of this process, for those who need no other."""
        if cls._default is None:
            cls._default = cls()
        return cls._default

    def copy(self, *, as_data: bool = False) -> "TransitionRegistry":
        """A registry that knows what this one knows now, and nothing registered later.

        With `as_data` it reads a part of a registered class as an `OwnPart`, so that no code of an operator runs.
        """
        twin = TransitionRegistry()
        twin._classes = {kind: dict(known) for kind, known in self._classes.items()}
        twin._makes_own = not as_data
        return twin

    def _own_part(self, kind: str, cls: type, data: Mapping[str, Any], values: Mapping[str, Any]) -> OwnPart:
        makes = self.copy()

        def make() -> Any:
            faults: list[str] = []
            part = makes.read(kind, data, f"the {kind}", faults)
            if faults:
                raise UnreadablePartError(faults)
            return part

        known = fields(cls) if is_dataclass(cls) else ()
        args = {part.name: part.default for part in known if part.init and part.default is not MISSING}
        return OwnPart(str(data["name"]), {**args, **values}, cls, make)

    def register(self, kind: str, cls: Any) -> None:
        """Make a class known by its `name`, in place of one known by it so far.

        Raises:
            ConfigurationError: it has no name or that of one which is built in, or not the method of its kind.
        """
        name = getattr(cls, "name", None)
        method = _METHODS[kind]
        asked = getattr(cls, method, None)
        if not isinstance(cls, type) or not isinstance(name, str) or not name or not callable(asked):
            needed = f"a class with `name: ClassVar[str]` and `{method}(state, envelope)`"
            raise ConfigurationError([f"{kind_of(cls)} is no {kind}: it must be {needed}."])
        if name in _BUILT_IN[kind] and name not in _RECIPES and cls is not _BUILT_IN[kind][name]:
            raise ConfigurationError(
                [f"{cls.__name__}: {name!r} is a {kind} that is built in; give yours another name."]
            )
        if inspect.iscoroutinefunction(asked):
            raise ConfigurationError([f"{cls.__name__}.{method} is async; it must answer at once."])
        if not _takes_round(asked):
            raise ConfigurationError([f"{cls.__name__}.{method} must take (self, state, envelope)."])
        self._classes[kind][name] = cls

    def read(self, kind: str, data: object, where: str, faults: list[str], depth: int = 0) -> Any:
        """Read a part of a kind; None where `faults` has gained a sentence."""
        found = len(faults)
        name, args = _opened(kind, data, where, faults, depth)
        cls = self._classes[kind].get(name)
        if cls is None and len(faults) == found:
            known = ", ".join(sorted(self._classes[kind]))
            faults.append(f"{where}: there is no {kind} {name!r}; known are {known}. Register others by their class.")
        if len(faults) > found or cls is None:
            return None
        hints = _hints(cls)
        values = {
            key: self._read_argument(hints.get(key), value, f"{where}.args.{key}", faults, depth)
            for key, value in args.items()
        }
        if len(faults) > found:
            return None
        if not self._makes_own and cls not in (*CONDITIONS, *TARGETS) and isinstance(data, Mapping):
            return self._own_part(kind, cls, data, values)
        try:
            part = cls(**values)
        except Exception as fault:  # noqa: BLE001  user code may fail in any way
            faults.append(
                f"{where}: {name} cannot be made of these args: {_why_not_made(cls, values, fault).rstrip('.')}."
            )
            return None
        if self._makes_own:  # else parts within it may be data
            faults.extend(self.faults_of(kind, part, where))
        return part

    def _read_argument(self, hint: Any, value: Any, where: str, faults: list[str], depth: int) -> Any:
        kind = _kind_within(hint)
        if kind is None:
            return value
        if _holds_several(hint, value):
            return [self.read(kind, part, f"{where}[{n}]", faults, depth + 1) for n, part in enumerate(value)]
        return self.read(kind, value, where, faults, depth + 1)

    def faults_of(self, kind: str, part: object, where: str, depth: int = 0) -> Iterator[str]:
        """Why a part cannot be written down and found again, each reason as a sentence."""
        name = getattr(part, "name", None)
        if depth > DEEPEST:
            yield f"{where} is nested more than {DEEPEST} levels deep."
        elif isinstance(part, type):
            yield f"{where} is {kind_of(part)}; give an instance of it: {part.__name__}(...)."
        elif not callable(getattr(part, _METHODS[kind], None)) or not isinstance(name, str):
            yield f"{where} is no {kind} but {type(part).__name__}."
        elif self._classes[kind].get(name) is not type(part):
            cls = type(part).__name__
            yield f"{where}: the {kind} {cls} is not registered as {name!r}; call register_{kind}({cls})."
        elif not is_dataclass(part) and getattr(part, "__dict__", None):
            yield f"{where}: {type(part).__name__} is no dataclass, so its values would be lost; add @dataclass."
        else:
            hints = _hints(type(part))
            for field, value in _arguments(part).items():
                yield from self._faults_of_argument(hints.get(field), value, f"{where}.{field}", depth)

    def _faults_of_argument(self, hint: Any, value: Any, where: str, depth: int) -> Iterator[str]:
        kind = _kind_within(hint)
        if kind is not None:
            several = _holds_several(hint, value)
            for n, part in enumerate(value if several else (value,)):
                yield from self.faults_of(kind, part, f"{where}[{n}]" if several else where, depth + 1)
            return
        yield from faults_of_value(value, where)
        wanted = _SCALARS.get(hint) if isinstance(hint, type) else None
        if wanted is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool)):
            yield f"{where} is {value!r}; it must be {hint.__name__}."
        elif value == "" and where.endswith(_NAMING):
            yield f"{where} is an empty text; it must be a name."

    def to_dict(self, part: TransitionCondition | TransitionTarget) -> dict[str, Any]:
        """A part as a dict, for one without faults."""
        hints = _hints(type(part))
        args = {key: self._written(hints.get(key), value) for key, value in _arguments(part).items()}
        return {"name": part.name, "args": args}

    def _written(self, hint: Any, value: Any) -> Any:
        if _kind_within(hint) is None:
            return plain(value)
        return [self.to_dict(part) for part in value] if isinstance(value, list | tuple) else self.to_dict(value)


def register_condition(condition: ConditionClass) -> ConditionClass:
    """Make a condition known by its name to all workflows, in place of one that had it; returns the class."""
    TransitionRegistry.default().register(CONDITION, condition)
    return condition


def register_target(target: TargetClass) -> TargetClass:
    """Make a target known by its name to all workflows, in place of one that had it; returns the class."""
    TransitionRegistry.default().register(TARGET, target)
    return target


def _takes_round(method: Any) -> bool:
    """Whether a method of a class can be called with the state and the round."""
    try:
        inspect.signature(method).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _opened(kind: str, data: object, where: str, faults: list[str], depth: int) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a part; what is wrong with its form goes to the faults."""
    if depth > DEEPEST:
        faults.append(f"{where} is nested more than {DEEPEST} levels deep.")
    elif not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        faults.append(f'{where} must be a {kind}: {{"name": ..., "args": {{...}}}}.')
    else:
        args = data.get("args")
        if args is None:
            args = {}
        if isinstance(args, Mapping) and all(isinstance(key, str) for key in args):
            return data["name"], dict(args)
        faults.append(f"{where}.args must be an object.")
    return "", {}


def _arguments(part: object) -> dict[str, Any]:
    if isinstance(part, type) or not is_dataclass(part):
        return {}
    return {field.name: getattr(part, field.name) for field in fields(part) if field.init}


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class; none where they cannot be resolved, and then its fields hold plain values."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        return {}


def _why_not_made(cls: type, given: Mapping[str, Any], fault: Exception) -> str:
    """Which arguments a class takes, where those given do not fit; else the error of the class."""
    known = [part for part in fields(cls) if part.init] if is_dataclass(cls) else []
    needed = {part.name for part in known if part.default is MISSING and part.default_factory is MISSING}
    if not is_dataclass(cls) or needed <= given.keys() <= {part.name for part in known}:
        return str(fault)
    return f"it takes {', '.join(part.name for part in known) or 'none'}, and has {', '.join(given) or 'none'}"


def _holds_several(hint: Any, value: object) -> bool:
    """Whether a value is a list of parts; where the annotation is a part itself, it may not be."""
    return isinstance(value, list | tuple) and hint not in (TransitionCondition, TransitionTarget)


def _kind_within(hint: Any) -> str | None:
    """Whether an annotation is about conditions or targets, alone or in a list."""
    if hint is TransitionCondition:
        return CONDITION
    if hint is TransitionTarget:
        return TARGET
    return next((kind for part in typing.get_args(hint) if (kind := _kind_within(part)) is not None), None)
