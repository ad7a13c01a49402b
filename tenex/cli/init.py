"""`tenex init`: a data folder that the daemon can start in, made once and never overwritten.

Everything is asked before anything is made, and the configuration is written last: a run that was cut short is simply
run again.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import ConfigurationError, TenexError, UsageError

from . import output
from .options import DataOption, JsonOption, code_refusal, data_folder, said
from .relay import is_here
from .safe_write import config_text, store_key, write_new

if TYPE_CHECKING:
    from tenex.settings import Settings

    from .provider import Chosen, Options

PROJECT = "project"
"""The name of the project's key, which the orchestrator speaks with."""
OWNER = "owner"
"""The name of the key made for an owner who has none yet."""


@dataclass(slots=True)
class Made:
    """What `init` found or made."""

    data: Path
    config: Path
    npub: str
    owners: list[str]
    relays: list[str]
    models: list[str]
    """The default model, and those asked where it cannot answer."""
    owner_key: Path | None
    agents: dict[str, str]
    created: list[str] = field(default_factory=list)


def init(
    ctx: typer.Context,
    *,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="The data folder to make; the same as --data.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(metavar="NPUB", help="Your public key. Without it a key for you is made in the keys folder."),
    ] = None,
    relay: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A relay to use; may be given several times.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help='The model, as "openai:gpt-5-mini" or "offline"; else a terminal is asked.'),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="openai, anthropic, google, ollama, or a name for a server of your own."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where a server of your own is, up to and with /v1.")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the provider's key; - reads it from stdin.")
    ] = None,
    check_key: Annotated[
        bool, typer.Option("--check/--no-check", help="Whether to ask the model one small question first.")
    ] = True,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the configuration, the keys and the folders.

    Asks in a terminal which model to use. Prints the project's npub, the address people write to. What is there
    already stays as it is.
    """
    if said(ctx).config is not None:
        raise UsageError(
            "init writes tenex.toml into the data folder; leave --config out, or name the folder with --dir"
        )
    asked = {path.absolute() for path in (folder, data, said(ctx).data) if path is not None}
    if len(asked) > 1:
        raise UsageError("--dir and --data name different folders; give one of them")
    from tenex.settings import find_data

    from .provider import Options

    here = data_folder(ctx, folder or data)
    options = Options(model=model, provider=provider, base_url=base_url, key_file=api_key_file)
    chosen = _choose(here, options, owner, relay or [], is_asked=not as_json, is_checked=check_key)
    made = prepare(here, owner, relay or [], chosen, code_refusal=code_refusal(ctx, folder or data))
    if options.is_given and chosen is None and made.models != ["offline"]:
        raise UsageError(f'{made.config} is there and stays as it is; set models.default = "offline" in it yourself')
    if as_json:
        output.result_json(_as_json(made))
    else:
        found = None
        with suppress(ConfigurationError):  # the current folder lies in a workspace
            found = find_data(None, os.environ, Path.cwd())  # what the next command will find by itself
        _tell(made, "" if found == made.data else f" --data {shlex.quote(str(made.data))}")


def _choose(
    data: Path, options: "Options", owner: str | None, relays: Sequence[str], *, is_asked: bool, is_checked: bool
) -> "Chosen | None":
    """The model to set up; None for the offline one, and where there is a configuration and none was named."""
    from tenex.settings import find_config

    from .init_prompts import ask
    from .provider import build, check, from_options

    keys = data / "keys"
    is_there = find_config(None, data) is not None
    if options.is_given:
        chosen = from_options(options, keys, is_new=not is_there)
        if chosen is not None and not is_there:
            _inspect(data, owner, relays, chosen)
            build(chosen)
            if is_checked:
                try:
                    check(chosen)
                except TenexError:
                    output.say("Nothing was made. --no-check makes it all the same; or mend this first:")
                    raise
        return chosen
    if is_asked and not is_there and sys.stdin.isatty() and sys.stderr.isatty():
        _inspect(data, owner, relays)
        return ask(keys)
    return None


def _inspect(data: Path, owner: str | None, relays: Sequence[str], chosen: "Chosen | None" = None) -> dict[str, Any]:
    """Refuse what cannot come to anything, before a person is asked for a key; gives what was asked for as settings.

    Raises:
        UsageError: the folder is none, or what was asked for is wrong.
    """
    if data.exists() and not data.is_dir():
        raise UsageError(f"{data} is not a folder; name another one with --dir")
    return _checked(owner, relays, chosen)


def prepare(
    data: Path, owner: str | None, relays: Sequence[str], chosen: "Chosen | None" = None, *, code_refusal: str = ""
) -> Made:
    """Make what is missing in a data folder.

    Args:
        data: the folder.
        owner: the owner's public key; None makes one.
        relays: their addresses; none leaves the default.
        chosen: the model to set up; None leaves the offline one.
        code_refusal: why code of the folder may not be run; empty where it may.

    Raises:
        UsageError: the folder is none, or what was asked for is wrong or contradicts the file that is there.
        ConfigurationError: the configuration or a key that is there is wrong, or the disk refuses.
    """
    from tenex.nostr.keys import KeyRing, npub, parse_public_key
    from tenex.settings import check_paths, find_config, load, resolve_paths

    from .agents import keyed_agents, load_agents
    from .provider import KEY_SUFFIX

    wanted = _inspect(data, owner, relays, chosen)
    file = find_config(None, data)
    settings = load(
        None, data, overrides=None if file else wanted, parse_key=parse_public_key, code_refusal=code_refusal
    )
    if file is not None:
        _refuse_changes(file, settings, wanted, chosen)
    check_paths(settings)
    slugs = keyed_agents(load_agents(settings))

    here = resolve_paths(settings)
    created: list[str] = []
    for folder in (data, here.conversations, here.workspace, here.keys, here.agents):
        make_folder(folder, created)
    ring = KeyRing(here.keys)
    before = ring.names()
    names = [PROJECT, *slugs, *([OWNER] if file is None and owner is None else [])]
    keys = {name: ring.get_or_create(name) for name in names}
    created += [str(here.keys / f"{name}.nsec") for name in names if name not in before]
    if file is None:
        owners = [npub(parse_public_key(owner)) if owner else keys[OWNER].npub]
        file = data / "tenex.toml"
        if chosen is not None and chosen.key is not None:
            created += store_key(here.keys / f"{chosen.provider}{KEY_SUFFIX}", chosen.key)
        write_new(file, config_text(owners, list(dict.fromkeys(relays)), chosen))
        created.append(str(file))
    else:
        owners = [npub(parse_public_key(key)) for key in settings.people.owners]
    has_own = OWNER in ring.names() and ring.get(OWNER).npub in owners
    return Made(
        data=data,
        config=file,
        npub=keys[PROJECT].npub,
        owners=owners,
        relays=list(settings.relays.urls),
        models=list(_chain(settings.models.default)),
        owner_key=here.keys / f"{OWNER}.nsec" if has_own else None,
        agents={slug: keys[slug].npub for slug in slugs},
        created=created,
    )


def _checked(owner: str | None, relays: Sequence[str], chosen: "Chosen | None") -> dict[str, Any]:
    """What was asked for, as settings; checked by themselves, whatever the folder holds."""
    from tenex.nostr.keys import parse_public_key
    from tenex.settings import load

    wanted: dict[str, Any] = {}
    if owner is not None:
        wanted["people"] = {"owners": [owner]}
    if relays:
        wanted["relays"] = {"urls": list(dict.fromkeys(relays))}
    if chosen is not None:
        wanted["models"] = chosen.settings()
    try:
        load(None, Path(os.devnull), env={}, overrides=wanted, parse_key=parse_public_key)
    except ConfigurationError as fault:
        raise UsageError("; ".join(fault.faults)) from fault
    return wanted


def _chain(default: str | list[str]) -> list[str]:
    return [default] if isinstance(default, str) else default


def _refuse_changes(file: Path, settings: "Settings", wanted: dict[str, Any], chosen: "Chosen | None") -> None:
    from tenex.nostr.keys import parse_public_key
    from tenex.settings import resolve_paths

    from .provider import how_to

    if chosen is not None and _chain(settings.models.default) != [chosen.name]:
        raise UsageError(how_to(chosen, file, resolve_paths(settings).keys))

    known = {parse_public_key(key) for key in settings.people.owners}
    if any(parse_public_key(key) not in known for key in wanted.get("people", {}).get("owners", ())):
        raise UsageError(f"{file} is there and stays as it is; add the key to people.owners in it yourself")
    if any(url not in settings.relays.urls for url in wanted.get("relays", {}).get("urls", ())):
        raise UsageError(f"{file} is there and stays as it is; add the relay to relays.urls in it yourself")


def make_folder(folder: Path, created: list[str]) -> None:
    """Make a folder if it is missing, and note it in `created`.

    Raises:
        ConfigurationError: it cannot be made.
    """
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigurationError([f"{folder}: cannot be made ({fault.strerror}); choose a folder you own"]) from fault
    created.append(str(folder))


def _as_json(made: Made) -> dict[str, Any]:
    return {
        "data": str(made.data),
        "config": str(made.config),
        "npub": made.npub,
        "owners": made.owners,
        "owner_key_file": str(made.owner_key) if made.owner_key else None,
        "relays": made.relays,
        "models": made.models,
        "agents": made.agents,
        "created": made.created,
    }


def _tell(made: Made, where: str) -> None:
    if not made.created:
        output.say(f"{made.data} is complete; nothing was changed. The project's address:")
    else:
        output.say(f"Made in {made.data}:")
        for path in made.created:
            output.say(f"  {Path(path).relative_to(made.data) if Path(path).is_relative_to(made.data) else path}")
        output.say("\nThe project's address; write to it from any Nostr client:")
    output.result(made.npub)
    if not made.created:
        return
    if made.owner_key is not None:
        output.say(
            f"\nYou are the owner, with a new key in {made.owner_key}.\n"
            "To write from a phone, open that file, copy its one line (it begins with nsec1) and paste it where the\n"
            "client asks for your key: in Amethyst, Damus or Primal under Log in. Whoever has that line can speak as\n"
            "you, so show it to nobody. If you have a Nostr key already, put its npub under people.owners instead."
        )
    here = [url for url in made.relays if is_here(url)]
    is_local = len(here) == len(made.relays)
    output.say(f"\nNext (settings: {made.config}):")
    if here:
        output.say(f"  tenex{where} relay  the relay on this machine, in a terminal of its own")
    output.say(f"  tenex{where} run    the daemon")
    output.say(f"  tenex{where} chat   talk to the agents from a terminal")
    if is_local:
        output.say(f"A phone cannot reach {made.relays[0]}: name a relay that both can reach under relays.urls.")
