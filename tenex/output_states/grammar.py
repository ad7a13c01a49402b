"""The grammar of an output, written from the graph that the parser follows.

What the grammar and the parser call right is the same, but for what `Grammar` itself lists. A model held to it cannot
write a state in the wrong order, a call of a tool that is not there, or, with `limits`, a thought beyond them.
"""

from dataclasses import dataclass
from typing import Final

from tenex.core.errors import ConfigurationError

from .content import FencedFreeformStateMachine, JsonStateMachine, PythonStateMachine, StateMachine, core_of
from .machine import DONE, AgentStateMachine, Plan, schema_faults
from .rules import EMPTY, SOME_SPACE, SPACE, GrammarRules, literal, text_until
from .schema_rules import SchemaRules

MOST_COUNTED: Final = 2000
"""Characters up to which a limit becomes rules, some 360 bytes for each; longer contents are only bounded by the
parser."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in GBNF, and where it and the parser differ."""

    text: str
    unsaid: tuple[str, ...]
    """What only the parser finds wrong."""
    narrower: tuple[str, ...]
    """What the parser takes and the grammar does not permit, beyond the spelling of names and fixed values."""


def grammar(machine: AgentStateMachine | Plan, *, limits: bool = True) -> Grammar:
    """The grammar of what a machine permits now.

    The limits of free text make most of its length: some 360 KB for a thousand characters. `limits=False` leaves them
    to the parser.

    It is a second's work where limits are in it: written once for a set of tools, not once for a request.

    llguidance 1.9 reads a rule that does not refer to itself as one word, and takes the longest: where some tools have
    parameters that refer to themselves and others have not, it permits fewer calls than llama.cpp and xgrammar do.

    Raises:
        ConfigurationError: a tool that has come since the machine was made has parameters that are no JSON Schema.
    """
    plan = machine.plan() if isinstance(machine, AgentStateMachine) else machine
    faults = [
        f"{name}: {fault}" for name, content in plan.contents.items() for fault in schema_faults(core_of(content))
    ]
    if faults:
        raise ConfigurationError(faults)
    return _Writer(plan, limits).written()


class _Writer:
    def __init__(self, plan: Plan, limits: bool) -> None:
        self.plan, self.limits = plan, limits
        self.rules = GrammarRules()
        self.contents: dict[str, str] = {}
        self.nodes: dict[tuple[str, int], str] = {}

    def written(self) -> Grammar:
        space = self.rules.named(SPACE, "w")
        root = self._node(self.plan.graph.initial, 0)
        text = self.rules.text(f"{space} {root}")
        return Grammar(text, tuple(self.rules.unsaid), tuple(self.rules.narrower))

    def _node(self, node: str, loops: int) -> str:
        """The rule for all that may follow at a node, which stands behind white space."""
        key = (node, loops)
        if key not in self.nodes:
            name = self.nodes[key] = self.rules.reserve("n")
            permitted = self.plan.graph.permitted(node, {"loops": loops})
            options = [
                self._state(target, loops) if target in self.plan.contents else self._node(target, loops)
                for target in permitted
            ]
            self.rules.rules[name] = " | ".join(options) or EMPTY
        return self.nodes[key]

    def _state(self, state: str, loops: int) -> str:
        machine = self.plan.contents[state]
        after = self.plan.after(state)
        rest = "" if after == DONE else f" {self._node(after, loops + 1)}"
        some = machine.ending.spaced and after != DONE
        space = self.rules.named(SOME_SPACE if some else SPACE, "w")
        if state not in self.contents:
            self.contents[state] = f"{literal(machine.delimiters[0])} {self._content(state, machine)}"
        return f"{self.contents[state]} {space}{rest}"

    def _content(self, state: str, machine: StateMachine) -> str:
        """The content with its closing delimiter."""
        core = core_of(machine)
        if isinstance(core, JsonStateMachine):
            self._unsaid(f"the length of {state} above {machine.char_max}")
            value = SchemaRules(self.rules, core.schema).value(core.schema)
            return f"{self.rules.named(SPACE, 'w')} {value} {self._closing(machine)}"
        if isinstance(core, PythonStateMachine):
            self._unsaid(f"whether {state} is Python")
        elif not isinstance(core, FencedFreeformStateMachine):
            self._unsaid(f"what {type(core).__name__} checks")
        bounded = self.limits and machine.char_max <= MOST_COUNTED
        least, most = (machine.char_min, machine.char_max) if bounded else (0, None)
        if not bounded:
            self._unsaid(f"the length of {state}")
        return text_until(self.rules, machine.ending, least, most)

    def _closing(self, machine: StateMachine) -> str:
        """White space and the delimiter, as one rule: some engines read each rule as greedily as it goes."""
        return self.rules.named(f"{SPACE} {literal(machine.delimiters[1])}", "c")

    def _unsaid(self, what: str) -> None:
        if what not in self.rules.unsaid:
            self.rules.unsaid.append(what)
