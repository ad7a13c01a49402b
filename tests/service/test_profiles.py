"""What a person sees of our keys: each profile is a sentence that says what it is and whose."""

import json
from pathlib import Path

from tenex.nostr.keys import npub

from . import person
from .kit import Folder, daemon


async def test_the_profile_of_an_agent_is_a_sentence_and_says_whose_it_is(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    async with daemon(folder):
        await person.until(lambda: True)
        profiles: dict[str, dict[str, object]] = {}
        while "Executor" not in profiles:
            found = [json.loads(event["content"]) for event in await person.stored(relay, kinds=[0])]
            profiles = {profile["name"]: profile for profile in found}
    owner = npub(folder.owner.public)
    assert profiles["Executor"]["about"] == (
        f"An agent of the project tenex of nostr:{owner}, which changes files, tries out what it made and tidies up in "
        "the workspace. It is a program, not a person."
    )
    assert all(profile["bot"] is True for profile in profiles.values())
