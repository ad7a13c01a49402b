"""The work that a mission wants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.config import Role
from tenex.core.effects import KindEffect
from tenex.core.ids import PublicKey

from .signals import NodeFailed
from .state import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun(KindEffect):
    """Run a mission's node.

    While it runs, its steps come and go under the same key: the newest of these values lists which may have their
    effect, and which have returned.
    """

    workflow: str
    node: str
    data: Mapping[str, Any]
    state: Mapping[str, Any]
    """As the node was entered with."""
    steps: Mapping[str, Step]
    attempt: int
    author: PublicKey | None = None
    """The user on whose behalf it works, as in `ExecutionContext`."""
    role: Role | None = None

    def cannot_run(self) -> NodeFailed:
        """The end of a node that this process cannot run."""
        sentence = f"this process cannot run the workflow {self.workflow}."
        return NodeFailed(key=self.key, who="operator", kind="NoWorkflows", message=sentence)
