"""Everything that models are told in words: agents, phases, fragments, and the prompts made of them.

markdown            splits a text at its headings
agents guides       what an agent is, what a phase asks of it: one Markdown file each
templates           the only place where `{{ }}` means something
render              values in, prompt out
library             reads and checks it all before the daemon starts
"""

from .agents import AgentDefinition
from .loader import PromptLibrary, builtin_prompts
from .phase_guides import PhaseGuide

__all__ = ["AgentDefinition", "PhaseGuide", "PromptLibrary", "builtin_prompts"]
