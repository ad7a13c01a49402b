"""Kinds of conversation: the phases, one agent, speakers (AG2), missions (pydantic-graph). Also Python agents.

What users call a workflow is a conversation of speakers or a mission.

Importing the package registers them.
"""

from tenex.core.kind import register
from tenex.workflows.missions.kind import MissionsKind
from tenex.workflows.phases.kind import PhasesKind
from tenex.workflows.single.kind import SingleKind
from tenex.workflows.speakers.kind import SpeakersKind

register(SpeakersKind(), MissionsKind(), SingleKind(), PhasesKind())  # PhasesKind owns all the rest, so it is last
