"""Which files a phase lets a call change.

The core decides in which phases tools that change or run may be called (`core/people/permissions.py`). Verification
runs programs and changes nothing; chores change documentation and what this cycle has changed already.
"""

from tenex.core.phases import PHASES, Phase
from tenex.core.ports import ExecutionContext

from .tool import Refusal
from .workspace import is_documentation


def is_confined(phase: Phase) -> bool:
    """Whether there are files that a call may not change in this phase."""
    return PHASES[phase].is_confined


def may_change(path: str, context: ExecutionContext) -> bool:
    """Whether a call may change a file, by its path relative to the workspace."""
    if PHASES[context.phase].changes_only_own:
        return path in context.touched or is_documentation(path)
    return not is_confined(context.phase)


def check_chores(path: str, context: ExecutionContext) -> None:
    """Refuse, in chores, what is neither a file this cycle has changed nor documentation.

    Raises:
        Refusal: it is neither.
    """
    if PHASES[context.phase].changes_only_own and not may_change(path, context):
        mine = ", ".join(sorted(context.touched)[:20]) or "none"
        raise Refusal(
            f"{path} may not be changed in the {context.phase} phase: it is neither documentation nor a file this "
            f"cycle has changed ({mine}). Leave it, and name it in your summary if it needs work."
        )
