"""``engram uninstall``, ``setup``, ``completion`` and ``config``: undo the installation, do parts of it; settings."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from engram.cli import options
from engram.cli.options import DefaultGroup, as_typed, confirm, if_stopped, json_command, tell, yes_option
from engram.cli.output import print_json, print_table, say
from engram.cli.workspace import Workspace, advise, restart_with_settings
from engram.config_file import folders_of, no_setting, set_value, unset_value
from engram.errors import BadRequest, InstallError, NotFound, SettingsError, StoreError
from engram.hub.client.folder_files import folder_of, is_folder
from engram.models.hub.spaces import list_servers
from engram.page.open_page import stop_page
from engram.paths import Home, absolute_path, is_default_home
from engram.reports.claude_checks import NAME
from engram.reports.engram_checks import find_missing
from engram.reports.health import home_bytes
from engram.reports.processes import is_held
from engram.reports.settings_report import default_of, explained_settings, plain_settings, plain_value, shown_value
from engram.settings import MODEL_EXTRACTORS, Loaded, Settings, load
from engram.setup.agents.plugin import other_files
from engram.setup.agents.registered import (
    MARKETPLACE,
    MARKETPLACE_LIST,
    find_registrations,
    marketplace_files,
    plugin_files,
    read_documents,
    skills_folder,
)
from engram.setup.edits.install_steps import Step
from engram.setup.edits.journal import load_journal
from engram.setup.installing.install_uninstall import uninstall as take_back
from engram.setup.installing.stray import find_stray, purge_memory, vault_folders
from engram.setup.old_engram.find import find_earlier
from engram.system.atomic import write_atomic
from engram.vaults import config_home
from engram_hooks.block import link_interpreter, settings_block


@click.command("uninstall")
@click.option(
    "--purge", is_flag=True, help="Also delete the memory folder: memories, notes, backups (default: keep it)."
)
@click.option("--dry-run", is_flag=True, help="Show what would be undone and deleted (default: do it).")
@yes_option
@json_command
@click.pass_context
def uninstall(ctx: click.Context, workspace: Workspace, purge: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Undo what `engram install` changed: restore the previous content, mode and links of every file.

    If a file has been changed by something else since then, the change is kept, and only Engram's entries are removed.
    The same happens if the memory folder, which has the originals, is gone. An open page is closed. The memory folder
    is kept unless --purge is given, which deletes it with its vaults. Remove the program itself the way you installed
    it: `uv tool uninstall engram-recall`.

    Example: engram uninstall --dry-run
    """
    workspace.pass_over_faults()
    places = workspace.places
    unread: list[str] = []
    journal = load_journal(places) or find_stray(workspace.settings, unread)
    steps = [step.summary for step in journal.ledger.steps] if journal else []
    copies = _copies_elsewhere(workspace)
    if dry_run:
        _print_uninstall(places, steps, copies, purge, as_json)
        for problem in unread:
            say(f"Problem: {problem}", err=True)
        return
    if journal is None and not unread and not (purge and places.root.is_dir()):
        _end_pages(places)
        nothing = f" There is no memory in {places.root} either." * purge
        tell(
            as_json,
            {"changed": [], "notes": [], "problems": []},
            f"Engram is not installed in Claude Code or as a service.{nothing}",
        )
        return
    if not as_json and not yes:
        for step in steps:
            say(f"Will be undone: {step}")
        for copy in copies if purge else ():
            advise(f"Will be kept: {copy}")
    question = f"Delete the memory in {places.root} for good?" if purge else "Uninstall?"
    confirm(yes, as_json, question)

    def before_step(step: Step) -> None:
        if not as_json:
            say(f"• Undo: {step.summary}")

    with if_stopped("Not everything has been undone yet. To continue, type: engram uninstall"):
        outcome = take_back(places, stray=journal, problems=unread, before_step=before_step)
    # The hooks' link to the interpreter is useless without hooks.
    if places.python_link.is_symlink():
        places.python_link.unlink()
    _end_pages(places)
    left: list[str] = []
    if purge and not outcome.problems:
        _refuse_running(places)
        left = [str(path) for path in purge_memory(places, keep=find_earlier(workspace.settings).files)]
    _drop_empty(places)
    facts = {"changed": outcome.changed, "notes": outcome.notes, "problems": outcome.problems, "left": left}
    facts |= {"copies": copies} if purge else {}
    if as_json:
        print_json(facts)
    else:
        for note in outcome.notes:
            say(f"Note: {note}")
        for problem in outcome.problems:
            say(f"Problem: {problem}", err=True)
        _print_end(places, purge, left, bool(outcome.problems))
        for copy in copies if purge and not outcome.problems else ():
            say(f"Not deleted: {copy.rpartition(' (')[0]}")
    ctx.exit(options.FAILED if outcome.problems else options.OK)


def _copies_elsewhere(workspace: Workspace) -> list[str]:
    """Return a description of each sealed copy of this memory in a folder or on a hub; uninstalling keeps them.

    A user who also wants the copies deleted must leave the folders and hubs before the keys are deleted.
    """
    if not workspace.places.memory_db.is_file():
        return []
    with contextlib.suppress(StoreError), workspace.existing_store() as store:
        places = [str(folder_of(server.url)) if is_folder(server.url) else server.url for server in list_servers(store)]
        hint = "(to delete it, run `engram hub leave` first, unless another machine uses it)"
        return [f"the sealed copy in {place} {hint}" for place in places]
    return []


def _print_uninstall(places: Home, steps: list[str], copies: list[str], purge: bool, as_json: bool) -> None:
    """Print what would be undone and deleted, without changing anything."""
    vaults = [folder.name for folder in vault_folders(places)]
    size_mb = round(home_bytes(places.root) / 1e6, 1)
    if as_json:
        print_json(
            {
                "steps": steps,
                "purge": purge,
                "home": str(places.root),
                "home_mb": size_mb,
                "vaults": vaults,
                "copies": copies,
            }
        )
        return
    for step in steps:
        say(f"Would be undone: {step}")
    if not steps:
        click.echo("Engram is not installed in Claude Code or as a service.")
    with_vaults = f", with the vaults {', '.join(vaults)}" if vaults else ""
    verb = "Would be deleted" if purge else "Would be kept"
    if places.root.is_dir():
        say(f"{verb}: the memory in {places.root}, {size_mb} MB{with_vaults}")
    for copy in copies:
        advise(f"Would be kept: {copy}")
    click.echo("Nothing was changed.")


def _end_pages(places: Home) -> None:
    """Stop the pages of the memory folder and of its vaults, which would otherwise write there again."""
    for home in (places, *map(Home, vault_folders(places))):
        if home.root.is_dir():
            stop_page(home)


def _print_end(places: Home, purge: bool, left: list[str], has_problems: bool) -> None:
    if has_problems:
        advise("Not everything could be undone. Remove the cause, then run `engram uninstall` again.", err=True)
        return
    if not purge and not (places.memory_db.exists() or vault_folders(places)):
        others = ". What else is in that folder is kept" if places.root.is_dir() else ""
        say(f"Uninstalled. There is no memory in {places.root}{others}.")
    elif not purge:
        advise(f"Uninstalled. The memory is kept in {places.root}; `engram uninstall --purge` deletes it.")
    elif left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        say(f"Uninstalled. Files that are not this program's are kept in {places.root}: {', '.join(left[:5])}{more}")
    else:
        click.echo("Uninstalled; the memory is deleted.")
    say("Remove the program the way you installed it, for example: uv tool uninstall engram-recall")


def _drop_empty(places: Home) -> None:
    """Remove the memory folder if it contains only what the uninstallation itself created there."""
    with contextlib.suppress(OSError):
        (places.root / "install").rmdir()
    with contextlib.suppress(OSError):
        if [path.name for path in places.root.iterdir()] == ["install.lock"]:
            (places.root / "install.lock").unlink()
            places.root.rmdir()


def _refuse_running(places: Home) -> None:
    homes = (places, *map(Home, vault_folders(places)))
    for lock in (lock for home in homes for lock in (home.worker_lock, home.watcher_lock)):
        if is_held(lock):
            raise InstallError(
                f"a process is still using {places.root} ({lock.stem}). Stop `engram up`, then try again"
            )


# -- ``engram setup``: what `engram install` does automatically, one part at a time.


@click.group("setup")
def setup() -> None:
    """Do one part of the installation by hand: hooks, plugin or model. `engram install` does everything that is needed.

    Example: engram setup hooks
    """


@setup.command("plugin", short_help="Show or write the plugin for Claude Code.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Write a marketplace folder with the plugin to DIR (default: write nothing, show the plugin).",
)
@click.option("--mod", is_flag=True, help="Include the mod that shows what was handed to Claude (default: no).")
@json_command
def plugin(workspace: Workspace, out: Path | None, mod: bool, as_json: bool) -> None:
    """Show the plugin for Claude Code, or write it as a marketplace folder.

    `engram install` puts the plugin into Claude Code's configuration folder. Use --out if you prefer to install it from
    a marketplace. Claude Code reads that folder in place: keep it, outside any virtual environment. Write it again
    after updating Engram.

    Example: engram setup plugin --out ~/engram-marketplace
    """
    places, claude_folder = workspace.places, workspace.settings.claude_folder
    home = None if is_default_home(places) else places
    if out is not None:
        link_interpreter(places)
        folder = _write_marketplace(absolute_path(out), marketplace_files(home, mod=mod))
        if as_json:
            print_json({"folder": str(folder)})
            return
        say(f"Wrote {folder}. Now run:")
        say(f"  claude plugin marketplace add {shlex.quote(str(folder))}")
        say(f"  claude plugin install {NAME}@{MARKETPLACE}")
        return
    files = plugin_files(home, mod=mod)
    registered = find_registrations(read_documents(claude_folder))
    if as_json:
        texts = {
            path: content.decode("utf-8", "replace") for path, content in files.items() if not path.endswith(".png")
        }
        print_json(
            {
                "folder": str(skills_folder(claude_folder)),
                "files": texts,
                "registered": [
                    {"way": found.way, "path": str(found.path), "version": found.version, "enabled": found.is_enabled}
                    for found in registered
                ],
            }
        )
        return
    say(f"Folder: {skills_folder(claude_folder)}")
    for path, content in files.items():
        say(f"  {path} ({len(content)} bytes)")
    for found in registered:
        say(f"Registered: {found.way} {found.path}{'' if found.is_enabled else ' (disabled)'}")
    if not registered:
        advise("Not registered in Claude Code. `engram install` registers it.")


def _write_marketplace(folder: Path, files: dict[str, bytes]) -> Path:
    """Write a marketplace folder; refuse a folder that contains anything else."""
    if other_files(folder, files) and not (folder / MARKETPLACE_LIST).is_file():
        raise InstallError(f"{folder} contains other files; specify a new or empty folder")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / path, content)
    return folder


@setup.command("hooks", short_help="Print Claude Code's settings for Engram.")
@json_command
def hooks(workspace: Workspace, as_json: bool) -> None:
    """Print the hooks and the MCP server for Claude Code's settings, with absolute paths.

    "hooks" belongs in settings.json in Claude Code's configuration folder, "mcpServers" in the user's .claude.json (or
    a project's .mcp.json). These files are not changed. The command creates the link `python` in the memory folder,
    which the hooks use.

    Example: engram setup hooks --json
    """
    places = workspace.places
    link_interpreter(places)
    block = settings_block(None if is_default_home(places) else places)
    if not as_json:
        say("Merge this into Claude Code's settings (hooks: settings.json; mcpServers: .claude.json):", err=True)
    print_json(block)


@setup.command("model", short_help="Download an embedding model and use it.")
@click.argument("name")
@json_command
def model(workspace: Workspace, name: str, as_json: bool) -> None:
    """Download the model NAME from the Hugging Face hub and make it ready to run.

    This is the only command that downloads a model. It doesn't change which model is used: it prints the command that
    does. A model in one of your folders needs no download.

    Example: engram setup model BAAI/bge-small-en-v1.5
    """
    from engram.embedding.load_model import fetch_model

    embedder = fetch_model(name)
    if as_json:
        print_json({"name": name, "id": embedder.model_id, "dimension": embedder.dimension})
        return
    say(f"{name} is ready: {embedder.dimension} numbers in a vector, {embedder.max_tokens} tokens at most.")
    if embedder.runtime == "torch":
        say("The worker runs it with torch, which takes 400 MB more. Without a worker, searches use only the text.")
    advise(f"To use it: engram config set embedding_model {name}\nThe worker then embeds every memory again.")


# -- ``engram completion``: what the shell needs to complete commands and options.


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in your shell.

    Example: engram completion zsh > ~/.zfunc/_engram
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise BadRequest(f"there is no completion for {shell}")
    root = ctx.find_root().command
    click.echo(completion_class(root, {}, "engram", "_ENGRAM_COMPLETE").source())


# -- ``engram config``: every setting with its value and source.


@click.group("config", cls=DefaultGroup, default="show", takes_words=True, synonyms={"get": "show"}, of_two="set")
def config() -> None:
    """Show every setting with its source, explain one, or change one (default: show).

    Example: engram config explain extractor
    """


@config.command("show", short_help="Show every setting, those that were changed first.")
@click.argument("name", required=False)
@json_command
def show(workspace: Workspace, name: str | None, as_json: bool) -> None:
    """Show every setting with its value: first those that were changed, with the source of each (a flag, the
    environment or config.toml) and its default; then all others, by topic.

    Change one with `engram config set NAME VALUE`, with a variable ENGRAM_<NAME>, or for one call with
    --set NAME=VALUE.

    Example: engram config recall_limit
    """
    values = plain_settings(workspace.settings)
    if name is not None:
        wanted = _canonical(name)
        if wanted not in values:
            raise NotFound(no_setting(name))
        values = {wanted: values[wanted]}
    sources = workspace.loaded.sources
    if as_json:
        rows = {setting: {"value": value, "source": sources[setting]} for setting, value in values.items()}
        print_json({"settings": rows})
    elif name is not None:
        say(shown_value(next(iter(values.values()))))
    else:
        _print_groups(values, sources)
        advise(
            "\n`engram config explain NAME` explains a setting, `engram config set NAME VALUE` changes it, and "
            "`engram config unset NAME` restores its default."
        )


def _print_groups(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Print the settings that were changed, and then all others by topic."""
    width = max(map(len, values))
    changed = [
        (name.ljust(width), shown_value(value) or "–", sources[name], default_of(name).replace("`", ""))
        for name, value in values.items()
        if sources[name] != "default"
    ]
    if changed:
        print_table(["Changed", "value", "from", "default"], changed, empty="")
        click.echo()
    groups = groupby(explained_settings(), attrgetter("section"))
    as_shipped = {section: [row.name for row in group if sources[row.name] == "default"] for section, group in groups}
    for place, (section, names) in enumerate((section, names) for section, names in as_shipped.items() if names):
        if place:
            click.echo()
        print_table([section, ""], [(name.ljust(width), shown_value(values[name]) or "–") for name in names], empty="")


@config.command("explain", short_help="Explain one setting, with the source of its value.")
@click.argument("name")
@json_command
def explain(workspace: Workspace, name: str, as_json: bool) -> None:
    """Explain the setting NAME, with its value, the source of the value, and its default.

    Example: engram config explain extractor
    """
    wanted = _canonical(name)
    known = next((setting for setting in explained_settings() if setting.name == wanted), None)
    if known is None:
        raise NotFound(no_setting(name))
    value, source = plain_settings(workspace.settings)[wanted], workspace.loaded.sources[wanted]
    if as_json:
        facts = {"setting": wanted, "value": value, "source": source}
        print_json(facts | {"default": known.default, "meaning": known.meaning})
        return
    default = known.default.replace("`", "")
    is_default = "the default" if source == "default" else f"from {source}; default: {default}"
    say(f"{wanted} = {shown_value(value) or 'none'} ({is_default})")
    say(f"\n{known.meaning}")


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("value", callback=as_typed)
@json_command
def set_setting(workspace: Workspace, name: str, value: str, as_json: bool) -> None:
    """Check a setting and write it to config.toml. If the worker and the watcher are running, they are restarted with
    it.

    Separate the items of a list with commas. Comments and the rest of the file are not changed.

    Example: engram config set llm_dollars_per_day 0.5
    """
    setting = _canonical(name)
    if setting == "embedding_model":
        from engram.embedding.model_source import require_model  # only this setting needs it

        require_model(value)
    stored = set_value(_config_home(workspace), setting, value)
    if as_json:
        print_json({"setting": setting, "value": plain_value(stored)})
    else:
        click.echo(f"{setting} = {shown_value(plain_value(stored)) or 'none'}")
    _note_override(workspace, setting)
    _note_missing(workspace, setting)
    for folder in folders_of(setting, stored):
        if not folder.is_dir():
            say(f"Note: there is no folder {folder} yet.", err=True)
    restart_with_settings(workspace)


@config.command("unset", short_help="Remove a setting, so that its default applies.")
@click.argument("name")
@json_command
def unset_setting(workspace: Workspace, name: str, as_json: bool) -> None:
    """Remove a setting from config.toml, so that its default applies again.

    Example: engram config unset llm_dollars_per_day
    """
    setting = _canonical(name)
    was_set = unset_value(_config_home(workspace), setting)
    if as_json:
        print_json({"setting": setting, "was_set": was_set})
    elif setting in plain_settings(Settings()):
        default = default_of(setting).replace("`", "")
        told = f"has its default again: {default}" if was_set else f"was not set. Default: {default}"
        say(f"{setting} is empty{' again' * was_set}." if default == "none" else f"{setting} {told}")
    else:
        say(f"{setting} is no longer in config.toml.")
    _note_override(workspace, setting)
    _note_missing(workspace, setting)
    if was_set:
        restart_with_settings(workspace)


def _config_home(workspace: Workspace) -> Path:
    """Return the folder with the config.toml in effect. A vault uses the file of the memory folder that contains it."""
    return config_home(_beside_file(workspace).settings.home)


def _note_missing(workspace: Workspace, setting: str) -> None:
    """Print what the language model needs before this setting takes effect; the setting is stored anyway."""
    if setting in _OF_MODEL:
        with contextlib.suppress(SettingsError):
            missing = find_missing(Workspace(workspace.flags).settings)
            if missing is not None:
                advise(f"Note: {missing.detail}. {missing.advice[0].upper()}{missing.advice[1:]}", err=True)
            elif setting == "extractor":
                _note_costs(Workspace(workspace.flags).settings)
            elif setting == "claude_command":
                _note_command(Workspace(workspace.flags).settings)


def _note_command(settings: Settings) -> None:
    """Print that there is no such command; it is needed as soon as Claude writes the memories."""
    from engram.extraction.model.claude_provider import find_claude  # only for this setting

    if find_claude(settings) is None:
        say(
            f"Note: {settings.claude_command!r} is not a command that can be run; give the whole path of claude, "
            "without arguments.",
            err=True,
        )


def _note_costs(settings: Settings) -> None:
    """Print who is sent the words of sessions from now on, and the most that this costs; nothing without a model."""
    if settings.extractor not in MODEL_EXTRACTORS:
        return
    from engram.cli.report_commands import cost_from_now, receiver  # only for this setting

    to = receiver(settings, settings.extractor)
    say(f"What is said in your sessions is sent to {to}, with secrets masked.", err=True)
    advise(f"{cost_from_now(settings)} `engram config unset extractor` ends it.", err=True)


#: Settings that choose who writes the memories.
_OF_MODEL = ("extractor", "claude_command", "llm_base_url")


def _note_override(workspace: Workspace, setting: str) -> None:
    """Warn if something other than config.toml decides the setting."""
    source = _beside_file(workspace).sources.get(setting)
    if source in ("flag", "environment"):
        say(f"Note: the {source} also sets {setting} and overrides config.toml.", err=True)


def _beside_file(workspace: Workspace) -> Loaded:
    """Load the settings without the faulty lines of config.toml, one of which may be the line to be fixed."""
    return load(workspace.flags, faults=[])


def _canonical(name: str) -> str:
    return name.replace("-", "_")
