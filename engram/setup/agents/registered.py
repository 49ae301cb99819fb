"""The files of the Claude Code plugin, and which parts of Engram are registered in Claude Code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from engram.paths import Home
from engram.reports.claude_checks import NAME, OTHER_NAME, names, our_hooks, read_object
from engram.system.lazy_regex import lazy_regex
from engram.version import VERSION
from engram_hooks.block import STAMP, settings_block

# -- The plugin's files, which are generated from the installed hooks, the MCP server and the texts in ``content/``.

#: Name of the marketplace that contains only this plugin.
MARKETPLACE: Final = "engram-local"
#: Path of the manifest in the plugin's folder.
MANIFEST: Final = ".claude-plugin/plugin.json"
#: Path of the list of plugins in a marketplace's folder.
MARKETPLACE_LIST: Final = ".claude-plugin/marketplace.json"
#: The author in the manifest, which distinguishes Engram's plugin from another one with the same name.
AUTHOR: Final = "Engram"
#: One-line description for Claude Code's lists.
DESCRIPTION: Final = "Long-term memory: what earlier sessions decided, tried and fixed, on this machine only."

_CONTENT = Path(__file__).resolve().parent / "content"
#: Path in the plugin → file in ``content/``.
_COPIED = {
    "README.md": "README.md",
    "skills/memory/SKILL.md": "skills/memory/SKILL.md",
    ".claude-plugin/icon.png": "icon.png",
}
#: The first version of Claude Code that loads mods by default.
MIN_MOD_VERSION: Final = (2, 1, 287)
#: Path of the mod in the plugin: JavaScript that runs inside Claude Code and shows what the hooks injected.
MOD: Final = "hooks/engram.js"


def plugin_files(
    home: Home | None = None,
    interpreter: str = sys.executable,
    name: str = NAME,
    *,
    declares_hosts: bool = False,
    mod: bool = False,
) -> dict[str, bytes]:
    """Return the plugin's files: path in the folder, with ``/``, → content.

    The hooks are the same as those for the settings. Two installations with the same version, home and interpreter
    produce the same bytes, so files that differ were written by a different installation.

    Args:
        home: a memory folder other than the default; None leaves the choice to the environment.
        name: the plugin's name; its MCP server is always called ``NAME``, because the plugin's name is prefixed to it.
        declares_hosts: declare in the manifest that the plugin does not contact any host; earlier versions of Claude
            Code warn about that key.
        mod: add the mod; versions of Claude Code before ``MIN_MOD_VERSION`` ignore it.
    """
    block = settings_block(home, interpreter)
    manifest, hooks = _manifest(name), {"description": f"Engram {VERSION}", "hooks": block["hooks"]}
    if declares_hosts:
        manifest["network"] = {"hosts": []}
    if mod:
        manifest["engines"] = {"claude-code": ">=" + ".".join(map(str, MIN_MOD_VERSION))}
        hooks["modules"] = [f"./{MOD.rpartition('/')[2]}"]
    made = {MANIFEST: manifest, "hooks/hooks.json": hooks, ".mcp.json": {"mcpServers": block["mcpServers"]}}
    copied = _COPIED | ({MOD: "engram.js"} if mod else {})
    return {path: _to_json(document) for path, document in made.items()} | {
        path: (_CONTENT / name).read_bytes() for path, name in copied.items()
    }


def marketplace_files(home: Home | None = None, *, mod: bool = False) -> dict[str, bytes]:
    """Return the files of a folder that ``claude plugin marketplace add`` accepts, with the plugin in ``engram/``.

    Claude Code reads such a folder in place, so it must not be moved.
    """
    listed = {
        "name": MARKETPLACE,
        "description": "Engram, as it is installed on this machine.",
        "owner": {"name": AUTHOR},
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": DESCRIPTION}],
    }
    plugin = {f"{NAME}/{path}": content for path, content in plugin_files(home, mod=mod).items()}
    return {MARKETPLACE_LIST: _to_json(listed)} | plugin


def _manifest(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": DESCRIPTION,
        "version": VERSION,
        "author": {"name": AUTHOR},
        "license": "MIT",
        "keywords": ["memory", "recall"],
    }


def _to_json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


# -- Which parts of Engram are registered in Claude Code: through a plugin, settings, or both. Only
# ``read_documents`` reads files.

#: Claude Code's name for the folder ``skills`` as a source of plugins.
SKILLS_PLACE = "skills-dir"
#: Manifest assumed for a plugin with Engram's name if its files can't be read: such a plugin counts as Engram's.
_UNREAD: Mapping[str, Any] = {"name": NAME, "author": {"name": AUTHOR}}
_VERSION = lazy_regex(re.escape(STAMP) + r"(\S+)\s*$")

Document = Mapping[str, Any]


class Way(StrEnum):
    """How the hooks get into Claude Code."""

    #: The folder ``skills/engram`` in Claude Code's configuration folder.
    SKILLS_FOLDER = "plugin folder"
    #: A plugin that was installed from a marketplace.
    MARKETPLACE = "plugin from a marketplace"
    #: A settings file.
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class ClaudeDocuments:
    """The contents of Claude Code's files that determine which hooks and plugins it loads."""

    #: Claude Code's configuration folder.
    folder: Path
    #: Settings file → its object, in order of increasing priority: user, project, local. {} for a missing file.
    settings: Mapping[Path, Document] = field(default_factory=dict)
    #: The manifest of Engram's plugin in the folder ``skills``; None if it is not there.
    skills_manifest: Document | None = None
    #: The current or future name of the plugin in the folder ``skills``.
    plugin_name: str = NAME
    #: Plugin → its manifest, for plugins from a marketplace that have one.
    manifests: Mapping[str, Document] = field(default_factory=dict)
    #: ``plugins/installed_plugins.json``.
    installed: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """A place that makes Claude Code run Engram's hooks."""

    way: Way
    #: The plugin's folder, or the settings file.
    path: Path
    #: The version that wrote it; "" if it is not recorded.
    version: str
    #: Its name in ``claude plugin``; "" for settings.
    plugin_id: str = ""
    #: False for a disabled plugin.
    is_enabled: bool = True
    #: The commands in a settings file. Claude Code runs a command only once, even if several files have it.
    commands: frozenset[str] = frozenset()


def skills_folder(claude_folder: Path, name: str = NAME) -> Path:
    """Return the folder of the plugin called ``name`` in Claude Code's configuration folder."""
    return claude_folder / "skills" / name


def find_registrations(documents: ClaudeDocuments) -> list[Registration]:
    """Return every place where Engram's hooks are registered, including disabled plugins."""
    return [*_plugins(documents), *_settings(documents)]


def find_double(registrations: Sequence[Registration]) -> list[Registration]:
    """Return the places that run the hooks at the same time; [] if there are fewer than two.

    Claude Code does not load a plugin from the skills folder if a plugin with the same name is installed. Hooks from
    settings run in addition to those of a plugin; a hook that is in several settings files runs once.
    """
    running: list[Registration] = []
    for found in registrations:
        is_known = any(found.commands and found.commands <= other.commands for other in running)
        if found.is_enabled and not is_known and loaded_instead(found, registrations) is None:
            running.append(found)
    return running if len(running) > 1 else []


def loaded_instead(found: Registration, registrations: Sequence[Registration]) -> Registration | None:
    """Return the installed plugin that Claude Code loads instead of one from the skills folder; else None."""
    if found.way is not Way.SKILLS_FOLDER:
        return None
    return next((other for other in registrations if other.way is Way.MARKETPLACE and other.is_enabled), None)


def is_ours(manifest: Document | None) -> bool:
    """Return True for the manifest of Engram's plugin, and False for another plugin with the same name."""
    if manifest is None:
        return False
    name, author = manifest.get("name"), manifest.get("author")
    is_our_name = name == NAME or str(name).startswith(OTHER_NAME)
    return is_our_name and isinstance(author, dict) and author.get("name") == AUTHOR


def read_documents(claude_folder: Path, project: Path | None = None) -> ClaudeDocuments:
    """Read what Claude Code would read. Files that are missing, too large or not JSON count as absent.

    Args:
        project: the folder of a project whose own settings also count.
    """
    paths = [claude_folder / "settings.json"]
    if project is not None:
        paths += [project / ".claude" / "settings.json", project / ".claude" / "settings.local.json"]
    installed = read_object(claude_folder / "plugins" / "installed_plugins.json") or {}
    manifests = {
        plugin_id: manifest
        for plugin_id, place in _installed(installed)
        if (manifest := read_object(Path(str(place.get("installPath", ""))) / MANIFEST)) is not None
    }
    others = {plugin_id.partition("@")[0] for plugin_id, manifest in manifests.items() if not is_ours(manifest)}
    name = _plugin_name(claude_folder, others)
    manifest = read_object(skills_folder(claude_folder, name) / MANIFEST)
    return ClaudeDocuments(
        folder=claude_folder,
        settings={path: read_object(path) or {} for path in dict.fromkeys(paths)},
        skills_manifest=manifest if is_ours(manifest) else None,
        plugin_name=name,
        installed=installed,
        manifests=manifests,
    )


def _plugin_name(claude_folder: Path, others: Collection[str]) -> str:
    """Return the name of Engram's plugin in the folder ``skills``: its current name, else the first free one.

    Claude Code does not load a plugin from that folder if a plugin with the same name is installed.
    """
    folders = claude_folder / "skills"
    manifests = sorted(folders.glob(f"{NAME}*/{MANIFEST}"))
    known = [path.parent.parent.name for path in manifests if is_ours(read_object(path))]
    free = [name for name in known if name not in others]
    return (
        free[0]
        if free
        else next(name for name in names() if name not in others and (name in known or not _is_taken(folders / name)))
    )


def _is_taken(folder: Path) -> bool:
    """Return True for the folder of another program's skill; one left by an interrupted installation does not count."""
    if folder.is_symlink() and not folder.is_dir():
        return True
    own = set(plugin_files(mod=True))
    return (
        any(
            str(path.relative_to(folder)) not in own or path == folder / MANIFEST
            for path in folder.rglob("*")
            if not path.is_dir() and not path.name.startswith(".")
        )
        or (folder / MANIFEST).exists()
    )


def _installed(installed: Document) -> Iterator[tuple[str, Document]]:
    """Yield the id and the latest path of each marketplace plugin that has one of Engram's possible names."""
    plugins = installed.get("plugins")
    for plugin_id, places in (plugins if isinstance(plugins, dict) else {}).items():
        name = str(plugin_id).partition("@")[0]
        if (name == NAME or name.startswith(OTHER_NAME)) and isinstance(places, list) and places:
            yield str(plugin_id), places[-1] if isinstance(places[-1], dict) else {}


def _plugins(documents: ClaudeDocuments) -> Iterator[Registration]:
    if is_ours(documents.skills_manifest) and documents.skills_manifest is not None:
        plugin_id = f"{documents.plugin_name}@{SKILLS_PLACE}"
        yield Registration(
            way=Way.SKILLS_FOLDER,
            path=skills_folder(documents.folder, documents.plugin_name),
            version=str(documents.skills_manifest.get("version", "")),
            plugin_id=plugin_id,
            # A plugin in this folder needs no entry; only an explicit "false" keeps it from loading.
            is_enabled=_enabled(documents).get(plugin_id) is not False,
        )
    for plugin_id, place in _installed(documents.installed):
        if plugin_id.partition("@")[0] != NAME or not is_ours(documents.manifests.get(plugin_id, _UNREAD)):
            continue
        yield Registration(
            way=Way.MARKETPLACE,
            path=Path(str(place.get("installPath", ""))),
            version=str(place.get("version", "")),
            plugin_id=plugin_id,
            is_enabled=_enabled(documents).get(plugin_id) is True,
        )


def _settings(documents: ClaudeDocuments) -> Iterator[Registration]:
    for path, settings in documents.settings.items():
        commands = frozenset(str(handler["command"]) for _, handler in our_hooks(settings))
        if commands:
            versions = {match[1] if (match := _VERSION.search(command)) else "" for command in commands}
            version = versions.pop() if len(versions) == 1 else ""
            yield Registration(way=Way.SETTINGS, path=path, version=version, commands=commands)


def _enabled(documents: ClaudeDocuments) -> dict[str, object]:
    """Return plugin → whether it is enabled; later settings files take precedence."""
    merged: dict[str, object] = {}
    for settings in documents.settings.values():
        plugins = settings.get("enabledPlugins")
        merged.update(plugins if isinstance(plugins, dict) else {})
    return merged
