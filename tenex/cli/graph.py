"""`tenex graph`: the graph that permits, drawn from the table the program runs by.

Never: a table of its own.
"""

from tenex.core.phases import PHASE_TRANSITIONS

from . import output
from .options import JsonOption, group

graph = group("Draw what may follow what.")


@graph.callback()
def _graph() -> None:
    """Draw what may follow what."""


@graph.command()
def show(as_json: JsonOption = False) -> None:
    """Print the seven phases and their transitions, as a Mermaid diagram."""
    if not as_json:
        output.result(PHASE_TRANSITIONS.mermaid().rstrip("\n"))
        return
    output.result_json(
        {
            "initial": str(PHASE_TRANSITIONS.initial),
            "nodes": [str(node) for node in PHASE_TRANSITIONS.nodes],
            "edges": [{"from": edge.source, "to": edge.target} for edge in PHASE_TRANSITIONS.edges],
            "terminal": [node for node in PHASE_TRANSITIONS.nodes if node in PHASE_TRANSITIONS.terminal],
        }
    )
