"""How Claude Code is connected to Engram: its installed version, the kind of connection, and the permission."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engram.errors import BadRequest, InstallError
from engram.extraction.model.claude_provider import call_environment, find_claude, find_moved_claude
from engram.paths import is_default_home
from engram.reports.claude_checks import (
    ASK_THEM,
    MAX_FILE_BYTES,
    NO_HOOKS,
    NO_MODS,
    claude_json,
    find_policies,
    why_not_loaded,
)
from engram.reports.engram_checks import Check, State
from engram.settings import Settings
from engram.setup.agents.plugin import (
    MIN_PLUGIN_VERSION,
    has_mod,
    is_at_least,
    permission_rule,
    plan_plugin,
    plan_settings,
    plan_statusline,
    settings_server,
    without_our_hooks,
    without_our_server,
)
from engram.setup.agents.registered import MIN_MOD_VERSION, MOD, Registration, Way, find_registrations, read_documents
from engram.setup.edits.apply_edit import apply_change, decode, editing
from engram.setup.edits.file_state import StateKind, check_writable, read_state, real_path
from engram.setup.edits.install_steps import FileChange, JsonEdit, JsonEntry, Step
from engram.setup.edits.json_document import value_of
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

# -- The user's choices, which a later installation keeps unless new ones are given.

#: OpenAI's Codex CLI.
CODEX = "codex"
#: Google's Gemini CLI.
GEMINI = "gemini"
#: OpenCode. Its sessions are not read.
OPENCODE = "opencode"
#: Agents that can get the memory tools besides Claude Code, which is always connected.
AGENTS = (CODEX, GEMINI, OPENCODE)


@dataclass(frozen=True, slots=True)
class Choices:
    """The parts of an installation that a user can leave out or add."""

    #: Start the worker and the watcher at login.
    service: bool = True
    #: Connect Claude Code through a plugin; False for its settings files.
    plugin: bool = True
    #: Let Claude use the memory tools without asking.
    permissions: bool = True
    #: Show in Claude Code's status line what Engram is doing.
    statusline: bool = False
    #: Add the mod to the plugin, which shows in Claude Code what hooks injected; None if the user has not been asked
    #: yet.
    mod: bool | None = None
    #: Agents that get the memory tools, besides Claude Code.
    agents: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def choose(stored: Mapping[str, Any] | None, **given: Any) -> Choices:
    """Return each choice as given (None: not given), else as in the previous installation, else its default."""
    choices = Choices()
    known = {name: value for name, value in (stored or {}).items() if hasattr(choices, name)}
    if "agents" in known:
        known["agents"] = tuple(agent for agent in known["agents"] if agent in AGENTS)
    known |= {name: value for name, value in given.items() if value is not None}
    return replace(choices, **known)


#: Time limit for ``claude --version``, in seconds.
VERSION_SECONDS = 30


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    #: Absolute path of the command; None if it is not installed, or not on PATH.
    command: str | None
    #: The output of ``claude --version``; "" if unknown.
    version: str

    @property
    def supports_plugin(self) -> bool:
        """True if it loads a plugin from its ``skills`` folder, or is not installed yet."""
        return not self.version.strip() or is_at_least(self.version, MIN_PLUGIN_VERSION)

    @property
    def supports_mods(self) -> bool:
        """True if it is known to load a plugin's mod; older versions ignore it and run the hooks."""
        return is_at_least(self.version, MIN_MOD_VERSION)


def find_claude_code(settings: Settings) -> ClaudeCode:
    """Find Claude Code and its version. No model is called."""
    command = find_claude(settings) or find_moved_claude(settings)
    if command is None:
        return ClaudeCode(None, "")
    finished = _run(command, "--version")
    return ClaudeCode(command, finished.stdout.strip() if finished is not None and finished.returncode == 0 else "")


def _run(command: str, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run Claude Code; return None if that fails or takes too long."""
    try:
        return subprocess.run(
            [command, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            stdin=subprocess.DEVNULL,
            env=call_environment(command),
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None


def plan_connection(settings: Settings, choices: Choices, claude: ClaudeCode) -> list[Step]:
    """Return the steps that connect Claude Code by one method and remove the other.

    Raises:
        InstallError: a settings file can't be read, or the hooks belong in one that must not be changed.
    """
    home = None if is_default_home(settings.places) else settings.places
    settings_path, servers_path = settings.claude_folder / "settings.json", claude_json(settings)
    paths = (settings_path, servers_path)
    documents = {path: {} if why_not_loaded(path) else read_document(path) for path in paths}
    known = read_documents(settings.claude_folder)
    registrations = find_registrations(known)
    market = next((found for found in registrations if found.way is Way.MARKETPLACE and found.is_enabled), None)
    is_plugin = market is not None or (choices.plugin and claude.supports_plugin)
    if market is not None:
        note = f"Claude Code already has Engram: the plugin {market.plugin_id}. Update it with `claude plugin update`."
        steps = [Step("plugin", f"Keep the plugin {market.plugin_id}", notes=(note,))]
    elif is_plugin:
        steps = [
            plan_plugin(
                settings.claude_folder,
                home,
                version=claude.version,
                mod=bool(choices.mod),
                is_found=claude.command is not None,
            )
        ]
    else:
        for path in paths:
            if why := _why_left(path):
                raise InstallError(f"{why}; nothing was changed")
        steps = [
            plan_settings(
                settings.claude_folder, servers_path, documents[settings_path], home, servers=documents[servers_path]
            )
        ]
    if is_plugin:
        edits = {
            settings_path: without_our_hooks(documents[settings_path]),
            servers_path: without_our_server(documents[servers_path]),
        }
        changes = tuple(FileChange(path, edit=edit) for path, edit in edits.items() if edit != JsonEdit())
        if changes:
            steps.append(
                Step("settings", "Remove Engram's hooks from Claude Code's settings: the plugin has them", changes)
            )
    if choices.statusline:
        steps.append(plan_statusline(settings.claude_folder, documents[settings_path], home))
    if choices.permissions:
        name = settings_server(servers_path, documents[servers_path])[0]
        if is_plugin:
            name = known.plugin_name if market is None else market.plugin_id.partition("@")[0]
        rule = permission_rule(name, is_plugin=is_plugin)
        edit = JsonEdit(add=(JsonEntry(("permissions", "allow"), rule, is_item=True),))
        summary = f"Let Claude use the memory tools without asking ({rule} in {settings_path})"
        steps.append(Step("permissions", summary, (FileChange(settings_path, edit=edit),)))
    steps += [
        Step("settings file", f"Leave {path} unchanged", notes=(f"{why}. Correct it.",))
        for path in paths
        if (why := why_not_loaded(path)) and not any(change.path == path for step in steps for change in step.changes)
    ]
    return steps


#: Begins the note of a step about a file that the installation had to leave as it is.
NOT_DONE = "Not done: "


def leave_files(step: Step, settings: Settings) -> Step:
    """Return the step without changes to files that Claude Code does not load, or that are read-only.

    Notes say why these files are left unchanged, and what the user can add by hand.
    """
    paths = (settings.claude_folder / "settings.json", claude_json(settings))
    reasons = {path: why for path in paths if (why := _why_left(path))}
    left = [change for change in step.changes if change.path in reasons]
    notes = []
    for change in left:
        if _is_in_effect(change):
            continue
        added = change.edit.add if isinstance(change.edit, JsonEdit) else ()
        by_hand = "".join(
            f", or add {entry.value} to {'.'.join(entry.path)} yourself" for entry in added if entry.is_item
        )
        notes.append(f"{NOT_DONE}{reasons[change.path]}. Then run `engram install` again{by_hand}.")
    return replace(
        step,
        changes=tuple(change for change in step.changes if change not in left),
        left=(*step.left, *(change.path for change in left)),
        notes=(*step.notes, *notes),
    )


def _is_in_effect(change: FileChange) -> bool:
    """Return True if a file that Claude Code loads already is as the change would make it."""
    state, data = read_state(real_path(change.path, is_link=False))
    is_loaded = state.kind is StateKind.FILE and not why_not_loaded(change.path)
    return is_loaded and apply_change(change, data)[0] == data


def _why_left(path: Path) -> str:
    """Return why the installation must not change a file of Claude Code, and how to fix that; "" if it may."""
    try:
        real = real_path(path, is_link=False)
        check_writable(path, real, read_state(real)[0])
    except InstallError as error:
        return str(error)
    why = why_not_loaded(path)
    return f"{why}. Correct it in an editor" if why else ""


def read_document(path: Path) -> dict[str, Any]:
    """Return the object in a settings file; {} if there is none. Raises InstallError if it can't be read."""
    state, data = read_state(real_path(path, is_link=False))
    if state.kind is not StateKind.FILE:
        return {}
    with editing(path):
        value = value_of(decode(path, data))
        if not isinstance(value, dict | None):
            raise BadRequest("it is not an object in braces")
    return value or {}


# -- Check the mod for ``engram doctor``: does this version or a policy ignore or refuse it, or is its command taken?

_TAKES_COMMAND = lazy_regex(rb"""command\.register\(\s*\{[^}]{0,400}?\bname:\s*["'`]engram["'`]""")


def check_mod(settings: Settings, registrations: Sequence[Registration]) -> Iterator[Check]:
    """Check that Claude Code loads the mod. Claude Code is started twice, offline.

    Nothing is yielded if the mod was not chosen, or if an organization forbids the hooks, and thus the mod, which
    ``check_claude`` reports.

    Args:
        registrations: what is registered in Claude Code, from ``find_registrations``.
    """
    if find_policies(NO_HOOKS):
        return
    policies = find_policies(NO_MODS)
    places = [found.path for found in registrations if found.way is not Way.SETTINGS and found.is_enabled]
    for folder in filter(has_mod, places):
        claude = find_claude_code(settings)
        if claude.version and not claude.supports_mods:
            detail, advice = f"{claude.version} ignores it; the hooks work without it", "update Claude Code"
        elif policies:
            name, path = next(iter(policies.items()))
            detail = f"an organization's settings keep it from loading ({name} in {path})"
            advice = ASK_THEM
        elif refusal := _refusal(claude, folder):
            detail, advice = f"Claude Code refuses it: {refusal}", "run: engram install, or engram install --no-mod"
        elif taken := _taker_of_command(settings.claude_folder, folder):
            detail = f"another /engram takes precedence ({taken}): the line appears, but the command is not Engram's"
            advice = "rename that one, or do without Engram's /engram"
        else:
            yield Check("mod", State.OK, f"{folder / MOD}, which {claude.version or 'Claude Code'} loads")
            continue
        yield Check("mod", State.WARN, detail, advice, public=detail.partition(" (")[0].partition(":")[0])


def _refusal(claude: ClaudeCode, folder: Path) -> str:
    """Return why this Claude Code would not load the plugin's files; "" if it would, or if that is unknown."""
    finished = None if claude.command is None else _run(claude.command, "plugin", "validate", "--json", str(folder))
    if finished is None:
        return ""
    try:
        report = json.loads(finished.stdout)
        parts = [report["manifest"], *report["contents"]]
        return next((str(error["message"]) for part in parts for error in part["errors"]), "")
    except (ValueError, KeyError, TypeError):
        return ""


def _taker_of_command(claude_folder: Path, own: Path) -> str:
    """Return what else is called ``/engram``: a command or skill of the user's, or another plugin's mod; "" for none.

    Only plugins in the ``skills`` folder are examined.
    """
    for path in (claude_folder / "commands" / "engram.md", claude_folder / "skills" / "engram" / "SKILL.md"):
        if path.is_file():
            return str(path)
    for hooks in sorted((claude_folder / "skills").glob("*/hooks/hooks.json")):
        folder = hooks.parent
        if folder.parent != own and any(
            _TAKES_COMMAND.search(read_regular(path, MAX_FILE_BYTES) or b"") for path in folder.glob("*.[jt]s")
        ):
            return str(folder.parent)
    return ""
