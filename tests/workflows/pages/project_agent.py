"""The second example of pyagentic's page on phases: an agent with sub-agents, each there in its phase."""

from tenex.workflows.agents import BaseAgent, Link, spec, tool


class PlannerAgent(BaseAgent):
    __system_message__ = "I create detailed plans"
    __description__ = "Planning specialist for strategy development"


class ExecutorAgent(BaseAgent):
    __system_message__ = "I execute plans"
    __description__ = "Execution specialist for implementing plans"


class ReviewerAgent(BaseAgent):
    __system_message__ = "I review completed work"
    __description__ = "Quality assurance and review specialist"


class ProjectAgent(BaseAgent):
    __system_message__ = """
    You manage projects through phases: {{ phase }}
    """
    plan: spec.State[str] = spec.State(default="")
    execution_complete: spec.State[bool] = spec.State(default=False)
    phases = [
        ("planning", "execution", lambda self: bool(self.plan)),
        ("execution", "review", lambda self: self.execution_complete),
    ]
    planner: Link[PlannerAgent] = spec.AgentLink(phases=["planning"])
    executor: Link[ExecutorAgent] = spec.AgentLink(phases=["execution"])
    reviewer: Link[ReviewerAgent] = spec.AgentLink(phases=["review"])

    @tool("Save the project plan", phases=["planning"])
    def save_plan(self, plan_text: str) -> str:
        self.plan = plan_text
        return "Plan saved"

    @tool("Mark execution complete", phases=["execution"])
    def complete_execution(self) -> str:
        self.execution_complete = True
        return "Execution marked complete"
