"""Read the user's own files that an agent reads at startup. Engram never changes them here."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engram.models.engine.transaction import Store
from engram.models.projects.notes import (
    StandingFile,
    drop_standing_file,
    list_standing_files,
    put_standing_file,
)
from engram.models.projects.projects import ProjectRow, list_projects
from engram.models.sessions.recent_work import recent_files
from engram.models.work.work import paused_scopes
from engram.notes.daily_log import MAX_NOTE_CHARACTERS, save_note
from engram.notes.note_index import Redact
from engram.paths import user_home
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.project import is_excluded

# -- Find Claude Code's auto memory of a project. Claude Code's settings may specify another folder or switch it off.

#: Maximum number of bytes of a settings file that are read.
MAX_SETTINGS_BYTES = 4_000_000
#: Length to which Claude Code truncates the name of a project's folder before it appends a hash, in characters.
MAX_FOLDER_NAME = 200
#: Names of the settings.
_FOLDER, _IS_ENABLED = "autoMemoryDirectory", "autoMemoryEnabled"


def auto_memory_folder(claude_folder: Path, root: Path | None) -> Path | None:
    """Return the folder of a project's auto memory, or that of the auto memory that all projects share.

    A project's own settings take precedence over the user's. The shared ones may come with a clone, so the folder that
    they name counts only within the project.

    Args:
        root: the project's folder; None for the shared auto memory.

    Returns:
        The folder; None if auto memory is switched off, or if the requested kind of folder is not used.
    """
    user = _settings(claude_folder / "settings.json")
    if root is None:
        return _named(user, user_home()) if user.get(_IS_ENABLED) is not False else None
    own = [_settings(root / ".claude" / name) for name in ("settings.local.json", "settings.json")]
    enabled = next((file[_IS_ENABLED] for file in (*own, user) if _IS_ENABLED in file), True)
    if enabled is False:
        return None
    for file, is_shared in zip(own, (False, True), strict=True):
        folder = _named(file, root)
        if folder is not None and (not is_shared or _is_within(folder, root)):
            return folder
    if _named(user, user_home()) is not None:
        return None
    return claude_folder / "projects" / _folder_name(root) / "memory"


def _folder_name(root: Path) -> str:
    """Return the name that Claude Code gives to a project's folder. JavaScript counts and hashes UTF-16 units."""
    units = memoryview(str(root).encode("utf-16-le", "surrogatepass")).cast("H")
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= MAX_FOLDER_NAME:
        return name
    number = 0
    for unit in units:
        number = (31 * number + unit + 2**31) % 2**32 - 2**31
    return f"{name[:MAX_FOLDER_NAME]}-{_in_base_36(abs(number))}"


def _in_base_36(number: int) -> str:
    rest, digit = divmod(number, 36)
    return (_in_base_36(rest) if rest else "") + "0123456789abcdefghijklmnopqrstuvwxyz"[digit]


def _named(settings: dict[str, Any], base: Path) -> Path | None:
    named = settings.get(_FOLDER)
    if not isinstance(named, str) or not named.strip() or "\0" in named:
        return None
    return base / os.path.expanduser(named)


def _is_within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _settings(path: Path) -> dict[str, Any]:
    try:
        # Links are followed, as Claude Code does.
        value = json.loads(read_regular(path.resolve(), MAX_SETTINGS_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# -- Read the files.
#
# They are CLAUDE.md (the user's, the project's and nested ones), CLAUDE.local.md, files that these import with
# ``@path``, rules files, and Claude Code's auto memory. Text that is removed from a file is saved as a note, so that it
# can still be found. Files of a project may come with a clone, and then name or link to any file on this machine, such
# as another project's; only those in the project's own folders are read.

logger = logging.getLogger(__name__)

#: Maximum number of bytes that are read from a file, of files in a project, and of nested imports.
MAX_FILE_BYTES, MAX_FILES, MAX_IMPORT_DEPTH = 200_000, 100, 5

_IMPORT = lazy_regex(r"(?:^|\s)@((?:~/|\.{0,2}/)?[\w.][\w./-]*)", re.MULTILINE)
_CODE = lazy_regex(r"```.*?```|`[^`\n]*`", re.DOTALL)


def read_standing_files(store: Store, settings: Settings, redact: Redact) -> int:
    """Read the files that have changed since the last call; return how many there were."""
    known = {file.path: file for file in list_standing_files(store)}
    seen: set[str] = set()
    changed = 0
    paused = paused_scopes(store)
    if "" in paused or not settings.capture:
        return 0
    projects = [
        project
        for project in list_projects(store)
        if project.root and project.identity not in paused and not is_excluded(project.root, settings.exclude)
    ]
    for owner in (None, *projects):
        if owner is not None and not os.path.isdir(owner.root):
            seen |= {file.path for file in known.values() if file.project_id == owner.id}
            continue
        for name, path in _files_of(store, settings, owner):
            if str(path) not in seen:
                seen.add(str(path))
                changed += _read_file(store, settings, redact, owner, name, path, known.get(str(path)))
    readable = {None, *(project.id for project in projects)}
    for file in known.values():
        if file.path in seen or file.project_id not in readable:
            continue
        owner = next((project for project in projects if project.id == file.project_id), None)
        path = Path(file.path)
        if os.path.isfile(path) and file.name.endswith("/CLAUDE.md") and _readable(settings, owner)(path):
            # It is a nested file in a folder with no recent work.
            changed += _read_file(store, settings, redact, owner, file.name, path, file)
            continue
        changed += 1
        if not os.path.exists(file.path):
            _keep_removed(store, settings, file, "", "" if owner is None else owner.name)
        with store.transaction() as tx:
            drop_standing_file(tx, file.path)
    return changed


def _read_file(
    store: Store,
    settings: Settings,
    redact: Redact,
    owner: ProjectRow | None,
    name: str,
    path: Path,
    known: StandingFile | None,
) -> bool:
    try:
        facts = path.stat()
    except OSError:
        return False
    if known is not None and (known.size, known.changed_at_ns) == (facts.st_size, facts.st_mtime_ns):
        return False
    data = read_regular(path, MAX_FILE_BYTES)
    if data is None:
        return False
    file = StandingFile(
        path=str(path),
        project_id=None if owner is None else owner.id,
        name=name,
        size=facts.st_size,
        changed_at_ns=facts.st_mtime_ns,
        text=redact(data.decode("utf-8", "replace").replace("\0", "")),
    )
    if known is not None:
        # This comes before the old text is replaced: if the process is killed in between, a paragraph may be saved
        # twice, but none is lost.
        _keep_removed(store, settings, known, file.text, "" if owner is None else owner.name)
    with store.transaction() as tx:
        put_standing_file(tx, file)
    return True


def _keep_removed(store: Store, settings: Settings, known: StandingFile, text: str, project: str) -> None:
    """Save the paragraphs that were removed from a file as notes in the file's project."""
    now = {_plain(paragraph) for paragraph in _paragraphs(text)}
    lines = {_plain(line) for line in text.splitlines()}
    removed = []
    for paragraph in _paragraphs(known.text):
        if _plain(paragraph) not in now:
            kept = [line for line in paragraph.splitlines() if _plain(line) not in lines]
            removed.append("\n".join(kept))
    if not any(part.strip(" #-*\n") for part in removed):
        return
    head = f"Removed from {known.name}:"
    try:
        for text in _joined([part for part in removed if part.strip()], MAX_NOTE_CHARACTERS - len(head) - 2):
            save_note(settings.places, f"{head}\n\n{text}", lambda clean: clean, store.now_ms(), project)
    except OSError as error:
        logger.warning("action=keep_removed name=%s error=%s", known.name, error)


def _joined(paragraphs: Sequence[str], characters: int) -> Iterator[str]:
    """Yield the paragraphs, joined to texts of at most ``characters`` characters; only a longer paragraph is split."""
    text = ""
    for paragraph in paragraphs:
        for start in range(0, len(paragraph), characters):
            piece = paragraph[start : start + characters]
            if text and len(text) + 2 + len(piece) > characters:
                yield text
                text = ""
            text = f"{text}\n\n{piece}" if text else piece
    yield text


def _paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text) if part.strip()]


def _plain(text: str) -> str:
    return " ".join(text.split())


# -- Locate the files.


def _files_of(store: Store, settings: Settings, owner: ProjectRow | None) -> Iterator[tuple[str, Path]]:
    """Yield ``(name, path)`` for a project's files, or for those that apply everywhere, and for their imports."""
    count = 0
    may_read = _readable(settings, owner)
    for name, path in _entry_files(store, settings, owner):
        for imported_name, imported in _with_imports(name, path, MAX_IMPORT_DEPTH, may_read):
            count += 1
            if count > MAX_FILES:
                return
            yield imported_name, imported


def _readable(settings: Settings, owner: ProjectRow | None) -> Callable[[Path], bool]:
    """Return a function that returns True for a path from which a project's file may be read."""
    own = None if owner is None else list(_own_folders(settings, Path(owner.root)))

    def may_read(path: Path) -> bool:
        return own is None or any(
            _is_within(path, folder) and not (kept_out and _is_within(path, folder / kept_out))
            for folder, kept_out in own
        )

    return may_read


def _own_folders(settings: Settings, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders from which a project's files may come, each with the name of one in it that they may not.

    They may import the user's files in Claude Code's folder, but not other projects' memories there.
    """
    yield root, ""
    for claude in settings.all_claude_folders:
        yield claude, "projects"
        own_memory = auto_memory_folder(claude, root)
        if own_memory is not None:
            yield own_memory, ""


def _entry_files(store: Store, settings: Settings, owner: ProjectRow | None) -> Iterator[tuple[str, Path]]:
    if owner is None:
        for claude in settings.all_claude_folders:
            name = "~/.claude" if claude == settings.claude_folder else str(claude)
            yield f"{name}/CLAUDE.md", claude / "CLAUDE.md"
            yield from _markdown(claude / "rules", f"{name}/rules")
            shared_memory = auto_memory_folder(claude, None)
            if shared_memory is not None:
                yield from _markdown(shared_memory, "auto memory")
        return
    root = Path(owner.root)
    for name in ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md"):
        yield name, root / name
    yield from _markdown(root / ".claude" / "rules", ".claude/rules")
    for claude in settings.all_claude_folders:
        own_memory = auto_memory_folder(claude, root)
        if own_memory is not None:
            yield from _markdown(own_memory, "auto memory")
    folders = {folder for file in recent_files(store, owner.id) for folder in Path(os.path.join(root, file)).parents}
    for folder in sorted(folders):
        if folder != root and root in folder.parents:
            yield (folder / "CLAUDE.md").relative_to(root).as_posix(), folder / "CLAUDE.md"


def _markdown(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.md"))[:MAX_FILES] if os.path.isdir(folder) else ():
        # Engram's own note with graduated memories may be next to Claude Code's.
        yield f"{prefix}/{path.relative_to(folder).as_posix()}", path


def _with_imports(name: str, path: Path, depth: int, may_read: Callable[[Path], bool]) -> Iterator[tuple[str, Path]]:
    if not os.path.isfile(path) or not may_read(path):
        return
    yield name, path
    data = read_regular(path, MAX_FILE_BYTES) if depth else None
    if data is None:
        return
    for target in _IMPORT.findall(_CODE.sub("", data.decode("utf-8", "replace"))):
        imported = Path(os.path.normpath(path.parent / os.path.expanduser(target)))
        if imported != path:
            yield from _with_imports(target, imported, depth - 1, may_read)
