"""Open what is to be imported, whatever program wrote it: claude-mem, the earlier Engram, Markdown notes, an export.

Malformed data is tolerated.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from engram.enums import Importance, Kind, Scope, Source, Status, Voice
from engram.errors import BadRequest, NotFound
from engram.exchange import export
from engram.exchange.exchange_records import Incoming, IncomingMemory, Place, Unusable, derived_ids, fitting_texts
from engram.exchange.exchange_records import Source as FileSource
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.rescue.foreign_database import ForeignDatabase, ForeignRow, reading_foreign
from engram.notes.note_index import MAX_NOTE_BYTES, cut_markdown
from engram.paths import is_session_id, user_home
from engram.reports.memory_report import MAX_INTEGER
from engram.settings import Settings
from engram.setup.old_engram.find import find_databases, memory_folders, version_of
from engram.system.atomic import read_regular
from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.text.words import content_words
from engram.transcripts.claude_code import AGENT
from engram.transcripts.registry import sources_at
from engram.trust.display import number_of

#: Name of a transcript: the session's UUID, which nobody gives to an export.
_TRANSCRIPT = lazy_regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl")
#: Folders in which agents keep transcripts, in configuration folders that also contain Markdown files.
_OF_AGENTS = ("projects", "sessions", "tmp")
#: Earliest and latest plausible time of a memory (2001 and 2100), in seconds since 1970.
_FIRST_SECOND, _LAST_SECOND = 978_307_200, 4_102_444_800


def text_or_empty(value: object) -> str:
    """Return a text without NULs and surrounding whitespace; "" if the value is not text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.replace("\0", "").strip() if isinstance(value, str) else ""


def text_list(value: object) -> list[str]:
    """Return the strings in a JSON list. A text that isn't a list is returned as the only item."""
    text = text_or_empty(value)
    try:
        values = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(values, list):
        return [text]
    return list(dict.fromkeys(part for part in map(text_or_empty, values) if part))


def time_ms(value: object) -> int | None:
    """Return a time, given in milliseconds, in seconds or as text, in milliseconds since 1970; None if it isn't one."""
    if isinstance(value, bytes | str):
        text = text_or_empty(value)
        try:
            number = float(text)
        except ValueError:
            return parse_time_ms(text.replace(" ", "T", 1))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        return None
    for at_ms in (number * 1000, number):
        if _FIRST_SECOND * 1000 <= at_ms <= _LAST_SECOND * 1000:
            return int(at_ms)
    return None


def count_of(value: object) -> int:
    """Return ``value`` as a count; 0 if it is negative, not a number, or larger than any real count."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= MAX_INTEGER else 0


# -- Memories of claude-mem (github.com/thedotmack/claude-mem), from any version of its SQLite database.
#
# Its observations, session summaries, directives and (in newer versions) memory items are imported as memories. Its
# prompts are not, because they are also in the transcripts, which are read anyway.

#: The name of the format, also used as the extractor of its memories.
FORMAT = "claude-mem"
#: Type of an observation → kind of the memory. Observations of other types are imported as facts.
_KINDS = {"decision": Kind.DECISION, "bugfix": Kind.FIX}
#: Maximum number of names that a memory gets from an observation.
MAX_ENTITIES = 40

_SESSION_COLUMNS = frozenset({"content_session_id", "claude_session_id", "memory_session_id", "sdk_session_id"})
_OBSERVATIONS = frozenset(
    "id memory_session_id sdk_session_id project merged_into_project text type title subtitle facts narrative concepts "
    "files_read files_modified content_hash created_at created_at_epoch".split()
)
_SUMMARIES = frozenset(
    "id memory_session_id sdk_session_id project merged_into_project request investigated learned completed next_steps "
    "notes created_at created_at_epoch".split()
)
_ITEMS = frozenset(
    "id kind type project project_id server_session_id memory_session_id legacy_observation_id text title subtitle "
    "facts narrative content concepts files_read files_modified created_at created_at_epoch".split()
)
_DIRECTIVES = frozenset("id scope project content status created_at created_at_epoch".split())
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def read_claude_mem(database: ForeignDatabase) -> FileSource:
    remarks = []
    if database.columns("user_prompts") and (prompts := database.count("user_prompts")):
        logged = number_of(prompts, "prompt")
        remarks.append(f"Left out, because the transcripts contain them: {logged} that claude-mem logged")
    return FileSource(FORMAT, str(database.path), _items(database), remarks=tuple(remarks))


def _items(database: ForeignDatabase) -> Iterator[Incoming]:
    sessions = _sessions(database)
    names = _project_names(database)
    for table, columns, read in (
        ("observations", _OBSERVATIONS, _observation),
        ("session_summaries", _SUMMARIES, _session_summary),
        ("memory_items", _ITEMS, _item),
        ("directives", _DIRECTIVES, _directive),
    ):
        if not database.columns(table):
            continue
        before = database.unreadable
        for row in database.rows(table, columns):
            memory = read({**row, "project": names.get(str(row.get("project_id")), row.get("project"))}, sessions)
            if memory is not None:
                yield memory
        for _ in range(database.unreadable - before):
            yield Unusable(f"a row of {table}", "it is damaged")


def _sessions(database: ForeignDatabase) -> dict[str, str]:
    """Return claude-mem's id of a session → Claude Code's id."""
    sessions = {}
    for row in database.rows("sdk_sessions", _SESSION_COLUMNS):
        own = row["memory_session_id"] or row["sdk_session_id"]
        content = row["content_session_id"] or row["claude_session_id"]
        if own and content:
            sessions[str(own)] = str(content)
    return sessions


def _project_names(database: ForeignDatabase) -> dict[str, object]:
    """Return id → name of each project, which only newer versions store."""
    if not database.columns("projects"):
        return {}
    return {str(row["id"]): row["name"] for row in database.rows("projects", frozenset({"id", "name"}))}


def _item(row: ForeignRow, sessions: dict[str, str]) -> Incoming | None:
    """Return a memory item; None for a prompt, or for a copy of an observation, which is read anyway."""
    if text_or_empty(row["kind"]) == "prompt" or row["legacy_observation_id"]:
        return None
    return _observation({**row, "text": text_or_empty(row["text"]) or row["content"]}, sessions, table="memory_items")


def _observation(row: ForeignRow, sessions: dict[str, str], table: str = "observations") -> Incoming:
    where = f"row {row['id']} of {table}"
    title, subtitle = text_or_empty(row["title"]), text_or_empty(row["subtitle"])
    narrative, facts = text_or_empty(row["narrative"]) or text_or_empty(row["text"]), text_list(row["facts"])
    summary = title or subtitle or narrative or (facts[0] if facts else "")
    if not summary:
        return Unusable(where, "it has no text")
    parts = [subtitle if title else "", narrative, "\n".join(f"- {fact}" for fact in facts)]
    files = [*text_list(row["files_modified"]), *text_list(row["files_read"])]
    return _memory(
        row,
        sessions,
        where,
        kind=_KINDS.get(text_or_empty(row["type"]).lower(), Kind.FACT),
        summary=summary,
        content="\n\n".join(part for part in parts if part) or summary,
        facts=tuple(facts),
        entities=tuple(dict.fromkeys([*text_list(row["concepts"]), *files]))[:MAX_ENTITIES],
    )


def _session_summary(row: ForeignRow, sessions: dict[str, str]) -> Incoming:
    where = f"row {row['id']} of session_summaries"
    parts = {name: text_or_empty(row[name]) for name in _SUMMARY_PARTS}
    summary = parts["completed"] or parts["learned"] or parts["request"] or parts["notes"]
    if not summary:
        return Unusable(where, "it has no text")
    content = "\n\n".join(f"{name.replace('_', ' ').capitalize()}: {text}" for name, text in parts.items() if text)
    return _memory(row, sessions, where, kind=Kind.STATE, summary=summary, content=content)


def _directive(row: ForeignRow, sessions: dict[str, str]) -> Incoming | None:
    text = text_or_empty(row["content"])
    if not text or text_or_empty(row["status"]) not in ("", "active"):
        return None
    return _memory(
        row,
        sessions,
        f"row {row['id']} of directives",
        kind=Kind.PREFERENCE,
        summary=text,
        content=text,
        is_global=text_or_empty(row["scope"]) != "project",
        importance=Importance.HIGH,
        source=Source.MANUAL,
        confidence=1.0,
        quality=1.0,
    )


def _memory(
    row: ForeignRow,
    sessions: dict[str, str],
    where: str,
    *,
    summary: str,
    content: str,
    is_global: bool = False,
    **fields: Any,
) -> IncomingMemory:
    own_session = text_or_empty(row.get("memory_session_id")) or text_or_empty(row.get("sdk_session_id"))
    session_id = sessions.get(own_session, "")
    project = "" if is_global else text_or_empty(row.get("merged_into_project")) or text_or_empty(row["project"])
    # claude-mem names a worktree "repository/worktree", or "repository/repository" if both folders have the same name.
    repository = project.partition("/")[0] if project.count("/") == 1 else ""
    made_at_ms = time_ms(row["created_at_epoch"]) or time_ms(row["created_at"])
    ids = derived_ids(FORMAT, where, own_session, str(made_at_ms), summary)
    summary, content = fitting_texts(summary, content)
    memory = Memory(
        **ids,
        **{"status": Status.ACTIVE, "scope": Scope.GLOBAL if is_global else Scope.PROJECT, **fields},
        summary=summary,
        content=content,
        session_id=session_id,
        project=project,
        extractor=FORMAT,
        created_at_ms=made_at_ms or 0,
    )
    return IncomingMemory(
        memory=memory,
        place=Place(project, worktree_of=repository) if project else None,
        evidence=(Evidence("", session_id),) if session_id else (),
        agent=AGENT,
        reason=f"from claude-mem, {where}",
    )


# -- Memories of the earlier Engram, from its database.
#
# The earlier Engram merged similar memories into one row with the summary ``first | second``; their contents are
# separated by a line of hyphens. On import, each of them that adds something new becomes a separate memory again.

#: The name of the format, also used as the extractor of its memories.
OLD_ENGRAM_FORMAT = "earlier-engram"
#: Two parts of a summary say the same thing if they have at least this share of the shorter part's words in common.
SAME_SHARE = 0.75

_COLUMNS = frozenset(
    "id session_id project scope summary entities importance source_type full_content created_at accessed_at "
    "access_count".split()
)
_BETWEEN_SUMMARIES = lazy_regex(r"\s+\|\s+")
_BETWEEN_CONTENTS = lazy_regex(r"(?m)^\s*-{3,}\s*$")


def _earlier_items(database: ForeignDatabase) -> Iterator[Incoming]:
    if not database.columns("episodes"):
        return
    for row in database.rows("episodes", _COLUMNS):
        yield from _memories(row)
    for _ in range(database.unreadable):
        yield Unusable("a row of episodes", "it is damaged")


def _memories(row: ForeignRow) -> Iterator[Incoming]:
    name = text_or_empty(row["id"])
    parts = split_merged(text_or_empty(row["summary"]), text_or_empty(row["full_content"]))
    if not name or not parts:
        yield Unusable(f"episode {name or '(no id)'}", "it has no text" if name else "it has no id")
        return
    for number, (summary, content) in enumerate(parts):
        # The newest part was written last, so the row's accesses are attributed to it.
        yield _earlier_memory(row, name, summary, content, is_newest=number == len(parts) - 1)


def split_merged(summary: str, content: str) -> list[tuple[str, str]]:
    """Return the memories that were merged into one, as (summary, content) pairs, oldest first.

    If several parts say the same thing, only the newest becomes a memory. If there are as many contents as summaries,
    they are paired; otherwise, the newest memory gets all contents.
    """
    summaries = [part for part in _BETWEEN_SUMMARIES.split(summary) if part.strip()]
    contents = [part.strip() for part in _BETWEEN_CONTENTS.split(content) if part.strip()]
    if not summaries:
        return []
    if len(contents) == len(summaries):
        pairs = list(zip(summaries, contents, strict=True))
    else:
        pairs = [*((part, part) for part in summaries[:-1]), (summaries[-1], content or summaries[-1])]
    kept: list[tuple[str, str]] = []
    for part, text in reversed(pairs):
        same = next((number for number, (other, _) in enumerate(kept) if _says_the_same(part, other)), None)
        if same is None:
            kept.append((part, text))
        elif text not in kept[same][1]:
            kept[same] = (kept[same][0], f"{kept[same][1]}\n\n{text}")
    return kept[::-1]


def _says_the_same(first: str, second: str) -> bool:
    words, others = content_words(first), content_words(second)
    if not words or not others:
        return first.casefold() == second.casefold()
    return len(words & others) >= SAME_SHARE * min(len(words), len(others))


def _earlier_memory(row: ForeignRow, name: str, summary: str, content: str, *, is_newest: bool) -> IncomingMemory:
    project = text_or_empty(row["project"])
    is_global = text_or_empty(row["scope"]) == "global"
    session_id = text_or_empty(row["session_id"])
    session_id = session_id if is_session_id(session_id) else ""
    is_manual = text_or_empty(row["source_type"]) == "manual"
    ids = derived_ids(OLD_ENGRAM_FORMAT, name, " ".join(summary.split()))
    summary, content = fitting_texts(summary, content)
    memory = Memory(
        **ids,
        kind=Kind.FACT,
        summary=summary,
        content=content,
        session_id=session_id,
        project="" if is_global else project,
        scope=Scope.GLOBAL if is_global else Scope.PROJECT,
        entities=tuple(text_list(row["entities"])[:MAX_ENTITIES]),
        importance=Importance.HIGH if text_or_empty(row["importance"]) == "high" else Importance.NORMAL,
        source=Source.MANUAL if is_manual else Source.AUTO,
        voice=Voice.AGENT if is_manual else Voice.ASSISTANT,
        extractor=OLD_ENGRAM_FORMAT,
        created_at_ms=time_ms(row["created_at"]) or 0,
        accessed_at_ms=time_ms(row["accessed_at"]),
        access_count=count_of(row["access_count"]) if is_newest else 0,
    )
    return IncomingMemory(
        memory=memory,
        place=Place(project) if project and not is_global else None,
        evidence=(Evidence("", session_id),) if session_id else (),
        agent=AGENT,
        reason=f"from the earlier Engram, {name}",
    )


# -- Folders of Markdown notes: each section becomes a memory with the date of its file.

#: The name of the format, also used as the extractor of its memories.
NOTE_FOLDER_FORMAT = "notes"
#: Maximum number of words in a memory; a longer section is split into several memories.
MAX_SECTION_WORDS = 400

#: Fields at the beginning of a note. Other text between two rules is part of the note.
_FRONT_MATTER = lazy_regex(
    r"\A---\n((?=(?:[\w./-]+|\"[^\"\n]+\"|'[^'\n]+'|date \w+):\s)"
    # The names of later fields may have several words.
    r"(?:(?:[\w\"'][^:\n]{0,60}:(?=\s)|[ \t#\]}-]).*\n|\n)*?)---[ \t]*(?:\n|\Z)"
)
_FIELD = lazy_regex(r"(?m)^(description|title|date|created|created_at|updated)\s*:\s*(.+?)\s*$")
_DATE = lazy_regex(r"(\d{4})-(\d\d)-(\d\d)")


def find_note_files(path: Path) -> list[Path]:
    """Return the Markdown files in a folder, sorted by path, excluding links and hidden files."""
    if path.is_file():
        return [path]
    return [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in (".md", ".markdown")
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
        and not file.is_symlink()
    ]


def _note_folder_items(path: Path, scope: Scope) -> Iterator[Incoming]:
    base = path if path.is_dir() else path.parent
    for file in find_note_files(path):
        name = file.relative_to(base).as_posix()
        data = read_regular(file, MAX_NOTE_BYTES + 1)
        if data is None or len(data) > MAX_NOTE_BYTES:
            yield Unusable(name, "it can't be read" if data is None else f"it is larger than {MAX_NOTE_BYTES} bytes")
            continue
        text = data.decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n").replace("\0", "")
        memories = list(_sections(name, text, file.stat().st_mtime_ns // 1_000_000, scope))
        yield from memories
        if not memories:
            yield Unusable(name, "it has no text")


def _sections(name: str, text: str, changed_at_ms: int, scope: Scope) -> Iterator[IncomingMemory]:
    match = _FRONT_MATTER.match(text)
    fields = dict(_FIELD.findall(match[1])) if match else {}
    body = text[match.end() :] if match else text
    lines_before = text.count("\n") - body.count("\n")
    at_ms = _date_of(name, fields) or changed_at_ms
    title = _unquoted(fields.get("title", "")) or Path(name).stem
    for number, chunk in enumerate(cut_markdown(body, MAX_SECTION_WORDS)):
        first = next((line.strip(" -*>\t") for line in chunk.text.splitlines() if line.strip(" -*>\t")), "")
        if not first:
            continue
        heading = chunk.heading or (title if number == 0 else "")
        described = _unquoted(fields.get("description", "")) if number == 0 else ""
        summary = described or (f"{heading.rsplit(' › ', 1)[-1]}: {first}" if heading else first)
        summary, content = fitting_texts(summary, f"{chunk.heading}\n\n{chunk.text}" if chunk.heading else chunk.text)
        # The ids depend on the text, so importing a changed note again adds only its changed sections.
        yield IncomingMemory(
            memory=Memory(
                **derived_ids(NOTE_FOLDER_FORMAT, name, chunk.heading, chunk.text),
                kind=Kind.FACT,
                summary=summary,
                content=content,
                scope=scope,
                source=Source.MANUAL,
                voice=Voice.IMPORTED,
                confidence=1.0,
                quality=1.0,
                extractor=NOTE_FOLDER_FORMAT,
                created_at_ms=at_ms,
            ),
            reason=f"from the note {name}, line {lines_before + chunk.start_line}",
        )


def _date_of(name: str, fields: dict[str, str]) -> int | None:
    """Return the date of a note, from its fields or its name, in milliseconds since 1970; None if there is none."""
    for field in ("date", "created", "created_at", "updated"):
        at_ms = parse_time_ms(_unquoted(fields.get(field, "")))
        if at_ms is not None:
            return at_ms
    for text in (*(fields.get(field, "") for field in ("date", "created", "created_at")), name):
        match = _DATE.search(text)
        at_ms = parse_time_ms(f"{match[0]}T12:00:00Z") if match else None
        if at_ms is not None:
            return at_ms
    return None


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")


# -- Recognise the format of a file or folder by its content, and open it for import.

_SQLITE = b"SQLite format 3\0"


@contextlib.contextmanager
def open_source(
    path: Path | None, wanted: str | None, settings: Settings, *, has_project: bool, is_global: bool
) -> Iterator[FileSource]:
    """Open a file or folder to import, by default in the usual place of another program.

    Args:
        path: the file or folder; None for the usual place of the program ``wanted``.
        wanted: jsonl, markdown, notes, claude-mem or earlier; None to detect the format.
        has_project: True if the user specified a project for notes.
        is_global: True if the user specified that notes are global.

    Raises:
        NotFound: there is no such file or folder.
        BadRequest: the format is unknown, or it is unclear to which projects notes apply.
    """
    with contextlib.ExitStack() as opened:
        if path is None:
            yield _usual_places(wanted, settings, opened)
            return
        if not path.exists():
            raise NotFound(f"there is no file or folder {path}; `engram import --help` says what can be imported")
        if wanted is None and _has_transcripts(path, settings):
            raise BadRequest(f"{path} contains sessions; to read them, type: engram up --once {shlex.quote(str(path))}")
        chosen = wanted or _recognise(path)
        if chosen == "jsonl":
            yield export.read_json_lines(opened.enter_context(path.open("rb")), str(path))
        elif chosen == "markdown":
            if not path.is_dir() or not export.is_markdown_export(path):
                raise BadRequest(f"{path} is not a Markdown export from Engram; to import notes: --from notes")
            yield export.read_markdown(path)
        elif chosen == "notes":
            if has_project is is_global:
                raise BadRequest("say where the notes apply: in a project (--project NAME) or everywhere (--global)")
            scope = Scope.GLOBAL if is_global else Scope.PROJECT
            yield FileSource(NOTE_FOLDER_FORMAT, str(path), _note_folder_items(path, scope))
        else:
            yield _open_database(path, chosen, settings, opened)


def _has_transcripts(path: Path, settings: Settings) -> bool:
    """Return True for a session's transcript, and for a folder of transcripts: an agent's own, or one without notes."""
    if not path.is_dir():
        return _TRANSCRIPT.fullmatch(path.name) is not None
    sources = sources_at(path, settings)
    if not sources:
        return False
    # The folder itself may be one in which an agent also keeps notes, such as `~/.claude/projects` or one within.
    is_agents = any(part.startswith(".") for part in path.parts) and {path.name, path.parent.name} & set(_OF_AGENTS)
    of_agent = {path / name for name in _OF_AGENTS}
    return (
        bool(is_agents)
        or any(not of_agent.isdisjoint(source.path.parents) for source in sources)
        or not any(path.rglob("*.md"))
    )


def _recognise(path: Path) -> str:
    if path.is_dir():
        return "markdown" if export.is_markdown_export(path) else "notes"
    if (read_regular(path.resolve(), len(_SQLITE)) or b"") == _SQLITE:
        return "database"
    return "notes" if path.suffix.lower() in (".md", ".markdown") else "jsonl"


def _usual_places(wanted: str | None, settings: Settings, opened: contextlib.ExitStack) -> FileSource:
    if wanted == "claude-mem":
        named = os.environ.get("CLAUDE_MEM_DATA_DIR", "")
        path = (Path(os.path.expanduser(named)) if named else user_home() / ".claude-mem") / "claude-mem.db"
        if not path.is_file():
            raise NotFound(f"there is no claude-mem database at {path}. To import another: engram import FILE")
        return _open_database(path, wanted, settings, opened)
    if wanted == "earlier":
        databases = [
            database.path
            for folder in memory_folders(settings, user_home())
            for database in find_databases(folder, settings.home)
        ]
        if not databases:
            raise NotFound(
                "there is no database of the earlier Engram in the memory folder. To import another: engram import FILE"
            )
        sources = [_open_database(path, wanted, settings, opened) for path in databases]
        return FileSource(
            OLD_ENGRAM_FORMAT,
            ", ".join(map(str, databases)),
            chain(*(source.items for source in sources)),
        )
    raise BadRequest("specify the file or folder to import (- for standard input)")


def _open_database(path: Path, wanted: str, settings: Settings, opened: contextlib.ExitStack) -> FileSource:
    database = opened.enter_context(reading_foreign(path, settings.home))
    is_claude_mem = database.columns("sdk_sessions") and {"type", "project"} <= database.columns("observations")
    if wanted != "earlier" and is_claude_mem:
        return read_claude_mem(database)
    if wanted != "claude-mem" and version_of(database):
        return FileSource(OLD_ENGRAM_FORMAT, str(database.path), _earlier_items(database))
    raise BadRequest(f"{path} is not a database of claude-mem or of the earlier Engram")
