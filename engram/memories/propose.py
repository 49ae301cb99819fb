"""Propose lines for CLAUDE.md: the user's rules that are often needed and that it doesn't contain yet."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.enums import Kind, Scope, Source, Status, Voice
from engram.errors import BadRequest
from engram.extraction.user_rules import is_same_order
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import Usefulness, usefulness_of
from engram.models.memories.memory_records import Memory, evidence_of
from engram.models.projects.projects import ProjectRow, list_projects
from engram.models.search.memory_lists import current_memories
from engram.notes.standing import standing_text
from engram.redaction import redact
from engram.settings import Settings
from engram.text.subject import StandingText
from engram.trust.display import fence_safe, one_line

# -- Add lines to an instruction file such as CLAUDE.md without changing other bytes.

#: The heading under which lines are added.
HEADING = "## Learned from earlier sessions"


def add_to_section(data: bytes, lines: Sequence[str]) -> bytes:
    """Return a file with lines appended to the section ``HEADING``, which is added at the end if missing.

    All existing bytes are kept, even invalid UTF-8; a missing final newline is added. New lines get the file's line
    endings.
    """
    end = b"\r\n" if b"\r\n" in data else b"\n"
    new = b"".join(line.encode("utf-8") + end for line in lines)
    place = _end_of_section(data)
    if place is None:
        before = data if not data or data.endswith(b"\n") else data + end
        gap = end if before.strip(b"\xef\xbb\xbf") and not before.endswith(end * 2) else b""
        return before + gap + HEADING.encode() + end + end + new
    head = data[:place]
    return (head if head.endswith(b"\n") else head + end) + new + data[place:]


def _end_of_section(data: bytes) -> int | None:
    """Return the position after the section's last text; None if there is no such section."""
    start = re.search(rb"(?m)^" + re.escape(HEADING.encode()) + rb"[ \t]*\r?$", data)
    if start is None:
        return None
    following = re.search(rb"(?m)^#{1,2} ", data[start.end() :])
    section_end = len(data) if following is None else start.end() + following.start()
    text = data[:section_end].rstrip()
    line_end = data.find(b"\n", len(text))
    return len(data) if line_end < 0 else line_end + 1


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """Return the unified diff of two versions of a file; invalid UTF-8 is replaced."""
    # splitlines would also split at form feeds and other separators.
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "replace")) for data in (before, after))
    source = name if before else "/dev/null"
    lines = difflib.unified_diff(old, new, source, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


#: Minimum number of sessions in which a rule must have been said or used to be proposed.
MIN_NEEDED_SESSIONS = 3
#: Maximum number of lines proposed for a file.
MAX_LINES = 10
#: Maximum length of a line, in characters, and maximum size of a file to change, in bytes.
MAX_LINE_CHARACTERS, MAX_FILE_BYTES = 300, 1_000_000
#: Kinds of memories that may be rules. A saved memory of any kind may be one.
_RULES = (Kind.PREFERENCE, Kind.DECISION)


@dataclass(frozen=True, slots=True)
class Line:
    episode_id: str
    text: str
    #: Number of sessions in which it was said, and in which its memory was used.
    said: int
    used: int


@dataclass(frozen=True, slots=True)
class Proposal:
    path: Path
    before: bytes
    after: bytes
    lines: tuple[Line, ...]

    @property
    def diff(self) -> str:
        return unified_diff(str(self.path), self.before, self.after)


def propose_lines(
    store: Store, settings: Settings, project: ProjectRow | None, target: Path | None = None
) -> list[Proposal]:
    """Return the lines to add to the project's file and to the user's own file. Files without new lines are left out.

    A rule that the user gave in several projects is proposed for the user's own file.

    Args:
        target: the file for the project's lines; by default CLAUDE.md or .claude/CLAUDE.md in its folder.

    Raises:
        BadRequest: a file can't be read or is too large.
    """
    offered = _rules_of_two_projects(store)
    needed = [*_needed_rules(store, project), *offered]
    for_all = {line.text for _, line in offered}
    own = settings.claude_folder / "CLAUDE.md"
    files = [(own, Scope.GLOBAL)]
    if project is not None and (target is not None or os.path.isdir(project.root)):
        files.insert(0, (target or _file_of(Path(project.root)), Scope.PROJECT))
    # Compare with the current files, and with nested files, imports and auto memory as they were last read.
    paths = _standing_files(settings, project, [path for path, _ in files])
    now = StandingText([(path.name, _text(path)) for path in paths])
    before_now = standing_text(store, None if project is None else project.id)
    proposals = []
    for path, scope in files:
        lines = [
            line
            for memory, line in needed
            if (Scope.GLOBAL if line.text in for_all else memory.scope) == scope
            and not (now.file_saying(line.text) or before_now.file_saying(line.text))
        ]
        if lines:
            before = read_file(path)
            lines = list({line.text: line for line in lines}.values())
            chosen = tuple(sorted(lines, key=lambda line: -(line.said + line.used))[:MAX_LINES])
            after = add_to_section(before, [f"- {line.text}" for line in chosen])
            proposals.append(Proposal(path, before, after, chosen))
    return proposals


def _needed_rules(store: Store, project: ProjectRow | None) -> list[tuple[Memory, Line]]:
    project_id = None if project is None else project.id
    rules = [memory for memory in current_memories(store, project_id) if _is_rule(memory)]
    uses = usefulness_of(store, [memory.episode_id for memory in rules])
    needed = []
    for memory in rules:
        said = len({entry.session_id for entry in evidence_of(store, memory.id) if entry.session_id})
        used = uses.get(memory.episode_id, Usefulness()).used
        if said + used >= MIN_NEEDED_SESSIONS:
            text = fence_safe(one_line(redact(memory.summary), MAX_LINE_CHARACTERS))
            needed.append((memory, Line(memory.episode_id, text, said, used)))
    return needed


def _rules_of_two_projects(store: Store) -> list[tuple[Memory, Line]]:
    """Return the rules that the user gave in several projects, each with its oldest wording.

    They are proposed for all projects, but apply everywhere only once the user accepts them.
    """
    groups: list[list[Memory]] = []
    for project in list_projects(store):
        for memory in current_memories(store, project.id):
            if memory.voice == Voice.USER and memory.scope == Scope.PROJECT and _is_rule(memory):
                same = next((group for group in groups if is_same_order(group[0].summary, memory.summary)), None)
                if same is None:
                    groups.append([memory])
                else:
                    same.append(memory)
    offered = []
    for group in groups:
        if len({memory.project_id for memory in group}) > 1:
            oldest = min(group, key=lambda memory: memory.created_at_ms)
            said = {entry.session_id for memory in group for entry in evidence_of(store, memory.id)} - {""}
            uses = usefulness_of(store, [memory.episode_id for memory in group])
            used = sum(use.used for use in uses.values())
            text = fence_safe(one_line(redact(oldest.summary), MAX_LINE_CHARACTERS))
            offered.append((oldest, Line(oldest.episode_id, text, len(said), used)))
    return offered


def _is_rule(memory: Memory) -> bool:
    """Return True for an active rule from the user that is not suspect, lowered, stale or expired."""
    is_users = memory.voice in (Voice.USER, Voice.CHOSEN)
    is_rule = memory.kind in _RULES or memory.source == Source.MANUAL
    is_doubtful = memory.suspect or memory.is_lowered or memory.stale_reason or memory.valid_to_ms is not None
    return memory.status == Status.ACTIVE and is_users and is_rule and not is_doubtful


def _file_of(root: Path) -> Path:
    """Return a project's instruction file: the existing one, or CLAUDE.md."""
    hidden = root / ".claude" / "CLAUDE.md"
    return hidden if os.path.isfile(hidden) and not os.path.isfile(root / "CLAUDE.md") else root / "CLAUDE.md"


def _standing_files(settings: Settings, project: ProjectRow | None, targets: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that Claude Code reads at the start of every session in a project."""
    yield from targets
    folders = [settings.claude_folder]
    if project is not None:
        root = Path(project.root)
        yield from (root / "CLAUDE.md", root / "CLAUDE.local.md", root / ".claude" / "CLAUDE.md")
        folders.append(root / ".claude")
    for folder in folders:
        with contextlib.suppress(OSError):
            yield from sorted((folder / "rules").rglob("*.md"))


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8", "replace")
    except BadRequest:
        return ""


def read_file(path: Path) -> bytes:
    """Return the content of a file, following links; b"" if there is none.

    Raises:
        BadRequest: the file is not a regular one, too large or unreadable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadRequest(f"can't read {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadRequest(f"{path} is not a regular file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise BadRequest(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return data


def apply_proposal(proposal: Proposal) -> None:
    """Write a proposal completely or not at all. The file's mode and links to it are kept.

    Raises:
        BadRequest: the file has changed since it was read, or can't be written. Nothing was written.
    """
    if read_file(proposal.path) != proposal.before:
        raise BadRequest(f"{proposal.path} has been changed in the meantime; run the command again")
    target = Path(os.path.realpath(proposal.path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            if target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(proposal.after)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise BadRequest(f"can't write {proposal.path}: {error.strerror}") from error
