"""Kinds of conversation: the seven phases, speakers (AG2), missions (pydantic-graph); and Python agents (pyagentic).

Importing the package registers them.
"""

from tenex.core.mode import register

from .missions.mode import MissionsMode
from .phases.mode import PhasesMode
from .speakers.mode import SpeakersMode

register(SpeakersMode(), MissionsMode(), PhasesMode())
