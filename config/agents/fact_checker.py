"""Checks what a text claims: an agent in Python, with phases, tools and a sub-agent of its own.

In the folder `agents` of the data folder it has a key and a profile. It is called after the file, its sub-agent after
the class. What is marked here is all there is: fields of state, pairs of phases, a link, methods that its model calls.
"""

from typing import Literal

from tenex import AgentLink, BaseAgent, Link, State, tool


class Skeptic(BaseAgent):
    """Called like a tool: it sees the message of the call and nothing else, and its answer is the call's result."""

    __description__ = "Looks for what speaks against one claim; say the claim and all you know about it"
    __system_message__ = "Say what speaks against the claim you are told, and how sure you are. Be brief."
    kind = "expert"  # it advises; a worker may change and run things, where it is given the tools
    tools = ("read_file", "search_files")  # of the daemon's own


class FactChecker(BaseAgent):
    """Its model is offered, in each phase, what belongs there; a call of anything else is refused.

    The words below are filled in when its work begins and when its phase changes.
    """

    __description__ = "Checks what a text claims, claim by claim"
    __system_message__ = """
    You check what a text claims. You are in the {{ phase }} phase.
    {% if phase == "collecting" %}
    List what the text claims, each claim as one sentence.
    {% elif phase == "checking" %}
    Settle each of these claims; ask the skeptic where you are not sure.
    {% for claim in claims %}- {{ claim }}
    {% endfor %}
    {% else %}
    Say what holds and what does not: {{ verdicts }}
    {% endif %}
    """
    kind = "expert"
    use_when = "somebody wants to know whether a text is right"
    tools = ("read_file", "list_files", "search_files")

    # What it knows lasts from turn to turn and over restarts, and is journaled: JSON, checked against its types.
    claims: State[list[str]] = State(default_factory=list)
    verdicts: State[dict[str, str]] = State(default_factory=dict)

    # Asked after each answer, each result and each sub-agent's end: one step at most, the first that is true.
    phases = [
        ("collecting", "checking", lambda self: bool(self.claims)),
        ("checking", "concluding", lambda self: all(claim in self.verdicts for claim in self.claims)),
    ]

    skeptic: Link[Skeptic] = AgentLink(phases=["checking"])

    @tool("List every claim of the text", phases=["collecting"])
    def list_claims(self, claims: list[str]) -> str:
        self.claims = claims
        return f"{len(claims)} claims are to be settled."

    @tool("Settle one claim, in the words you listed it in", phases=["checking"])
    def settle(self, claim: str, verdict: Literal["true", "false", "unknown"], because: str) -> str:
        if claim not in self.claims:  # what raises changes nothing, and the model reads the sentence
            raise ValueError(f"no such claim was listed; there are: {'; '.join(self.claims)}")
        self.verdicts[claim] = f"{verdict}: {because}"
        return f"{len(self.claims) - len(self.verdicts)} are open."
