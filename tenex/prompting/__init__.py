"""Agents, phase guides and fragments, and the prompts made of them.

markdown            splits a text at its headings
frontmatter         front matter into pydantic models, with the line of each error
agent_phases        an agent's own phases and state, and its text as templates
agents phase_guides one Markdown file each
templates           the Jinja sandbox
render              values in, prompt out
loader              reads and checks everything before the daemon starts
prompter            the prompts of a conversation: implements the core's port
"""

from .agents import AgentDefinition
from .loader import DisabledAgent, PromptLibrary, builtin_prompts
from .phase_guides import PhaseGuide

__all__ = ["AgentDefinition", "DisabledAgent", "PhaseGuide", "PromptLibrary", "builtin_prompts"]
