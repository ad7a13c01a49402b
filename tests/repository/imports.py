"""Which module of the package imports which: also within functions and for type checkers alone."""

from collections.abc import Mapping
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


def _reached_from(module: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    """The modules that are loaded because this one is; itself only where a ring leads back to it."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph.get(waiting.pop(), frozenset()) - reached
        reached |= new
        waiting += new
    return reached
