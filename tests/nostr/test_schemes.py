"""Threading schemes: each that a module defines is in use."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from tenex.nostr import threading
from tenex.nostr.threading import SCHEMES
from tenex.nostr.threading.base import ThreadingScheme


def defined() -> Iterator[str]:
    """The names of the schemes that the modules of the package hold as values."""
    for module in iter_modules(threading.__path__):
        values = vars(import_module(f"{threading.__name__}.{module.name}")).values()
        yield from (value.name for value in values if isinstance(value, ThreadingScheme))


def test_every_scheme_that_a_module_defines_is_listed() -> None:
    assert {scheme.name for scheme in SCHEMES} == set(defined())
