"""`tenex init`: makes a data folder that the daemon can start in, and never overwrites anything.

All questions come before the first file, and the configuration is written last: an interrupted run is simply repeated.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from tenex.core.errors import ConfigurationError, TenexError, UsageError
from tenex.core.text.foreign import decode, trimmed
from tenex.llm.config import OFFLINE, read_key
from tenex.nostr.keys import KeyRing, npub, parse_public_key
from tenex.settings import (
    KEY_SUFFIX,
    Commits,
    Settings,
    Trust,
    check_paths,
    example_config,
    find_config,
    load,
    resolve_paths,
)
from tenex.tools.project_checks import known_checks
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.project_files import holds_documents
from tenex.tools.project_needs import ecosystems_found, how_to_get
from tenex.tools.project_setup import propose_setup

from .relay import is_here
from .shared import output
from .shared.files import make_folder, write_new
from .shared.options import Globals
from .shared.own_keys import OWNER, PROJECT
from .shared.provider import Chosen, Options, ask, build, check, from_options, how_to
from .shared.questions import prompt
from .shared.setup_questions import (
    DOCUMENTS,
    are_wanted,
    ask_another_owner,
    ask_commits,
    ask_content,
    ask_first_limits,
    ask_limits,
    ask_owner,
    ask_relays,
    given_owner,
    limits_text,
    report_relays,
    validated,
    with_schemes,
)
from .stop_reload import reload_running
from .trust import keys_in, report_grants, trust_folder, trusted_files
from .workspace import setup_text

_OFFLINE = """\
# "offline" follows fixed rules: it lets you try everything without a key, and is no intelligence.
# default = "offline"\
"""


@dataclass(slots=True)
class InitResult:
    """What `init` found or made."""

    data: Path
    config: Path
    npub: str
    owners: list[str]
    owner_key_file: Path | None
    new_owner: str | None
    """The npub of a new owner who is not in the settings yet, which are never changed here."""
    relays: list[str]
    models: list[str]
    """The default model, and its fallbacks."""
    agents: dict[str, str]
    only_agent: str
    """The agent that works alone; "" where the orchestrator routes."""
    created: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    """What the project needs and the sandbox does not have."""


def init(
    given: Globals,
    *,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="The data folder to make; the same as --data.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NPUB",
            help="Your public key, or your name such as alice@example.com; default: a new key in the keys folder.",
        ),
    ] = None,
    new_owner: Annotated[
        bool, typer.Option("--new-owner", help="Make a new owner's key, where keys/owner.nsec was lost.")
    ] = False,
    relay: Annotated[list[str] | None, typer.Option(metavar="URL", help="A relay to use; repeatable.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help='The model, as "openai:gpt-5-mini" or "offline"; a terminal asks for it.'),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="openai, anthropic, google, ollama, or a name for your own server."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The address of your own server, up to and with /v1.")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the provider's key; - reads it from stdin.")
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The project's folder, in which agents work; default: one in the data folder."
        ),
    ] = None,
    commit: Annotated[
        Commits | None,
        typer.Option(help="Whether agents commit in the project's git repository; a terminal asks for it."),
    ] = None,
    documents: Annotated[
        bool | None,
        typer.Option(
            "--documents/--software",
            help="What the folder holds: in one of documents a single agent works; a terminal asks for it.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A PostgreSQL database for the conversations; default: files."),
    ] = None,
    check_key: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Whether to ask the model two questions, the relays and the database first.",
        ),
    ] = True,
) -> None:
    """Make the configuration, the keys and the folders.

    A terminal asks for what no option gives: your npub, the relays, what is in the folder, who commits, the model, and
    the limits of one that costs money. Enter takes the default.
    Prints the project's npub, the address that users write to, and in a terminal a QR code of it for a phone. Run again
    in a terminal it shows what is set, and changes one thing of it. Otherwise existing files are not changed, and keys
    never are. The project is called like the folder of --workspace. Its files may name its commands: those are
    written as a proposal, and nothing is run.
    """
    if given.config is not None:
        raise UsageError("init writes tenex.toml into the data folder; use --dir instead of --config.")
    if folder and given.data and folder != given.data and folder.absolute() != given.data.absolute():
        raise UsageError("--dir and --data name different folders; give one of them.")
    if new_owner and owner:
        raise UsageError("--owner names a key that you have, --new-owner makes one; give one of them.")
    given.data = folder or given.data
    here = given.folder()
    options = Options(model=model, provider=provider, base_url=base_url, key_file=api_key_file)
    relays = with_schemes(relay or ())
    is_asked = not given.as_json and sys.stdin.isatty() and sys.stderr.isatty()
    is_made = find_config(None, here) is not None
    project = workspace.absolute() if workspace is not None else None
    if is_asked and not is_made:
        owner, relays = _ask(here, owner, relays)
        documents, commit = _ask_about_folder(project or here / Settings().paths.workspace, documents, commit)
    elif owner is not None:
        owner = given_owner(owner)
    chosen = _from_options(here, options, owner, relays, is_checked=check_key)
    if is_asked and not is_made and options == Options():
        chosen = ask(here / "keys")
    limits = ask_first_limits(chosen) if is_asked and not is_made else {}
    if check_key:
        validated(here, owner, relays, chosen, store)
        _check_places(here, store, [] if is_asked or is_made else relays)
    is_new = not trusted_files(here) and not keys_in(here)
    made = prepare(
        here,
        owner,
        relays,
        chosen,
        new_owner=new_owner,
        trust=given.trust(),
        workspace=project,
        commit=commit,
        documents=documents,
        store=store,
        limits=limits,
    )
    if is_new:
        trust_folder(here)
    else:
        report_grants(here)
    if options != Options() and chosen is None and made.models != [OFFLINE]:
        raise UsageError(f'{made.config} exists and was not changed; set models.default = "offline" in it.')
    if given.as_json:
        shown = asdict(made)
        output.result_json({name: str(value) if isinstance(value, Path) else value for name, value in shown.items()})
    else:
        _print(made)
        if is_asked and is_made and not made.created and options == Options() and not (owner or relays or new_owner):
            _change(given, here)


def _ask(data: Path, owner: str | None, relays: list[str]) -> tuple[str | None, list[str]]:
    """The owner and the relays, by options or questions; the relays are asked whether they answer."""
    validated(data, None, relays)
    owner = ask_owner(data) if owner is None else given_owner(owner)
    if not relays or not are_wanted(relays):
        relays = ask_relays(data, relays)
    return owner, relays if relays != Settings().relays.urls else []


def _ask_about_folder(folder: Path, documents: bool | None, commit: Commits | None) -> tuple[bool, Commits | None]:
    """Whether it holds documents, and who commits, which is asked about software alone."""
    if documents is None:
        documents = ask_content(has_documents=holds_documents(folder))
    if commit is None and not documents:
        commit = ask_commits()
    return documents, commit


def _from_options(
    data: Path, options: Options, owner: str | None, relays: Sequence[str], *, is_checked: bool
) -> Chosen | None:
    """The model that options name; None for the offline one, and where none is named."""
    if options == Options():
        return None
    is_new = find_config(None, data) is None
    chosen = from_options(options, data / "keys", is_new=is_new)
    if chosen is not None and is_new:
        validated(data, owner, relays, chosen)
        build(chosen)
        try:
            if is_checked:
                check(chosen)
        except TenexError:
            output.message("Nothing was made. Fix this, or add --no-check to continue anyway:")
            raise
    return chosen


def _check_places(data: Path, store: str | None, relays: Sequence[str]) -> None:
    """Print what comes of asking the relays, which may start later, and ask the database, which may not.

    Raises:
        TenexError: the database cannot hold conversations.
    """
    if relays and not report_relays(relays):
        output.message("Until that is fixed no message comes in; the relays are `relays.urls` in tenex.toml.")
    if store is not None:
        _check_store(store, data)


def _check_store(url: str, data: Path) -> None:
    """Ask a database whether it can hold conversations; its tables are made.

    Raises:
        TenexError: it cannot.
    """
    import asyncio

    from tenex.runtime.clock import SystemClock
    from tenex.store.disk import Disk
    from tenex.store.opening import open_shared

    async def examine() -> None:
        disk = Disk()
        try:
            async with open_shared(url, data / "conversations", disk, SystemClock()) as shared:
                faults, remarks = await shared.faults()
        finally:
            disk.close()
        if faults:
            raise ConfigurationError([f"store: {fault}" for fault in faults])
        for remark in remarks:
            output.message(f"tenex: store: {remark}")

    try:
        asyncio.run(examine())
    except TenexError:
        output.message("Nothing was made. Fix this, or add --no-check to continue anyway:")
        raise


def prepare(
    data: Path,
    owner: str | None,
    relays: Sequence[str],
    chosen: Chosen | None = None,
    *,
    new_owner: bool = False,
    trust: Trust | None = None,
    workspace: Path | None = None,
    commit: Commits | None = None,
    documents: bool | None = None,
    store: str | None = None,
    limits: Mapping[str, float] | None = None,
) -> InitResult:
    """Make what is missing in a data folder.

    Args:
        data: the folder.
        owner: the owner's public key; None makes one.
        relays: their addresses; none leaves the default.
        chosen: the model to set up; None leaves the offline one.
        new_owner: make the owner's key where it is missing, though there is a configuration.
        trust: what the folder must be trusted with; None where it was named.
        workspace: the folder that agents work in; None leaves the one in the data folder.
        commit: whether agents commit there; None leaves the default.
        documents: whether it holds documents, in which one agent works; None leaves the default.
        store: the address of a database for the conversations; None leaves the files.
        limits: of cost, by their settings; those that are left out keep their defaults.

    Raises:
        UsageError: an option is invalid, or contradicts the existing configuration.
        ConfigurationError: the existing configuration or a key is invalid, or a file cannot be written.
    """
    from .shared.agent_files import keyed_agents, load_agents

    wanted = validated(data, owner, relays, chosen, store)
    if workspace is not None:
        wanted["paths"] = {"workspace": str(workspace)}
    if commit is not None:
        wanted["workspace"] = {"commit": commit}
    if documents is not None:
        wanted["conversations"] = {"agent": DOCUMENTS if documents else ""}
    if limits:
        wanted["limits"] = dict(limits)
    file = find_config(None, data)
    settings = load(None, data, overrides=None if file else wanted, parse_key=parse_public_key, trust=trust)
    if file is not None:
        _refuse_changes(file, settings, wanted, chosen)
    check_paths(settings)
    slugs = keyed_agents(load_agents(settings))

    here = resolve_paths(settings)
    created = [str(folder) for folder in (data, here.conversations) if make_folder(folder)]
    # less the umask where it is a person's project, and not a part of the data folder
    mode = 0o700 if here.workspace.is_relative_to(here.data) else 0o777
    created += [str(here.workspace)] if make_folder(here.workspace, mode) else []
    created += [str(folder) for folder in (here.keys, here.agents) if make_folder(folder)]
    ring = KeyRing(*here.key_folders)
    before = ring.names()
    makes_owner = new_owner or (file is None and owner is None)
    names = [PROJECT, *slugs, *([OWNER] if makes_owner else [])]
    keys = {name: ring.read_or_create(name) for name in names}
    created += [str(here.keys / f"{name}.nsec") for name in names if name not in before]
    if file is None:
        owners = [npub(parse_public_key(owner)) if owner else keys[OWNER].npub]
        file = data / "tenex.toml"
        if chosen is not None and chosen.key is not None:
            created += _store_key(here.keys / f"{chosen.provider}{KEY_SUFFIX}", chosen.key)
        text = _config_text(owners, list(dict.fromkeys(relays)), chosen, store or "")  # not that of a variable
        if limits:
            text += "\n[limits]\n# What models may cost, in dollars: work stops, and you are asked. 0 is no limit.\n"
            text += "".join(f"{name} = {amount:g}\n" for name, amount in limits.items())
        if documents:
            text += (
                '\n[conversations]\n# The folder holds documents: this agent works alone. "" brings the phases back.\n'
            )
            text += f"agent = {json.dumps(DOCUMENTS)}\n"
        write_new(file, text + _workspace_text(here.workspace, commit, is_named=workspace is not None))
        created.append(str(file))
    else:
        owners = [npub(parse_public_key(key)) for key in settings.people.owners]
    own = ring.read(OWNER).npub if OWNER in ring.names() else None
    has_own = own is not None and (own in owners or makes_owner)
    return InitResult(
        data=data,
        config=file,
        npub=keys[PROJECT].npub,
        owners=owners,
        relays=list(settings.relays.urls),
        models=_chain(settings.models.default),
        owner_key_file=ring.file(OWNER) if has_own else None,
        new_owner=own if makes_owner and own not in owners else None,
        agents={slug: keys[slug].npub for slug in slugs},
        only_agent=settings.conversations.agent,
        created=created,
        needs=_needs(here.workspace, settings.workspace.path),
    )


def _needs(workspace: Path, entries: Sequence[str]) -> list[str]:
    """What the project needs and the sandbox does not have, with how to give it."""
    project = ProjectEnvironment(workspace.resolve(), tuple(Path(entry).expanduser() for entry in entries))
    needed = {name: found.kind.title for found in reversed(ecosystems_found(project)) for name in found.missing}
    ways = how_to_get(project, needed, os.environ, entries)
    return [f"{title} needs {name}: {how}." for (name, title), how in zip(needed.items(), ways, strict=True)]


def _chain(default: str | list[str]) -> list[str]:
    return [default] if isinstance(default, str) else list(default)


def _refuse_changes(file: Path, settings: Settings, wanted: dict[str, Any], chosen: Chosen | None) -> None:
    if chosen is not None and _chain(settings.models.default) != [chosen.name]:
        raise UsageError(how_to(chosen, file, resolve_paths(settings).keys))
    known = {parse_public_key(key) for key in settings.people.owners}
    if any(parse_public_key(key) not in known for key in wanted.get("people", {}).get("owners", ())):
        raise UsageError(f"{file} exists and was not changed; add the key: `tenex owner add`.")
    if wanted.get("paths") and resolve_paths(settings).workspace != Path(wanted["paths"]["workspace"]).resolve():
        raise UsageError(f"{file} exists and was not changed; set paths.workspace in it.")
    if wanted.get("workspace", {}).get("commit", settings.workspace.commit) != settings.workspace.commit:
        raise UsageError(f"{file} exists and was not changed; set workspace.commit in it.")
    if wanted.get("conversations", {}).get("agent", settings.conversations.agent) != settings.conversations.agent:
        raise UsageError(f"{file} exists and was not changed; set conversations.agent in it.")
    if wanted.get("store", settings.store) != settings.store:
        raise UsageError(f"{file} exists and was not changed; set store in it, above the first table.")
    if any(url not in settings.relays.urls for url in wanted.get("relays", {}).get("urls", ())):
        raise UsageError(f"{file} exists and was not changed; add the relay to relays.urls in it.")


def _store_key(file: Path, key: str) -> list[str]:
    """Store a provider's key; returns the file where it is new."""
    try:
        if read_key(decode(file.read_bytes())) == key:
            return []
    except FileNotFoundError:
        write_new(file, f"{key}\n")
        return [str(file)]
    except (OSError, ValueError):
        pass
    raise UsageError(f"{file} holds another key; move it away, or omit the key to use that one")


def _config_text(owners: Sequence[str], relays: Sequence[str], chosen: Chosen | None, store: str) -> str:
    """The text of a new `tenex.toml`; no relays leave the default, no model the offline one, no store the files."""
    stored = (
        f"\n# Conversations are in this database: docs/postgres.md.\nstore = {json.dumps(store)}\n" if store else ""
    )
    urls = f"urls = {json.dumps(relays)}" if relays else f"# urls = {json.dumps(Settings().relays.urls)}"
    return f"""\
# Write here only what differs from the defaults. Every setting, explained: {example_config()}
# `tenex config check` finds every fault; `tenex config show` shows where each value comes from.
{stored}
[people]
# Owners may do everything. Anybody else is ignored, until you list members here or set `open = true`.
owners = {json.dumps(list(owners))}

[relays]
# The relays where the agents listen. Your client has to use one of them too.
{urls}

[models]
{_OFFLINE if chosen is None else chosen.toml()}
"""


def _workspace_text(workspace: Path, commit: Commits | None, *, is_named: bool) -> str:
    """The part of a new `tenex.toml` on the project that agents work on; empty for a folder without one."""
    name = trimmed(workspace.name)
    text = ""
    if is_named and name:
        text += (
            f"\n[project]\n# Its name on Nostr: that of the folder.\nname = {json.dumps(name, ensure_ascii=False)}\n"
        )
    if is_named:
        text += f"\n[paths]\nworkspace = {json.dumps(str(workspace), ensure_ascii=False)}\n"
    proposed = setup_text(propose_setup(workspace))
    if proposed or commit is not None:
        text += "\n[workspace]\n"
    if commit is not None:
        text += "# Whether agents commit in the project's git repository: never, ask (a person allows each), auto.\n"
        text += f"commit = {json.dumps(commit)}\n"
    if proposed:
        text += "# Proposed from the project's files. Read it before you run `tenex workspace setup`.\n"
        text += proposed.removeprefix("[workspace]\n") + "\n"
    return text + _checks_text(workspace)


def _checks_text(workspace: Path) -> str:
    """What a new `tenex.toml` says of the checks that the project's files name; empty where they name none."""
    known = known_checks((), ProjectEnvironment(workspace.resolve()))
    if not known:
        return ""
    lines = [
        "# Checks that the project's files name: the daemon runs them in the sandbox after a turn that changed files.",
        '# A table sets one instead; `run = ""` switches it off. `tenex workspace show` tells which can run now.',
    ]
    for one in known:
        lines += [f"# [checks.{one.check.name}]", f"# run = {json.dumps(one.check.run, ensure_ascii=False)}"]
    return "\n" + "\n".join(lines) + "\n"


def _print(made: InitResult) -> None:
    if made.new_owner is not None:
        kept = f"  owners = {json.dumps([*made.owners, made.new_owner])}"
        output.message(f"The new owner's key is in {made.owner_key_file}. Under [people] in {made.config} write:")
        output.message(f"\n{kept}\n\nwithout those that are lost; then: `tenex reload`. The npub of the new owner:")
        output.result(made.new_owner)
        return
    if not made.created:
        output.message(f"{made.data} is complete; nothing was changed. The project's address:")
        output.result(made.npub)
        _print_code(made)
        return
    output.message(f"Made in {made.data}:")
    for path in made.created:
        if Path(path) == made.data:
            continue
        output.message(f"  {Path(path).relative_to(made.data) if Path(path).is_relative_to(made.data) else path}")
    output.message("\nThe project's address; write to it from any Nostr client:")
    output.result(made.npub)
    if made.owner_key_file is not None:
        key = "a new key" if str(made.owner_key_file) in made.created else "the key"
        output.message(
            f"\nYou are the owner, with {key} in {made.owner_key_file}.\n"
            "To write from a phone, open that file, copy its one line (it begins with nsec1) and paste it where the "
            "client asks for your key: in Amethyst, Damus or Primal under Log in. Anyone who has that line can write "
            "as you, so keep it secret. If you already have a Nostr key, add its npub: `tenex owner add NPUB`."
        )
    if made.only_agent:
        output.message(f"\nThe folder holds documents: {made.only_agent} works in it alone.")
    here = [url for url in made.relays if is_here(url)]
    if made.needs:
        output.message("\nThe sandbox of the agents does not have what the project needs:")
        for need in made.needs:
            output.message(f"  {output.one_line(need)}")
    output.message(f"\nNext (settings: {made.config}):")
    if here:
        output.message(f"  {output.command('relay')}  the relay on this machine, in a terminal of its own")
    output.message(f"  {output.command('run')}    the daemon")
    output.message(f"  {output.command('chat')}   talk to the agents from a terminal")
    output.message(f"Work stops, and you are asked, at {limits_text(load(None, made.data, env={}))}: [limits] in it.")
    output.message(
        'Web pages: tools.add = ["fetch"] in it lets agents ask you for one; [web_search] sets a search service.'
    )
    if len(here) == len(made.relays):
        output.message(f"A phone cannot reach {made.relays[0]}: name a relay that both can reach under relays.urls.")
    _print_code(made)


def _print_code(made: InitResult) -> None:
    """Show a terminal the address as a QR code, where a phone can reach a relay."""
    from .shared.qr_code import project_uri, reachable_relays, show_code

    relays = reachable_relays(made.relays)
    if not relays or not sys.stderr.isatty():
        return
    sys.stdout.flush()
    uri = project_uri(parse_public_key(made.npub), relays)
    output.message("")
    if show_code(uri):
        output.message("Scan it with your phone to find the project in a client there; `tenex address` shows it again.")
    output.message(uri)


def _change(given: Globals, data: Path) -> None:
    """Show what is set, and change one thing of it if the user wants that."""
    from .shared.settings_file import change_settings

    settings = given.settings()
    output.message(f"\nWhat {settings.file} sets:")
    output.message(f"  1  owners  {', '.join(settings.people.owners)}")
    output.message(f"  2  relays  {' '.join(settings.relays.urls)}")
    output.message(f"  3  model   {', '.join(_chain(settings.models.default))}")
    output.message(f"  4  commits {settings.workspace.commit}")
    output.message(f"  5  limits  {limits_text(settings)}")
    alone = settings.conversations.agent
    output.message(f"  6  folder  {f'documents: {alone} works alone' if alone else 'software: agents work in phases'}")
    changes: dict[str, Any] | None = None
    match prompt("Change which", shown="none"):
        case "1":
            changes = _another_owner(settings)
        case "2":
            changes = {"relays": {"urls": ask_relays(data, settings.relays.urls)}}
        case "3":
            changes = _another_model(settings)
        case "4":
            changes = {"workspace": {"commit": ask_commits(settings.workspace.commit)}}
        case "5":
            changes = {"limits": ask_limits(settings)}
        case "6":
            documents = ask_content(has_documents=bool(alone))
            if documents != bool(alone):
                changes = {"conversations": {"agent": DOCUMENTS if documents else ""}}
    if changes is None:
        output.message("Nothing was changed.")
        return
    file = change_settings(given, settings, changes)
    output.message(f"Changed in {file}; everything else is as it was.")
    reloaded = reload_running(resolve_paths(settings))
    if reloaded:
        output.message(reloaded)


def _another_owner(settings: Settings) -> dict[str, Any] | None:
    output.message("`tenex owner remove NPUB` removes one.")
    owner = ask_another_owner()
    known = {parse_public_key(text) for text in settings.people.owners}
    if owner is None or parse_public_key(owner) in known:
        return None
    return {"people": {"owners": [*settings.people.owners, owner]}}


def _another_model(settings: Settings) -> dict[str, Any]:
    keys = resolve_paths(settings).keys
    chosen = ask(keys)
    if chosen is None:
        return {"models": {"default": OFFLINE}}
    if chosen.key is not None:
        _store_key(keys / f"{chosen.provider}{KEY_SUFFIX}", chosen.key)
    table = chosen.settings()
    if not table["providers"][chosen.provider]:
        del table["providers"]
    return {"models": table}
