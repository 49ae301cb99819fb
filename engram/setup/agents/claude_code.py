"""How Claude Code gets Engram: which version there is, by which way it is connected, and the permission."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engram.errors import BadRequest, InstallError
from engram.extraction.model.claude_provider import call_environment, find_claude
from engram.paths import is_default_home
from engram.reports.claude_checks import SERVER_MARK, claude_json
from engram.settings import Settings
from engram.setup.agents.plugin import (
    permission_rule,
    plan_plugin,
    plan_settings,
    plan_statusline,
    settings_server,
    supports_plugin,
    without_our_hooks,
    without_our_server,
)
from engram.setup.agents.registered import Way, find_registrations, read_documents
from engram.setup.edits.changes import FileChange, JsonEdit, JsonEntry, Step
from engram.setup.edits.edits import decode
from engram.setup.edits.file_state import StateKind, check_writable, read_state, real_path
from engram.setup.edits.journal import Journal
from engram.setup.edits.json_document import parse

# -- What the user chose; a later installation keeps it unless told otherwise.

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

    #: Start worker and watcher at login.
    service: bool = True
    #: Connect Claude Code by a plugin; False for its settings files.
    plugin: bool = True
    #: Let Claude use the memory tools without asking.
    permissions: bool = True
    #: Show in Claude Code's status line what Engram does.
    statusline: bool = False
    #: Agents that get the memory tools, besides Claude Code.
    agents: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The choices as they stand in the journal."""
        return asdict(self)


def choose(stored: Mapping[str, Any] | None, **given: Any) -> Choices:
    """The choices of now: what is given (None: nothing), else what the installation before stored, else defaults."""
    choices = Choices()
    known = {name: value for name, value in (stored or {}).items() if hasattr(choices, name)}
    if "agents" in known:
        known["agents"] = tuple(agent for agent in known["agents"] if agent in AGENTS)
    known |= {name: value for name, value in given.items() if value is not None}
    return replace(choices, **known)


#: How long ``claude --version`` may take, in seconds.
VERSION_SECONDS = 30


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The Claude Code of this machine."""

    #: Absolute path of the command; None if it is not installed, or not on PATH.
    command: str | None
    #: What ``claude --version`` prints; "" if unknown.
    version: str

    @property
    def supports_plugin(self) -> bool:
        """It loads a plugin from its folder ``skills``; also true of one that is installed later."""
        return supports_plugin(self.version)


def find_claude_code(settings: Settings) -> ClaudeCode:
    """Look for Claude Code and ask for its version. No model is called."""
    command = find_claude(settings)
    if command is None:
        return ClaudeCode(None, "")
    try:
        finished = subprocess.run(
            [command, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            stdin=subprocess.DEVNULL,
            env=call_environment(command),
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ClaudeCode(command, "")
    return ClaudeCode(command, finished.stdout.strip() if finished.returncode == 0 else "")


def plan_connection(
    settings: Settings, choices: Choices, claude: ClaudeCode, journal: Journal | None = None
) -> list[Step]:
    """The steps that connect Claude Code by one way and remove the other.

    Raises:
        InstallError: a settings file can't be read.
    """
    home = None if is_default_home(settings.places) else settings.places
    settings_path, servers_path = settings.claude_folder / "settings.json", claude_json(settings)
    documents = {path: read_document(path) for path in (settings_path, servers_path)}
    known = read_documents(settings.claude_folder)
    registrations = find_registrations(known)
    taken = replaced_names(journal, servers_path)
    market = next((found for found in registrations if found.way is Way.MARKETPLACE and found.is_enabled), None)
    is_plugin = market is not None or (choices.plugin and claude.supports_plugin)
    if market is not None:
        note = (
            f"Claude Code has Engram by the plugin {market.plugin_id} already; update it with `claude plugin update`."
        )
        steps = [Step("plugin", f"Keep the plugin {market.plugin_id}", notes=(note,))]
    elif is_plugin:
        steps = [plan_plugin(settings.claude_folder, home, version=claude.version)]
    else:
        steps = [
            plan_settings(
                settings.claude_folder,
                servers_path,
                documents[settings_path],
                home,
                servers=documents[servers_path],
                taken=taken,
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
        name = settings_server(servers_path, documents[servers_path], taken)[0]
        if is_plugin:
            name = known.plugin_name if market is None else market.plugin_id.partition("@")[0]
        steps.append(_plan_permission(settings_path, permission_rule(name, is_plugin=is_plugin)))
    return steps


def replaced_names(journal: Journal | None, path: Path) -> set[str]:
    """Return the names of other programs' servers that an earlier installation replaced in a file.

    They come back before anything is written anew, so Engram's server can't have these names.
    """
    record = journal.ledger.files.get(str(path)) if journal is not None else None
    applied = record.applied if record is not None and record.applied is not None else {}
    found = {
        str(old["path"][-1])
        for old in applied.get("json", {}).get("replaced", ())
        if len(old["path"]) == 2 and SERVER_MARK not in str(old["text"])
    }
    toml = applied.get("toml", {})
    if any(SERVER_MARK not in str(text) for text in toml.get("former", ())[:1]):
        found.add(str(toml["table"][-1]))
    return found


def _plan_permission(path: Path, rule: str) -> Step:
    """Add the rule to ``permissions.allow``; a read-only file is left alone."""
    summary = f"Let Claude use the memory tools without asking ({rule} in {path})"
    real = real_path(path, is_link=False)
    try:
        check_writable(path, real, read_state(real)[0])
    except InstallError as error:
        note = (
            f"Not done: {error}. Claude asks before it uses the memory tools; add {rule} to permissions.allow yourself."
        )
        return Step("permissions", summary, notes=(note,))
    edit = JsonEdit(add=(JsonEntry(("permissions", "allow"), rule, is_item=True),))
    return Step("permissions", summary, (FileChange(path, edit=edit),))


def read_document(path: Path) -> dict[str, Any]:
    """The object in a settings file; {} if there is none. Raises InstallError if it can't be read."""
    state, data = read_state(real_path(path, is_link=False))
    if state.kind is not StateKind.FILE:
        return {}
    try:
        root = parse(decode(path, data))
    except BadRequest as error:
        raise InstallError(f"{path} can't be edited: {error}. Correct it; nothing was changed") from error
    value = {} if root is None else root.value
    if not isinstance(value, dict):
        raise InstallError(f"{path} can't be edited: it holds no object in braces. Correct it; nothing was changed")
    return value
