"""A state of output of one's own, in which `critic.md` plans: what may go wrong, in private.

It is called without arguments. The text of `state_prompt` is in the system prompt, after the name.
"""

from tenex import AgentState, FencedFreeformStateMachine, StateMachine


class Risks(AgentState):
    """Free text between two tags."""

    def __init__(self) -> None:
        super().__init__(
            identifier="risks",  # in the journal its text follows this
            readable_name="Risks",
            delimiters=("<risks>", "</risks>"),
            color="dim red",
            emoji="⚠",
        )

    @property
    def state_machine(self) -> StateMachine:
        return FencedFreeformStateMachine(self.identifier, self.delimiters, 20, 1000)  # characters, least and most

    @property
    def state_prompt(self) -> str:
        return f"List what may go wrong, the worst first. 20 to 1000 characters, written so:\n{self.format('...')}"
