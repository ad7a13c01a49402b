"""Chores and reflection: leave the files tidy, and keep one lesson."""

import re

from .marks import file_names
from .moves import LEARNED, Finish, Move, act
from .request import files_made, request_text
from .tasks import short
from .transcript import Transcript

_LEFTOVER = re.compile(
    r"(?:^|/)[^/\s]*(?:\.pyc|\.pyo|\.tmp|\.bak|\.orig|\.rej|\.swp|~)$|(?:^|/)(?:\.DS_Store|__pycache__)(?:/|$)"
)
_KEEPS_BLANKS = (".md", ".rst")  # two blanks at a line's end mean a line break there


def tidy(seen: Transcript) -> Move:
    """Decide the next step of an agent that cleans up."""
    if "list_files" in seen.offered and not seen.calls("list_files"):
        return act(("list_files", {}))
    made = files_made(seen)
    unread = [path for path in made if not seen.calls("read_file", path)]
    if unread and "read_file" in seen.offered:
        return act(*(("read_file", {"path": path}) for path in unread))
    untidy: dict[str, str] = {}
    for path in made:
        read = seen.calls("read_file", path)
        tries = seen.calls("write_file", path)
        if read and read[0].is_whole and not tries:
            text = read[0].text
            untidy |= {path: tidied(path, text)} if tidied(path, text) != text else {}
    if untidy and "write_file" in seen.offered:
        return act(*(("write_file", {"path": path, "content": content}) for path, content in untidy.items()))
    return _tidied(seen, made)


def tidied(path: str, content: str) -> str:
    """The content with one newline at its end and no blanks at its lines' ends."""
    if not content.strip():
        return ""
    if not path.endswith(_KEEPS_BLANKS):
        content = "\n".join(line.rstrip(" \t") for line in content.split("\n"))
    return content.rstrip("\n") + "\n"


def _tidied(seen: Transcript, made: tuple[str, ...]) -> Finish:
    said: list[str] = []
    for done in seen.calls("write_file"):
        if done.ok:
            said.append(f"Tidied `{done.path}`: blanks and newlines at the end.")
        else:
            said.append(f"I could not tidy `{done.path}`: {short(done.content, 200)}")
    listing = seen.last("list_files")
    present = listing.content.split() if listing and listing.ok else []
    leftovers = [word for word in present if _LEFTOVER.search(word)]
    if leftovers:
        named = ", ".join(f"`{word}`" for word in leftovers[:10])
        said.append(f"Left over, and I have no tool that deletes: {named}.")
    if not said:
        read = [path for path in made if (last := seen.last("read_file", path)) and last.ok]
        looked = ", ".join(f"`{path}`" for path in read) or "the workspace"
        said.append(f"Looked through {looked}: nothing to tidy.")
    return Finish(response="\n".join(said), summary=" ".join(said))


def reflect(seen: Transcript) -> Move:
    """Decide the next step of an agent that looks back: record one lesson, then end."""
    lesson = _lesson(seen)
    tries = seen.calls("learn")
    if "learn" in seen.offered and not tries:
        return act(("learn", {"title": f"{short(request_text(seen), 50) or 'An empty request'}", "lesson": lesson}))
    if tries and not tries[-1].ok:
        return Finish(response=f"I could not keep my lesson ({short(tries[-1].content, 150)}). It was: {lesson}")
    return Finish(response=f"{LEARNED} {lesson}" if tries else lesson)


def _lesson(seen: Transcript) -> str:
    asked = short(request_text(seen), 120) or "nothing in words"
    made = [path for text in reversed(seen.said) for path in file_names(text)]
    proof = next((text for text in reversed(seen.said) if text.startswith("Verified")), "")
    tested = next((line[2:] for line in proof.splitlines() if line.startswith("- ")), "")
    outcome = f"what showed that it was done: {short(tested, 160)}" if tested else "no verification was recorded"
    where = f" in {', '.join(dict.fromkeys(made[:3]))}" if made else ""
    repaired = sum(text.startswith("I found") and "issue" in text for text in seen.since)
    again = f" It took {repaired} round{'s' if repaired != 1 else ''} of repair." if repaired else ""
    return f"Asked for “{asked}”{where}; {outcome}.{again}"
