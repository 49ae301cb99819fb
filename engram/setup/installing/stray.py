"""Find the parts of Engram on a machine without a journal, such as after its folder was deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home, is_default_home
from engram.reports.claude_checks import NAME, SERVER_MARK, claude_json, other_servers, our_server_names, read_object
from engram.settings import Settings
from engram.setup.agents.claude_code import read_document
from engram.setup.agents.other_agents import SERVERS, codex_servers, opencode_file, opencode_folder
from engram.setup.agents.plugin import permission_rule, without_our_hooks, without_our_server, without_our_statusline
from engram.setup.agents.registered import is_ours, read_documents, skills_folder
from engram.setup.edits.file_state import ABSENT, MAX_BYTES, FileState, StateKind, read_state, real_path
from engram.setup.edits.install_steps import JsonEdit, JsonEntry
from engram.setup.edits.journal import FileRecord, Journal, Ledger, Phase, StepRecord
from engram.setup.edits.json_edit import AppliedJson
from engram.setup.edits.toml_edit import AppliedToml
from engram.setup.installing.install_run import action_to_json, collecting
from engram.setup.services.service_plan import StartServices, agent_folders, installed_system
from engram.system.atomic import explain_error, read_regular
from engram.vaults import FILE_NAME as VAULT_FILE
from engram.vaults import FOLDER_NAME as VAULTS_FOLDER
from engram.vaults import mark_of

#: A state that matches no file, so that every file counts as changed by others, and only Engram's part is removed.
_UNKNOWN = FileState(StateKind.FILE, digest="unknown")


def find_stray(settings: Settings, problems: list[str]) -> Journal | None:
    """Return a journal of the changes by ``engram install`` that were found on this machine; None if there are none.

    ``uninstall`` undoes them as if the installer had written the journal.

    Args:
        problems: gets a line for each settings file that can't be read and may contain Engram's entries.
    """
    ledger = _find_files(settings, settings.all_claude_folders, problems)
    steps = {record.step: StepRecord(record.step, _SUMMARIES[record.step]) for record in ledger.files.values()}
    system = installed_system(settings)
    if "service" in steps or system.status().is_running:
        action = StartServices(system=system.name.value, home=str(settings.home), folders=agent_folders(settings))
        steps["service"] = StepRecord("service", _SUMMARIES["service"], after=[action_to_json(action)])
    ledger.steps = list(steps.values())
    return Journal(Phase.UNINSTALLING, ledger=ledger) if ledger.steps else None


def find_leftovers(settings: Settings) -> Ledger:
    """Return the files of an earlier installation for this memory folder, for a new one that has no journal of it.

    Uninstalling must not restore them. A plugin for another memory folder belongs to the installation there.
    """
    home = "" if is_default_home(settings.places) else str(settings.home)
    folders = [folder for folder in settings.all_claude_folders if _home_of_plugin(folder) in (None, home)]
    return _find_files(settings, folders, [])


def _home_of_plugin(claude_folder: Path) -> str | None:
    """Return the memory folder that the plugin names, "" if it names none; None if there is no plugin."""
    known = read_documents(claude_folder)
    if not is_ours(known.skills_manifest):
        return None
    servers = (read_object(skills_folder(claude_folder, known.plugin_name) / ".mcp.json") or {}).get("mcpServers")
    server = servers.get(NAME) if isinstance(servers, dict) else None
    environment = server.get("env") if isinstance(server, dict) else None
    return str(environment.get("ENGRAM_HOME", "")) if isinstance(environment, dict) else ""


def _find_files(settings: Settings, claude_folders: Iterable[Path], problems: list[str]) -> Ledger:
    """Return the files that Engram wrote or edited, with a record of how to take its part out."""
    ledger = Ledger()
    records = [*_codex(settings, problems), *_json_agents(settings, problems), *_service(settings)]
    for folder in claude_folders:
        of_folder = replace(settings, claude_folder=folder)
        records += [*_plugin(of_folder, ledger), *_settings_files(of_folder, problems)]
    ledger.files = {record.path: record for record in records}
    return ledger


_SUMMARIES = {
    "plugin": "The plugin in Claude Code's folder",
    "settings": "Engram's entries in Claude Code's settings",
    "codex": "The memory tools in Codex's configuration",
    "gemini": "The memory tools in Gemini CLI's settings",
    "opencode": "The memory tools in OpenCode's configuration",
    "service": "The worker and the watcher as a service",
}


def _plugin(settings: Settings, ledger: Ledger) -> Iterator[FileRecord]:
    known = read_documents(settings.claude_folder)
    if not is_ours(known.skills_manifest):
        return
    folder = skills_folder(settings.claude_folder, known.plugin_name)
    ledger.folders += [str(path) for path in sorted([folder, *folder.rglob("*")]) if path.is_dir()]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield _own_file(path, "plugin")


def _service(settings: Settings) -> Iterator[FileRecord]:
    for change in installed_system(settings).files():
        if change.path.is_file():
            yield _own_file(change.path, "service")


def _own_file(path: Path, step: str) -> FileRecord:
    real = real_path(path, is_link=False)
    state = read_state(real)[0]
    return FileRecord(str(path), str(real), step, original=ABSENT, written=state, is_written=True)


def _settings_files(settings: Settings, problems: list[str]) -> Iterator[FileRecord]:
    path, servers = settings.claude_folder / "settings.json", claude_json(settings)
    document, server_document = _read_document(path, problems), _read_document(servers, problems)
    hooks, statusline = without_our_hooks(document).drop, without_our_statusline(document)
    ours, known = our_server_names(server_document.get("mcpServers")), read_documents(settings.claude_folder)
    # Nothing shows that Engram wrote a rule on its own, or one in a file that it would not have changed.
    may_have_written = path.is_file() and path.stat().st_mode & stat.S_IWUSR
    is_connected = is_ours(known.skills_manifest) or ours or hooks or statusline
    names = [NAME, known.plugin_name, *ours] if is_connected and may_have_written else []
    permissions = document.get("permissions")
    allowed = permissions.get("allow") if isinstance(permissions, dict) else None
    entries = tuple(
        JsonEntry(("permissions", "allow"), rule, is_item=True)
        for rule in _rules(names, other_servers(server_document))
        if isinstance(allowed, list) and rule in allowed
    )
    of_settings = JsonEdit(drop=(*hooks, *entries, *statusline))
    for file, edit in ((path, of_settings), (servers, without_our_server(server_document))):
        if edit.drop:
            yield _edited_file(file, "settings", _without_entries(edit))


def _rules(names: Iterable[str], taken: Collection[str]) -> list[str]:
    """Return the permission rules of Engram's plugin and server, except those for other programs' servers."""
    return [
        permission_rule(name, is_plugin=is_plugin)
        for name in dict.fromkeys(names)
        for is_plugin in (True, False)
        if is_plugin or name not in taken
    ]


def _codex(settings: Settings, problems: list[str]) -> Iterator[FileRecord]:
    path = settings.codex_folder / "config.toml"
    found: dict[str, Any] = {}
    with collecting(problems):
        found = codex_servers(path)
    for name in our_server_names(found)[:1]:
        yield _edited_file(
            path, "codex", {"toml": AppliedToml((SERVERS, name), blank="\n", marker=SERVER_MARK).to_json()}
        )


def _json_agents(settings: Settings, problems: list[str]) -> Iterator[FileRecord]:
    files = {
        "gemini": (settings.gemini_folder / "settings.json", "mcpServers"),
        "opencode": (opencode_file(opencode_folder()), "mcp"),
    }
    for name, (path, key) in files.items():
        edit = without_our_server(_read_document(path, problems), key)
        if edit.drop:
            yield _edited_file(path, name, _without_entries(edit))


def _read_document(path: Path, problems: list[str]) -> dict[str, Any]:
    """Return the object in a settings file; {} for one that can't be read, which is a problem if it names Engram."""
    try:
        return read_document(path)
    except InstallError as error:
        real = Path(os.path.realpath(path))
        data = read_regular(real, MAX_BYTES)
        if real.is_file() and (data is None or NAME.encode() in data):
            problems.append(str(error).removesuffix("; nothing was changed"))
        return {}


def _without_entries(edit: JsonEdit) -> dict[str, Any]:
    """Return the edit that removes the entries, along with the objects and lists that become empty."""
    containers = [entry.path if entry.is_item else entry.path[:-1] for entry in edit.drop]
    created = {path[:length] for path in containers for length in range(1, len(path) + 1)}
    return {"json": AppliedJson(added=list(edit.drop), created=list(created), former="").to_json()}


def _edited_file(path: Path, step: str, applied: dict[str, Any]) -> FileRecord:
    """Return a record of a file that others also write."""
    return FileRecord(
        path=str(path),
        real=str(real_path(path, is_link=False)),
        step=step,
        original=ABSENT,
        written=_UNKNOWN,
        applied=applied,
        is_written=True,
    )


# -- Delete the memory folder, but only what this program stores there.

#: Patterns for the names of files and folders in the memory folder.
PATTERNS = (
    *"memory.db* memory.*.db* queue.db* *.sock *.lock worker.coming python config.toml .env".split(),
    *"recollections notes logs models backups calls page page.json hub-keys.json pack-key".split(),
    *(VAULT_FILE, "install", ".self-test-*", ".*.tmp"),
)


def purge_memory(home: Home, *, keep: Collection[Path] = ()) -> list[Path]:
    """Delete this program's files in the memory folder and its vaults, and the folders that become empty.

    Args:
        keep: files of the earlier Engram.

    Returns:
        The paths that are left.

    Raises:
        InstallError: a file can't be deleted.
    """
    if not home.root.is_dir():
        return []
    for vault in vault_folders(home):
        purge_memory(Home(vault))
        mark_of(vault).unlink(missing_ok=True)
    for mark in (home.root / VAULTS_FOLDER).glob(mark_of(Path("*")).name):
        if not os.path.lexists(mark.with_name(mark.name.removeprefix(".").removesuffix(".vault"))):
            mark.unlink(missing_ok=True)  # of a vault that was deleted by hand
    with contextlib.suppress(OSError):
        os.rmdir(home.root / VAULTS_FOLDER)
    try:
        for path in _ours(home.root, set(keep)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        home.forget_disk()
    except OSError as error:
        raise InstallError(f"can't delete the memory: {explain_error(error)}") from error
    left = sorted(home.root.iterdir())
    if not left:
        with contextlib.suppress(OSError):
            os.rmdir(home.root)
    return left


def vault_folders(home: Home) -> list[Path]:
    """Return the memory folders of the vaults, whether or not they can be read."""
    return sorted(file.parent for file in (home.root / VAULTS_FOLDER).glob(f"*/{VAULT_FILE}"))


def _ours(root: Path, keep: set[Path]) -> Iterator[Path]:
    for pattern in PATTERNS:
        for path in sorted(root.glob(pattern)):
            if path not in keep:
                yield path
