"""Chat, brainstorm and plan: answers in words, made from the person's own."""

from collections.abc import Sequence

from .intent import has_verb, words_of
from .manners import small_talk
from .marks import file_names
from .moves import ABILITIES, CONFIGURE, OFFER, SELF, Finish, Move, act
from .request import expected, request_text, understood
from .tasks import Program, Task, Unable, describe, short
from .transcript import Transcript
from .vocabulary import COMMON, VERBS

_READ = 5_000  # characters; the subject of a message is found at its beginning


def chat(seen: Transcript) -> Move:
    """Answer small talk; any other message with the one question that is missing."""
    if (answer := small_talk(seen)) is not None:
        return answer
    newest = "\n".join(seen.newest).strip()
    tasks = [task for task in expected(seen) if not isinstance(task, Unable)]
    if not newest:
        question = "Your message is empty. What shall I make?"
    elif tasks:
        question = f"I understand that {_joined(tasks)}. {OFFER} Say yes."
    elif (files := file_names(newest[:_READ])) and has_verb(newest):
        question = f"What should `{files[0]}` hold or print? Give me the exact words."
    elif has_verb(newest):
        question = "Which file shall I make or change, and what exactly should it hold or print?"
    else:
        question = "I do not see what you want made. Which file shall I make or change, and what should it hold?"
    return Finish(response=f"{SELF} {question}\n\n{ABILITIES} {CONFIGURE}", summary="Asked what is wanted")


def explore(seen: Transcript) -> Move:
    """Offer three directions made of the person's words."""
    subject = _subject(request_text(seen) if not "".join(seen.newest).strip() else "\n".join(seen.newest))
    first = subject[0] if subject else "this"
    second = subject[1] if len(subject) > 1 else "the people who use it"
    both = " and ".join(subject[:2]) or "this"
    response = (
        f"{SELF} Three directions, made of your words:\n\n"
        f"1. **The smallest {first}**: one file that shows the idea today, thrown away if it does not please.\n"
        f"2. **From the other end**: begin with {second}, and ask what {first} would have to be for it.\n"
        f"3. **Without it**: how far would people get with no {first} at all? "
        f"What they still miss is the core of {both}.\n\n"
        f"Which one shall we follow? {CONFIGURE}"
    )
    return Finish(response=response, summary=f"Three directions for {both}; the person chooses")


def plan(seen: Transcript) -> Move:
    """Write numbered steps: exact ones for a request that was understood, plain ones otherwise."""
    if (answer := small_talk(seen)) is not None:
        return answer
    asked = understood(seen)
    if asked.question and "ask" in seen.offered and not seen.calls("ask") and seen.reply_to(asked.question) is None:
        return act(("ask", {"question": asked.question}))
    tasks = [task for task in expected(seen) if not isinstance(task, Unable)]
    if tasks:
        steps = ["Look at what is in the workspace, and read the files that will change."]
        steps += [f"Write `{_path(task)}`, so that it {describe(task)}." for task in tasks]
        programs = [task for task in tasks if isinstance(task, Program)]
        steps += [f"Run `python {_path(task)}` and compare what it prints." for task in programs]
    else:
        subject = " and ".join(_subject("\n".join(seen.newest))[:3]) or "what was asked"
        steps = [
            f"Write down in one sentence what {subject} must do, and for whom.",
            "Name the parts it needs, and for each the one file that holds it.",
            "Make the smallest of them first, so that something can be run.",
            "Join the others to it one by one, and test after each.",
        ]
    steps.append("Tidy up, and say what changed and how to try it.")
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    honest = "" if tasks else f"\n\nThese steps fit most work: rules cannot design. {CONFIGURE}"
    return Finish(response=f"{SELF} The plan:\n\n{numbered}{honest}", summary=short(" ".join(steps), 400))


def _path(task: Task) -> str:
    return task.path or task.name_hint


def _joined(tasks: Sequence[Task]) -> str:
    return ", and ".join(f"`{_path(task)}` {describe(task)}" for task in tasks[:5])


def _subject(text: str) -> list[str]:
    """The longest uncommon words of a text, at most three, the longest first."""
    words = [word for word in words_of(text[:_READ]) if len(word) > 3 and word not in COMMON | VERBS]
    return sorted(dict.fromkeys(words), key=len, reverse=True)[:3]
