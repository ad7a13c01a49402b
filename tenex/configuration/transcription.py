"""What transcribes voice notes, as the settings say it: a model behind the protocol of OpenAI, or a command."""

from dataclasses import dataclass, field
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.settings import ProjectPaths, Settings
from tenex.settings.paths import KEY_SUFFIX

from .models import client_config

OPENAI: Final = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    """A command, else a server and its model."""

    command: tuple[str, ...] = ()
    server: str = ""
    """Its address up to `/audio/transcriptions`."""
    model: str = ""
    api_key: str | None = field(default=None, repr=False)


def transcription_of(settings: Settings, places: ProjectPaths) -> Transcription | None:
    """What `models.transcription` names; None where it names nothing. Reads files of keys.

    Raises:
        ConfigurationError: its provider cannot transcribe.
    """
    given = settings.models.transcription
    if isinstance(given, list):
        return Transcription(command=tuple(given))
    if not given:
        return None
    name, _, model = given.partition(":")
    provider = client_config(settings, places)[0].provider(name)
    if provider.protocol != "openai":
        raise ConfigurationError(
            [f'models.transcription: the kind of the provider {name} must be "openai", whose protocol is used']
        )
    if provider.base_url is None and provider.api_key is None:
        place = places.keys / f"{name}{KEY_SUFFIX}"
        raise ConfigurationError([f"models.transcription: the provider {name} has no key; put it into {place}"])
    server = (provider.base_url or OPENAI).rstrip("/")
    return Transcription(server=server, model=model, api_key=provider.api_key)
