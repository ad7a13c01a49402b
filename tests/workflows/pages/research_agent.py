"""The first example of pyagentic's page on phases."""

from tenex.workflows.agents import BaseAgent, spec, tool


class ResearchAgent(BaseAgent):
    __system_message__ = """
    You are a research agent.
    Current phase: {{ phase }}
    {% if phase == "planning" %}
    Focus on creating a research plan.
    {% elif phase == "research" %}
    Execute the research plan and gather data.
    {% elif phase == "analysis" %}
    Analyze the gathered data and form conclusions.
    {% endif %}
    """
    research_plan: spec.State[str] = spec.State(default="")
    data: spec.State[list[str]] = spec.State(default_factory=list)
    phases = [
        ("planning", "research", lambda self: bool(self.state.research_plan)),
        ("research", "analysis", lambda self: len(self.state.data) >= 3),
    ]

    @tool("Create a research plan", phases=["planning"])
    def create_plan(self, topic: str, approach: str) -> str:
        self.research_plan = f"Research {topic} using {approach}"
        return f"Plan created: {self.research_plan}"

    @tool("Gather research data", phases=["research"])
    def gather_data(self, query: str) -> str:
        result = f"Data for: {query}"
        self.data.append(result)
        return result

    @tool("Analyze data", phases=["analysis"])
    def analyze(self) -> str:
        return f"Analysis of {len(self.data)} data points"
