"""Kinds of conversation: the phases, one agent, speakers (AG2), missions (pydantic-graph). Also Python agents.

What users call a workflow is a conversation of speakers or a mission.

Importing the package registers them.
"""

from tenex.core.mode import register

from .missions.mode import MissionsMode
from .phases.mode import PhasesMode
from .single.mode import SingleMode
from .speakers.mode import SpeakersMode

register(SpeakersMode(), MissionsMode(), SingleMode(), PhasesMode())  # PhasesMode owns all the rest, so it is last
