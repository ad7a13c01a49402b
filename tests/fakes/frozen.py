"""Loaded last by the fork server: what programs load late, and what they check once for each text, they find done.

Collections of garbage in the programs that are forked pass over what is loaded now.
"""

import gc
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.store.format import CONVERSATION
from tenex.tools.arguments import Arguments
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell_runner import ShellRules
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace

LATE = """
    anyio._backends._asyncio anyio.abc encodings.ascii encodings.idna encodings.unicode_escape
    encodings.utf_8_sig genai_prices.data genai_prices.data_units nostr_sdk
    openai.lib._chat_completion_resources openai.resources.chat.completions tenex.cli.main tenex.main
    tree_sitter tree_sitter_bash typer._adapters typer._click.decorators
"""
"""Modules that programs load when they first need them."""


def _do_what_most_programs_do() -> None:
    """Prepare what is prepared once: templates, schemas of tools, codecs of records, and the answers of models."""
    CONVERSATION.decode_lines((Path(__file__).parents[1] / "histories" / "checks" / "journal.jsonl").read_bytes())
    for answer in (ChatCompletion, ChatCompletionChunk):
        answer.model_rebuild()
    PromptLibrary.load(builtin_prompts())
    shell = ShellRules(policy=RunPolicy.SANDBOXED)
    no_lessons = cast("Any", None)
    with TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        given = ToolDependencies(
            workspace=workspace, lessons=no_lessons, check=RunPolicy.SANDBOXED, shell=shell, has_sandbox=True
        )
        for tool in standard_tools(given):
            Arguments(tool.name, tool.parameters)


for module in LATE.split():
    import_module(module)
_do_what_most_programs_do()
gc.collect()
gc.freeze()
