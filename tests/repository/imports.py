"""Which module of the package imports which: also within functions and for type checkers alone."""

from collections.abc import Collection, Mapping
from functools import cache

import grimp


@cache
def import_graph() -> Mapping[str, frozenset[str]]:
    """The modules that each module imports; `from package import name` counts as `package.name` where that is one."""
    graph = grimp.build_graph("tenex", cache_dir=None)
    return {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def rings(graph: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """The largest sets of modules in which each imports every other, directly or through others of the set."""
    reached = {module: _reached_from(module, graph) for module in graph}
    members = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(tuple(sorted(ring)) for ring in members)


def reached_from_package(package: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    """The modules outside of a package that are loaded because one within it is."""
    inside = [module for module in graph if modules_within([package], [module])]
    return {reached for module in inside for reached in _reached_from(module, graph)} - set(inside)


def modules_within(packages: Collection[str], modules: Collection[str]) -> list[str]:
    """Those of the modules that are one of these packages, or in one."""
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in packages))


def _reached_from(module: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    """The modules that are loaded because this one is; itself only where a ring leads back to it."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph.get(waiting.pop(), frozenset()) - reached
        reached |= new
        waiting += new
    return reached
