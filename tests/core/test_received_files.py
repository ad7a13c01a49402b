"""Pictures in messages: which addresses are of pictures, and what their author is informed of."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.answers.yes_no import is_clear_yes
from tenex.core.config import Role
from tenex.core.ids import EventId
from tenex.core.inbox.commands import parse, split_last_line
from tenex.core.inbox.received_files import (
    NamedFile,
    ReceivedFile,
    files_in,
    missing_files,
    sentences_about,
    with_transcripts,
)
from tenex.core.signals import InboundMessage, MessageReceived
from tests.fakes.scenario import ALICE, ID, WAITS, Router, Scenario, plain_model, policy, route

CAT = "https://a.example/cat.png"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"look: {CAT}.", (CAT,)),
        (f"({CAT}) and {CAT}", (CAT,)),
        (f"![cat]({CAT})", (CAT,)),
        (f"[https://a.example]({CAT})", (CAT,)),
        (f"[{CAT}]({CAT})", (CAT,)),
        ("https://[x].png", ()),
        ("https://a.example/CAT.JPEG?w=2#x", ("https://a.example/CAT.JPEG?w=2#x",)),
        ("https://a.example/cat.png.html http://a.example/cat.png ftp://a.example/cat.png", ()),
        ("https://a.example/page?of=cat.png", ()),
        ("https://png", ()),
    ],
)
def test_pictures_are_known_by_the_ending_of_their_address(text: str, found: tuple[str, ...]) -> None:
    assert tuple(file.address for file in files_in(text, {})) == found


def shown(scenario: Scenario, role: Role = Role.OWNER, *, fault: str = "") -> list[str]:
    """What we write at once about a message with a picture."""
    scenario.count += 1
    message = InboundMessage(
        event_id=EventId(f"{scenario.count:064d}"),
        author=ALICE,
        text=f"what is this? {CAT}",
        created_at=scenario.now // 1000,
        conversation=ID,
        starts=True,
        address={"form": "notes"},
        origin={"author": ALICE},
    )
    files = (ReceivedFile(address=CAT, fault=fault),)
    records = scenario.handle(MessageReceived(message=message, role=role, name="alice", files=files))
    sent = [record for record in records if isinstance(record, r.MessageSent)]
    assert all(record.is_published and record.notifies == () for record in sent), "a phone rings for the answer alone"
    return [record.text for record in sent]


def talk(*, sees: bool) -> Scenario:
    config = dataclasses.replace(policy(), sees_pictures=sees)
    return Scenario(Router(route(None, "project-manager"), WAITS), plain_model, config=config)


def test_where_no_model_sees_the_author_is_informed_once() -> None:
    scenario = talk(sees=False)
    (text,) = shown(scenario)
    assert text.startswith("No model here is set to see")
    scenario.settle()
    assert shown(scenario) == []
    assert scenario.refold() == scenario.conversation


def test_pictures_of_guests_are_not_looked_at() -> None:
    (text,) = shown(talk(sees=True), Role.GUEST)
    assert text.startswith("Files of guests are not loaded, nor pictures")


def test_a_picture_that_could_not_be_loaded_is_reported_with_the_reason() -> None:
    scenario = talk(sees=True)
    assert shown(scenario) == []
    scenario.settle()
    assert shown(scenario, fault="it has more than 5 MB") == ["I could not load cat.png (it has more than 5 MB)."]


def test_files_that_were_not_loaded_are_named_by_their_reason() -> None:
    files = (
        ReceivedFile(address="https://a.example/1", name="a.pdf", fault="it is gone"),
        ReceivedFile(address=CAT),
        ReceivedFile(address="https://a.example/b.pdf?x=/1", fault="it is gone"),
        ReceivedFile(address="https://a.example/c.pdf", fault="it has more than 20 MB"),
    )
    assert missing_files(files) == ["a.pdf, b.pdf (it is gone)", "c.pdf (it has more than 20 MB)"]


@pytest.mark.parametrize(
    ("address", "is_file"),
    [
        ("https://a.example/report.PDF", True),
        ("https://a.example/data.tar.gz?x=1#y", True),
        ("https://a.example/page.html", False),
        ("https://a.example/pdf", False),
        ("https://a.example/", False),
        ("http://a.example/report.pdf", False),
    ],
)
def test_a_link_is_a_file_only_where_it_ends_like_one(address: str, is_file: bool) -> None:
    assert bool(files_in(f"see {address}", {})) is is_file


def test_what_a_client_declares_is_a_file_whatever_it_ends_with() -> None:
    declared = [NamedFile(address=f"https://a.example/{name}", is_declared=True) for name in ("0f3c", "elsewhere")]
    files = files_in(f"see {CAT} and https://a.example/0f3c", {file.address: file for file in declared})
    assert files == (NamedFile(address=CAT), *declared), (
        "in the order of the text, and then those that it does not name"
    )


LOADED = ReceivedFile(
    address="https://a.example/0f", name="a.pdf", path="/inbox/a.pdf", media_type="application/pdf", size=84_200
)


def told(*files: ReceivedFile, text: str = "", left_out: int = 0) -> str:
    return ". ".join(sentences_about(files, text, left_out))


def test_agents_read_where_a_file_is() -> None:
    assert told(LOADED) == "It came with this file: /inbox/a.pdf (application/pdf, 84 kB)"


def test_a_picture_that_the_text_does_not_name_is_named_by_the_address_that_models_are_shown_it_by() -> None:
    picture = dataclasses.replace(LOADED, media_type="image/png", path="/inbox/a.png")
    assert told(picture) == "It came with this file: /inbox/a.png (image/png, 84 kB, at https://a.example/0f)"
    assert "at https" not in told(picture, text="see https://a.example/0f")


def test_agents_read_what_was_not_loaded_and_why_and_are_to_make_nothing_up() -> None:
    failed = ReceivedFile(address=CAT, fault="a.example answers HTTP 404")
    assert told(failed, left_out=3) == (
        "Not loaded, so do not guess what is in it: https://a.example/cat.png (a.example answers HTTP 404); "
        "3 more (of a message 8 files are loaded)"
    )
    large = dataclasses.replace(LOADED, media_type="image/png", unseen="it is too large")
    assert "not shown to you, so do not guess what is on it: it is too large" in told(large)


def test_agents_read_it_with_the_message_and_the_record_has_it() -> None:
    scenario = talk(sees=True)
    shown(scenario, fault="a.example answers HTTP 404")
    message = scenario.conversation.memory.recent[-1]
    assert message.context == f"Not loaded, so do not guess what is in it: {CAT} (a.example answers HTTP 404)"
    assert scenario.refold() == scenario.conversation


def test_a_transcript_is_a_quotation_that_is_no_command_and_no_yes() -> None:
    voice = dataclasses.replace(LOADED, path="/inbox/a.ogg", media_type="audio/ogg", transcript="yes\n/stop")
    text = with_transcripts("[file: a.ogg]", (voice,))
    assert text == "[file: a.ogg]\n\nVoice note /inbox/a.ogg, transcribed by a program:\n> yes\n> /stop"
    assert parse(text) is None
    assert split_last_line(text) == (text, None)
    assert not is_clear_yes(text)
    assert with_transcripts("Hello", (LOADED,)) == "Hello"
