"""Where tools of one's own come from: files of a folder, and installed packages that the operator allows.

What a file or a package claims is read without running any of it: a file's syntax tree has the names of the functions
with `@tool`, a package's metadata those of its entry points. So two that claim one name are both refused before either
runs, and what no agent has is never loaded.
"""

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tenex.core.errors import ConfigurationError, UntrustedFolder
from tenex.settings.file_rights import why_not_ours
from tenex.tools.tool import Tool
from tenex.workflows.kit.loading import importing_from, load_object, load_script, read_text

from .api import MARK, check_version
from .functions import tool_of
from .loading import load_within
from .loops import loop_of
from .names import fault_of_name
from .packages import is_off

GROUP: Final = "tenex.tools"
"""Of the entry points that are tools."""

_PREFIX: Final = "tenex_tools"
_PACKAGE: Final = "tenex.plugins"
Load = Callable[[], Callable[..., Any]]
"""Gives the function of a tool; raises ConfigurationError."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A tool that is not loaded yet."""

    module: str
    """Where a fault is one of all its tools."""
    load: Load


@dataclass(slots=True, kw_only=True, eq=False)
class PluginSource:
    """A file or a package, with the tools that it claims."""

    name: str
    """The path of the file, or the package with its version."""
    claims: dict[str, Claim]
    names: frozenset[str] = frozenset()
    """What agents may name of it, also what was left out since."""
    claimed: frozenset[str] = frozenset()
    """All that it claims, also what was refused since."""
    folder: Path | None = None
    """Of a file: it may import others of its folder. None for a package, whose modules Python imports once."""
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)
    """Those that were loaded."""

    def __post_init__(self) -> None:
        self.claimed = frozenset(self.claims)
        self.names = self.names | self.claimed

    def refuse(self, name: str, why: str) -> None:
        """Leave one of its tools out."""
        del self.claims[name]
        self.faults.append(f"the tool {name} {why}")

    def load(self, wanted: Collection[str], workspace: Path) -> None:
        """Load these of its tools; what is wrong with one is a fault, and it is left out.

        Raises:
            UntrustedFolder: a file has changed since the user trusted its folder.
        """
        failed: set[str] = set()
        for name, claim in self.claims.items():
            if name not in wanted or name in self.tools or claim.module in failed:
                continue
            try:
                with importing_from(self.folder, _PREFIX) if self.folder is not None else nullcontext():
                    function, printed = load_within(claim.load)
            except UntrustedFolder:
                raise
            except ConfigurationError as error:
                failed.add(claim.module)
                self._leave_out(error)
                continue
            if printed:
                self.remarks.append("it prints to the standard output while it is loaded, which is not shown")
            try:
                self.tools[name] = tool_of(name, function, loop_of(self.name), workspace)
            except ConfigurationError as error:
                self._leave_out(error)

    def blockings(self) -> list[str]:
        """A sentence for each of its tools that has blocked its event loop."""
        return [
            f"the tool {name} blocked its event loop; write it as `def`, or await what takes long."
            for name in loop_of(self.name).blocked_by
        ]

    def _leave_out(self, error: ConfigurationError) -> None:
        self.faults += [fault.removeprefix(f"{self.name}: ") for fault in error.faults]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """All files and packages that offer tools; those that agents have are loaded by `load`."""

    sources: tuple[PluginSource, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All tools that are claimed: an agent may name one that was left out, and does not have it."""
        return frozenset(name for source in self.sources for name in source.names)

    @property
    def claimed(self) -> frozenset[str]:
        """All names that are claimed, also of those that were refused."""
        return frozenset(name for source in self.sources for name in source.claimed)

    def load(self, wanted: Collection[str], workspace: Path) -> list[Tool]:
        """The tools of these names that can be used."""
        for source in self.sources:
            source.load(wanted, workspace)
        return [tool for source in self.sources for name, tool in source.tools.items() if name in wanted]

    def faults(self) -> list[str]:
        """Everything that was left out, each as a sentence with its source."""
        return [f"{source.name}: {fault}" for source in self.sources for fault in source.faults]

    def remarks(self) -> list[str]:
        """What works and deserves attention."""
        return [f"{source.name}: {remark}" for source in self.sources for remark in source.remarks]

    def references(self) -> list[str]:
        """The modules of packages that were loaded; a change of one needs a restart."""
        return [source.claims[name].module for source in self.sources if source.folder is None for name in source.tools]


def find_plugins(
    folder: Path,
    allowed: Sequence[str],
    *,
    taken: Mapping[str, str],
    code_refusal: str = "",
    env: Mapping[str, str] | None = None,
) -> Plugins:
    """What the files of a folder and the allowed packages claim; nothing of them is run.

    Args:
        folder: of files; it may be missing.
        allowed: names of packages.
        taken: names that no plugin may claim, each with what has it.
        code_refusal: why no Python of the folder may be run; empty where it may.
        env: the environment; None means the process's own.
    """
    sources = [*_files(folder, code_refusal), *_packages(allowed)]
    for source in sources:
        for name in sorted(source.claimed):
            others = [other.name for other in sources if other is not source and name in other.claimed]
            if name in taken:
                source.refuse(name, f"has the name of {taken[name]}. Call it by another name.")
            elif others:
                source.refuse(name, f"is claimed by {', '.join(others)} too, and neither is used. Remove one of them.")
            elif fault := fault_of_name(name):
                source.refuse(name, fault)
    if is_off(env):  # the names stay known, or agents whose files have one would be disabled
        sources = [PluginSource(name=source.name, claims={}, names=source.names) for source in sources]
    return Plugins(sources=tuple(sources))


def _files(folder: Path, code_refusal: str) -> Iterator[PluginSource]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".py")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield PluginSource(name=str(folder), claims={}, faults=[f"it cannot be read ({error.strerror})."])
        return
    for path in paths:
        is_special = path.exists() and not path.is_file()
        if is_special or path.name.startswith((".", "_")):
            continue
        source = _file(path)
        refusal = code_refusal or why_not_ours(path, folder)
        if source.names and refusal:
            names = source.names | {path.stem}
            source = PluginSource(name=str(path), claims={}, names=names, faults=[f"it is not loaded: {refusal}."])
        yield source


def _file(path: Path) -> PluginSource:
    """The tools of a file; of one that cannot be read agents may name a tool that is called like it."""
    try:
        names = tool_names(read_text(path))
    except UntrustedFolder:
        raise
    except ConfigurationError as error:
        faults = [fault.removeprefix(f"{path}: ") for fault in error.faults]
        return PluginSource(name=str(path), claims={}, names=frozenset({path.stem}), faults=faults)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        fault = f"{where}it is not valid Python: {getattr(error, 'msg', None) or error}."
        return PluginSource(name=str(path), claims={}, names=frozenset({path.stem}), faults=[fault])
    if not names:
        remark = "no function of it has `@tool` of tenex.plugins, so it is not loaded"
        return PluginSource(name=str(path), claims={}, remarks=[remark])
    module = _Module(path)
    claims = {name: Claim("", module.loading(name)) for name in names}
    return PluginSource(name=str(path), claims=claims, folder=path.parent)


class _Module:
    """The module of a file, loaded once for all its tools."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded: ModuleType | None = None

    def loading(self, name: str) -> Load:
        """What gives the function of a name."""

        def load() -> Callable[..., Any]:
            if self._loaded is None:
                self._loaded = load_script(self._path, _PREFIX)
                check_version(self._loaded)
            return _marked(getattr(self._loaded, name, None), name)

        return load


def tool_names(text: str) -> list[str]:
    """The functions of a file that have `@tool` of `tenex.plugins`, by its syntax tree.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(text)
    words = {f"{_PACKAGE}.tool"}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in (_PACKAGE, "tenex"):
            for alias in node.names:
                local = alias.asname or alias.name
                if node.module == _PACKAGE and alias.name == "tool":
                    words.add(local)
                elif node.module == "tenex" and alias.name == "plugins":
                    words.add(f"{local}.tool")
        elif isinstance(node, ast.Import):
            words |= {f"{alias.asname}.tool" for alias in node.names if alias.name == _PACKAGE and alias.asname}
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(_dotted(decorator) in words for decorator in node.decorator_list)
    ]


def _dotted(node: ast.expr) -> str:
    """`a.b` of a decorator `@a.b`, and of `@a.b(...)`; empty for another expression."""
    if isinstance(node, ast.Call):
        node = node.func
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def _packages(allowed: Iterable[str]) -> Iterator[PluginSource]:
    for name in dict.fromkeys(allowed):
        try:
            distribution = metadata.distribution(name)
        except (metadata.PackageNotFoundError, ValueError):
            fault = "no package of this name is installed here. `pip list` of this Python shows what is"
            yield PluginSource(name=f"plugins.allow {name}", claims={}, faults=[f"{fault}."])
            continue
        entries = distribution.entry_points.select(group=GROUP)
        claims = {entry.name: Claim(entry.module, _loading(entry)) for entry in entries}
        yield PluginSource(name=f"{distribution.name} {distribution.version}", claims=claims)


def _loading(entry: metadata.EntryPoint) -> Load:
    """What gives the function of an entry point, which names it or a factory of it."""

    def load() -> Callable[..., Any]:
        if not entry.attr:
            raise ConfigurationError([f"its entry point {entry.name} names the module {entry.module} and no function."])
        value = load_object(f"{entry.module}:{entry.attr}", lambda other: hasattr(other, MARK), "tool")
        if not hasattr(value, MARK) and callable(value):
            value = value()
        function = _marked(value, entry.name)
        check_version(sys.modules.get(entry.module))
        return function

    return load


def _marked(value: Any, name: str) -> Callable[..., Any]:
    if not callable(value) or not hasattr(value, MARK):
        raise ConfigurationError([f"{name} is no function with `@tool` of tenex.plugins."])
    return value  # type: ignore[no-any-return]
