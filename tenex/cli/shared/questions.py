"""Questions in a terminal, whose answers are names: a key that is pasted instead is neither shown nor taken."""

import sys

import typer

from tenex.core.text.foreign import is_like_key

from . import output


def prompt(
    question: str,
    default: str = "",
    *,
    shown: str = "",
    instead: str = "Type a name; keys have a question of their own.",
) -> str:
    """Ask on stderr until there is an answer that is no key.

    Args:
        question: what is asked, without a colon.
        default: the answer where only Enter is pressed.
        shown: what is shown as the default, where that is not the answer itself.
        instead: what to give in place of a key.

    Raises:
        typer.Abort: the input has ended.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.output import create_output
    from prompt_toolkit.output.vt100 import Vt100_Output

    screen = create_output(stdout=sys.stderr)
    if isinstance(screen, Vt100_Output):
        screen.enable_cpr = False  # it asks terminals where the cursor is, which only a full screen needs
    session: PromptSession[str] = PromptSession(output=screen)
    session.is_password = Condition(lambda: is_like_key(session.default_buffer.text))
    hint = f" [{shown or default}]" if shown or default else ""
    while True:
        try:
            answer = session.prompt(f"{question}{hint}: ").strip()
        except EOFError:
            raise typer.Abort from None
        if not is_like_key(answer):
            return answer or default
        output.message(f"That looks like a secret key, and was not kept. {instead}")
