"""No text of others becomes a part of a page: not a message, a name of a file, a result, a model or an agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey
from tenex.core.port_values import UnsignedEvent
from tenex.core.projection import project
from tenex.core.text.foreign import well_formed
from tenex.operations.asks import Ask, Replied, ShownCall
from tenex.operations.doctor.findings import fault
from tenex.web import maps
from tenex.web.export import as_html
from tenex.web.maps import map_of
from tenex.web.rendering import markdown, matched, page
from tenex.web.story import Story
from tenex.web.talk import checks_of
from tenex.web.timeline import timeline_of
from tenex.web.waiting import Stuck
from tests.cli.journals import ONE, TWO
from tests.kits.hostile_pages import harmless, poisoned, poisoned_all
from tests.kits.lived import lived
from tests.kits.pages import MENU

from .hostile import CORPUS
from .kit import Page, Served, asking, rewrite, served

OURS = """
    html head meta title link script body a header nav ul li main p form input button footer span h1 h2 section div
    label textarea details summary svg rect text polyline table caption thead tbody tr th td dl dt dd ol time b pre
    code mark select option optgroup style path bdi
    aside dialog kbd
"""
KNOWN = frozenset(OURS.split()) | {"h3", "h4", "h5", "h6", "em", "strong", "blockquote", "hr", "br"}
ATTRIBUTES = """
    lang dir charset name content href rel type src class id aria-label aria-current aria-labelledby aria-hidden role
    tabindex method action value for rows cols maxlength required placeholder selected open data-stream data-part
    data-open data-seq data-under data-node data-src hidden d
    text-anchor scope width height x y rx viewbox points title autocomplete spellcheck http-equiv start
    datetime autofocus label
"""


def test_the_corpus_is_as_large_as_it_claims() -> None:
    assert len(CORPUS) >= 200


def check(html: str, base: str) -> Page:
    """Refuse what no page of ours has."""
    made = Page(html)
    for element in made.elements:
        assert element.name in KNOWN, element
        assert set(element.attributes) <= set(ATTRIBUTES.split()), element
        target = element.attributes.get("href", element.attributes.get("action", base))
        is_of_message = element.attributes.get("rel") == "noreferrer noopener nofollow"
        starts = ("https://", "http://", "nostr:") if is_of_message else (f"{base}/", "#", base)
        assert target.startswith(starts), element
        if element.name == "script":
            assert element.attributes["src"].startswith(f"{base}/static/")
            assert not element.text
    return made


def story_html(name: ConversationId, text: str) -> str:
    """The story of a poisoned conversation, and all that is shown beside it."""
    story = Story(name)
    entries = []
    for decision in harmless():
        for record in decision:
            entries += story.take(poisoned(record, text))
    shown = project(story.state)
    values: dict[str, Any] = {"base": "/b", "id": name, "is_file": False, "is_whole": True, "shown": shown}
    values |= {"checks": checks_of(story.state), "is_part": True, "seqs": set[int]()}
    drawn = timeline_of(shown)
    parts = [page("head.html", values), page("turns.html", values)]
    parts.append(page("entries.html", {**values, "entries": entries}))
    parts += [page("entry_part.html", {**values, "entry": entry}) for entry in entries if entry.parts]
    parts.append(page("timeline.html", {**values, "timeline": drawn}))
    parts.append(page("map.html", {**values, "map": map_of(story.state, story.ways)}))
    return "".join(parts)


def name_of_lived() -> ConversationId:
    return lived(0).conversation.id


@pytest.mark.parametrize("part", range(10))
def test_no_text_of_others_becomes_part_of_a_story(part: int) -> None:
    """Through notes, answers, names, reasons, refusals, arguments, results, file names, errors and models."""
    for text in CORPUS[part::10]:
        made = check(story_html(name_of_lived(), well_formed(text)), "/b")
        assert len(made.of_class("entry")) > 50


@pytest.mark.parametrize("text", CORPUS[::4])
def test_messages_and_excerpts_are_only_text_links_and_form(text: str) -> None:
    check(str(markdown(text)), "/b")
    check(str(matched(f"a \x02{text}\x03 b {text}")), "/b")
    assert "\u202e" not in str(markdown(text))


def test_an_exported_page_has_no_script_and_forbids_all_but_its_style() -> None:
    for text in CORPUS[::25]:
        records = [poisoned(record, well_formed(text)) for decision in harmless() for record in decision]
        html = as_html(name_of_lived(), records)
        made = Page(html)
        assert not made.all("script")
        (policy,) = made.all("meta", **{"http-equiv": "Content-Security-Policy"})
        assert policy.attributes["content"].startswith("default-src 'none'; style-src 'sha256-")
        for element in made.elements:
            assert element.name in KNOWN, element
            assert not [name for name in element.attributes if name.startswith("on")], element
            assert element.attributes.get("href", "#").startswith(("#", "http://", "https://", "nostr:")), element


BLOCKS = """
    title p li h1 h2 h3 h4 h5 h6 td th dd summary label button pre textarea blockquote option
"""


def check_directions(made: Page, words: str) -> int:
    """Refuse words of others whose direction the English around them would decide; return how many there are.

    Drawings and differences of files run from left to right.
    """
    shown = 0
    for text, within in made.texts:
        names = [element.name for element in within]
        if words not in text or "svg" in names or "diff" in within[-2].attributes.get("class", ""):
            continue
        last_block = max(place for place, name in enumerate(names) if name in BLOCKS.split())
        isolated = [e for e in within[last_block:] if e.name == "bdi" or e.attributes.get("dir") == "auto"]
        assert isolated, (text, within)
        shown += 1
    for element in made.elements:
        if words in element.attributes.get("value", "") and element.attributes.get("type") != "hidden":
            assert element.attributes["dir"] == "auto", element
            shown += 1
    return shown


def test_each_block_of_a_message_has_the_direction_of_its_own_words() -> None:
    text = "# שלום\n\nhello\n\nمرحبا\n\n- עברית\n\n> ציטוט\n\n| א | b |\n|---|---|\n| ג | d |\n\n```\ncode\n```"
    made = Page(str(markdown(text)))
    assert [e.name for e in made.elements if e.attributes.get("dir") == "auto"] == (
        ["h3", "p", "p", "li", "blockquote", "p", "th", "th", "td", "td"]
    )
    (long_text,) = Page(str(markdown("שלום " * 2_000))).all("pre")
    assert long_text.attributes["dir"] == "auto"


async def test_words_from_right_to_left_have_their_direction_on_every_page(data: Path) -> None:
    words = "שלום עולם"
    assert check_directions(Page(story_html(name_of_lived(), words)), words) > 100
    records = [poisoned(record, words) for decision in harmless() for record in decision]
    assert check_directions(Page(as_html(name_of_lived(), records)), words) > 100

    def repeated() -> Iterator[str]:
        while True:
            yield words

    conversations = {
        ONE: poisoned_all(ONE, harmless(), repeated()),
        TWO: poisoned_all(TWO, asking().journal, repeated()),
    }
    await rewrite(data, conversations)
    async with served(data) as pages:
        paths = ["/", "/conversations", f"/conversations?q={words}", f"/c/{ONE}", f"/c/{TWO}", f"/c/{ONE}/usage"]
        for path in (*paths, f"/c/{ONE}/at", f"/c/{ONE}/back/20"):
            assert check_directions(await pages.get(path), words), path


async def test_whole_pages_with_hostile_texts_everywhere(data: Path, tmp_path: Path) -> None:
    """What is in titles, lists, forms, addresses and streams too."""
    texts = (well_formed(text) for _ in range(20) for text in CORPUS)
    conversations = {ONE: poisoned_all(ONE, harmless(), texts), TWO: poisoned_all(TWO, asking().journal, texts)}
    await rewrite(data, conversations)
    async with served(data) as pages:
        base = pages.site.base
        of_conversations = ("/conversations?q=script", f"/c/{ONE}", f"/c/{TWO}", f"/c/{ONE}/usage")
        for path in (*(page.path for page in MENU), *of_conversations):
            answer = await pages.client.get(f"{pages.base}{path}", headers={"accept": "text/html"})
            assert answer.status_code == 200, answer.text
            check(answer.text, base)
        for text in CORPUS[::10]:
            fields = {"q": text, "agent": text, "status": text, "since": text}
            answer = await pages.client.get(f"{pages.base}/conversations", params=fields)
            check(answer.text, base)
            answer = await pages.client.get(f"{pages.base}/c/{text.encode('utf-8', 'replace').hex()}x")
            assert answer.status_code == 404
            check(answer.text, base)


SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"


def test_what_looks_like_a_secret_key_is_on_no_page() -> None:
    text = f"my key is {SECRET} and sk-abcdefghijklmnop0123"
    assert SECRET not in story_html(name_of_lived(), text)
    assert "sk-abcdefghij" not in story_html(name_of_lived(), text)
    records = [poisoned(record, text) for decision in harmless() for record in decision]
    html = as_html(name_of_lived(), records)
    assert SECRET not in html
    assert "[redacted]" in html


def test_a_hostile_story_is_the_same_conversation() -> None:
    """The corpus is shown, and not dropped."""
    state = fold(name_of_lived(), [poisoned(record, "<b>x</b>") for decision in harmless() for record in decision])
    assert state.identity.title == "<b>x</b>"
    assert "&lt;b&gt;x&lt;/b&gt;" in story_html(name_of_lived(), "<b>x</b>")


async def test_a_name_in_the_settings_is_a_text_too(data: Path) -> None:
    file = next(path for path in (data / "tenex.toml", data / "config" / "tenex.toml") if path.exists())
    file.write_text(file.read_text() + '\n[project]\nname = "<img src=x onerror=alert(1)>"\n')
    async with served(data) as pages:
        made: Served = pages
        answer = await made.client.get(f"{made.base}/conversations")
        assert "&lt;img src=x" in answer.text
        check(answer.text, made.site.base)


EVENT = UnsignedEvent(id=EventId("e" * 64), pubkey=PublicKey("a" * 64), created_at=1, kind=1, tags=(), content="")
REPLIED = Replied(event=EVENT, relays=("ws://relay",), address={})


def test_hostile_names_and_calls_that_wait_are_only_text() -> None:
    """What asks for a permission, its options and its graph hold foreign names too."""
    for text in map(well_formed, CORPUS[::5]):
        drawn = maps._drawn(text, [text, "b"], [(text, "b")], {(text, "b"): 2}, text)
        check(page("map.html", {"map": drawn}), "/b")
        call = ShownCall(tool=text, text=text, folder=text, rule=text)
        for more in ({"kind": "approval", "calls": (call,)}, {"kind": "question", "options": (text, "b")}):
            values: Any = {"who": text, "text": text, "said": text, "always": text, "number": text, **more}
            ask = Ask(conversation=ONE, title=text, since=Millis(1), seq=3, replied=REPLIED, **values)
            frame: dict[str, Any] = {"base": "/b", "form": lambda _purpose: "n", "sign": False}
            frame |= {"asks": [ask], "decisions": [ask], "turns": [], "notices": [text], "is_cut": False, "open": 1}
            stuck = Stuck(conversation=ONE, title=text, status="held", reasons=[text], remedy=text, command="continue")
            frame |= {
                "files": [],
                "problems": [fault(text, text, text)],
                "stuck": [[stuck]],
            }
            made = check(page("story_asks.html", {**frame, "why_not": ""}), "/b")
            assert made.all("button")
            made = check(page("waiting_part.html", {**frame, "why_not": text}), "/b")
            assert not made.all("button")
