"""Loads files and Python modules of an operator."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType

from tenex.core.errors import ConfigurationError, UntrustedFolder
from tenex.core.file_guard import guarded
from tenex.core.text.foreign import decode

Stamp = tuple[int, int] | None
"""Of a file: when it was changed, in ns, and its bytes; None where there is none."""

LARGEST = 1_048_576
"""Bytes of a file: a graph of a thousand rules has less than a quarter of that."""

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
REFERENCE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def read_text(path: Path) -> str:
    """What a file holds; raises ConfigurationError where it cannot be read, is too large, or is no UTF-8."""
    try:
        with path.open("rb") as file:
            data = guarded(path, file.read(LARGEST + 1))
    except OSError as fault:
        raise ConfigurationError(
            [f"{path} cannot be read: {fault.strerror}. Check the path and its rights."]
        ) from fault
    if len(data) > LARGEST:
        raise ConfigurationError([f"{path} is larger than {LARGEST} bytes; that is no graph anybody wrote."])
    try:
        return decode(data)
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise ConfigurationError([f"{path}: line {line} is not UTF-8; save the file as UTF-8."]) from fault
    except ValueError as fault:
        raise ConfigurationError([f"{path} {fault}."]) from fault


def load_object(reference: str, is_meant: Callable[[object], bool], what: str) -> object:
    """What `package.module:name` names; raises ConfigurationError with what to do.

    Where there is no such name, the sentence lists those for which `is_meant`, as `what`.
    """
    parts = REFERENCE.fullmatch(reference)
    if parts is None:
        raise ConfigurationError([f"{reference} is not of the form package.module:name; write it so."])
    module = parts["module"]
    name = parts["name"]
    found = load_module(module, reference)
    value: object = found
    for part in name.split("."):
        if not hasattr(value, part):
            there = [key for key, other in vars(found).items() if is_meant(other)]
            known = f"The {what}s there: {', '.join(there)}." if there else f"There is no {what} there."
            raise ConfigurationError([f"{reference}: {module} has no {name}. {known}"])
        value = getattr(value, part)
    return value


def load_module(module: str, reference: str = "") -> ModuleType:
    """The module of that dotted name; raises ConfigurationError with what to do, about `reference`."""
    reference = reference or module
    if not _MODULE.fullmatch(module):
        raise ConfigurationError([f"{reference} is neither a module nor of the form package.module:name."])
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as fault:
        if fault.name and (module == fault.name or module.startswith(f"{fault.name}.")):
            raise ConfigurationError(
                [f"{reference}: there is no module {fault.name}. Install it, or set PYTHONPATH to its folder."]
            ) from fault
        raise ConfigurationError([f"{reference}: {module} needs {fault.name}, which is not installed."]) from fault
    except Exception as fault:  # user code may fail in any way
        raise ConfigurationError(
            [f"{reference}: {module} failed while it was imported: {type(fault).__name__}: {fault}. Correct it."]
        ) from fault
    _remember(module.partition(".")[0])
    return found


def changed_since(references: Iterable[str]) -> list[str]:
    """Of the packages that references name, those whose files are not what they were when they were imported.

    Python imports a module once; only a new process reads it again.
    """
    packages = dict.fromkeys(reference.partition(":")[0].partition(".")[0] for reference in references)
    return [name for name in packages if _stamps(_IMPORTED.get(name, {})) != _IMPORTED.get(name, {})]


_IMPORTED: dict[str, dict[str, Stamp]] = {}
"""The files of each package as they were when it was first asked for, and those of modules it has imported since."""


def _remember(package: str) -> None:
    files = [
        str(file)
        for name, module in tuple(sys.modules.items())
        if name.partition(".")[0] == package and (file := getattr(module, "__file__", None)) is not None
    ]
    known = _IMPORTED.setdefault(package, {})
    known.update(_stamps([file for file in files if file not in known]))


def _stamps(files: Iterable[str]) -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for file in files:
        try:
            known = Path(file).stat()
            found[file] = known.st_mtime_ns, known.st_size
        except OSError:
            found[file] = None
    return found


def load_script(path: Path, prefix: str) -> ModuleType:
    """Load a Python file of an operator again, as the module `<prefix>_<name of the file>`.

    Within `importing_from` its folder, the module that was loaded there already.

    Raises:
        ConfigurationError: it failed in any way.
    """
    finder = next((one for one in sys.meta_path if isinstance(one, _Siblings) and one.folder == path.parent), None)
    return finder.load(path) if finder is not None else _loaded(path, prefix)


@contextmanager
def importing_from(folder: Path, prefix: str) -> Iterator[None]:
    """Let the Python files of a folder import each other by name, each loaded once; installed modules come first."""
    if any(isinstance(one, _Siblings) and one.folder == folder for one in sys.meta_path):
        yield
        return
    for name, module in _SIBLINGS.items():
        if sys.modules.get(name) is module:  # of the files as they were read before
            del sys.modules[name]
    _SIBLINGS.clear()
    finder = _Siblings(folder, prefix)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


_SIBLINGS: dict[str, ModuleType] = {}
"""Files that others of their folder have imported, by the name they were imported by."""


class _Siblings(MetaPathFinder, Loader):
    """Finds the Python files of one folder."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self._prefix = prefix
        self._modules: dict[Path, ModuleType] = {}

    def load(self, path: Path) -> ModuleType:
        """The module of a file, loaded the first time."""
        if path not in self._modules:
            self._modules[path] = _loaded(path, self._prefix)
        return self._modules[path]

    def find_spec(self, fullname: str, path: object, _target: object = None) -> ModuleSpec | None:
        """A file of that name."""
        is_here = path is None and (self.folder / f"{fullname}.py").is_file()
        return ModuleSpec(fullname, self) if is_here else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the file, which is loaded under a name of its own."""
        _SIBLINGS[spec.name] = self.load(self.folder / f"{spec.name}.py")
        return _SIBLINGS[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It was run when it was loaded."""


def _loaded(path: Path, prefix: str) -> ModuleType:
    name = f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsItIs(name, str(path)))
    if spec is None or spec.loader is None:
        raise ConfigurationError([f"{path} cannot be loaded as a Python module."])
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except UntrustedFolder:
        _restore(name, before)
        raise
    except ConfigurationError as fault:
        _restore(name, before)
        raise ConfigurationError([f"{path}: {sentence}" for sentence in fault.faults]) from fault
    except (Exception, SystemExit) as fault:  # user code may fail in any way
        _restore(name, before)
        lines = [frame.lineno for frame in extract_tb(fault.__traceback__) if frame.filename == str(path)]
        what = f"{f'line {lines[-1]}: ' if lines else ''}{type(fault).__name__}: {fault}"
        raise ConfigurationError(
            [f"{path}: it failed while it was loaded: {what.removesuffix('.')}. Fix it."]
        ) from fault
    return module


class _AsItIs(SourceFileLoader):
    """Reads the file, and no bytecode beside it: that is known by its second and size, and a reload may come sooner."""

    def get_code(self, fullname: str) -> CodeType:
        """The file's code."""
        data = guarded(self.path, self.get_data(self.path))
        return self.source_to_code(data, self.get_filename(fullname))


def _restore(name: str, module: ModuleType | None) -> None:
    if module is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = module
