"""The building blocks of a view: routes, requests and answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engram.errors import EngramError
from engram.extraction.model.bounded_command import run_bounded
from engram.ingest.project_moves import find_moves
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_records import Memory, memories_of_ids
from engram.models.projects.projects import ProjectRow, list_held_projects, project_by_id
from engram.models.search.memory_lists import suspect_memories
from engram.models.sessions.sessions import list_sessions, sessions_of
from engram.models.shown.usage import late_since
from engram.models.work.work import TASKS_SCOPE, current_pauses
from engram.reports.health import Trouble, Vitals, is_unconnected, take_vitals
from engram.settings import Settings
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.registry import assistant_of
from engram.trust.display import capitalised, number_of
from engram.vaults import own_vault

_ID = lazy_regex(r"(ep_[0-9a-f]{12})")
#: Maximum number of digits in a number in an address.
MAX_DIGITS = 15


def number_in(text: str) -> int | None:
    """Parse part of an address as a number; return None if it isn't one, or has more than ``MAX_DIGITS`` digits."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


@dataclass(slots=True)
class Checked:
    """What the last check of everything found that ``list_needs`` doesn't find itself.

    The checks take seconds, so only Health runs them. The result is kept while the page runs: every view then says the
    same, until Health is opened again.
    """

    #: Number of things that are not working.
    broken: int = 0


@dataclass(frozen=True, slots=True)
class PageRequest:
    store: Store
    settings: Settings
    #: Name of a setting → the source of its value.
    sources: Mapping[str, str]
    #: Parameters in the path of the route.
    path: Mapping[str, str]
    #: Parameters after the question mark.
    query: Mapping[str, str]
    #: Fields of a form; empty for GET.
    form: Mapping[str, str]
    #: True if htmx requests a part of a page.
    is_fragment: bool
    #: Id of the element that htmx replaces with the response; "" for none.
    target: str
    #: The project that the person chose; None for all.
    project: ProjectRow | None
    #: What the last check of everything found.
    checked: Checked

    @property
    def project_id(self) -> int | None:
        return None if self.project is None else self.project.id

    def number(self, name: str) -> int:
        """Return a number from the query string; 0 if there is none."""
        return number_in(self.query.get(name, "")) or 0

    def frame_values(self) -> FrameValues:
        return frame_values(self.store, self.settings, self.checked)

    def answer(self, template: str, values: Mapping[str, Any], notice: Notice | None = None) -> Answer:
        """Return an answer that renders a template, or only its main block for htmx. A notice marks it as a change."""
        block = "main" if self.is_fragment else ""
        return Answer(template, values, block=block, notice=notice, is_change=notice is not None)


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about what was just done, shown for eight seconds, with an undo."""

    #: The sentence. Ids of memories in it are replaced by links with the memories' titles.
    text: str
    #: Path of the request that undoes it, in parts, such as ``("m", "ep_…", "undo")``; empty if it can't be undone.
    undo: tuple[str, ...] = ()
    #: Id of the element that the response to the undo replaces.
    target: str = "main"


@dataclass(frozen=True, slots=True)
class Answer:
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    #: The block of the template to render; "" for the whole page.
    block: str = ""
    notice: Notice | None = None
    #: The browser's new address, as parts and a query; None leaves it unchanged. A path other than the current one
    #: adds an entry to its history.
    replace_url: tuple[tuple[str, ...], Mapping[str, str]] | None = None
    #: True if something changed, in which case the worker must be notified.
    is_change: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to another view, as the parts of its path."""

    path: tuple[str, ...]


Handler = Callable[[PageRequest], Answer | Redirect]


@dataclass(frozen=True, slots=True)
class Route:
    """A path below the root, such as ``/m/{episode_id}``, and the function that answers it."""

    path: str
    handler: Handler
    #: GET, or POST if it makes a change.
    method: str = "GET"
    #: True if it returns a part of a page, never a full one.
    is_part: bool = False
    #: True if it runs an Engram command. Such requests have a queue of their own, so that they don't delay others.
    runs_command: bool = False


@dataclass(frozen=True, slots=True)
class View:
    #: Unique name.
    name: str
    title: str
    routes: tuple[Route, ...]
    #: The key that leads here when pressed after ``g``; "" for a view that is not in the navigation.
    key: str = ""
    #: First part of its path; "" for the start page.
    path: str = ""
    #: Name of the view in the navigation to which this one belongs; "" for none.
    within: str = ""
    #: True for a view in the second group of the navigation.
    is_more: bool = False
    #: (store, time in milliseconds, project's row id) → number of newer items in the view; None if it shows no news.
    count_new: Callable[[Store, int, int | None], int] | None = None


def latest_project(store: Store) -> ProjectRow | None:
    """Return the project of the latest session; None if none of the latest sessions has one."""
    latest = next((session for session in list_sessions(store, 20) if session.project_id is not None), None)
    return None if latest is None or latest.project_id is None else project_by_id(store, latest.project_id)


def assistants_of(store: Store, session_ids: Sequence[str]) -> dict[str, str]:
    """Return session id → name of the assistant that answers in it."""
    known = sessions_of(store, session_ids)
    return {name: assistant_of(known[name].agent if name in known else "") for name in session_ids}


def name_memories(store: Store, lines: Sequence[str]) -> list[list[tuple[str, Memory | None]]]:
    """Split lines into texts and, in place of ids, memories; a text remains where a memory has been deleted."""
    pieces = [_ID.split(line) for line in lines]
    memories = memories_of_ids(store, sorted({piece for line in pieces for piece in line[1::2]}))
    return [[(piece, memories.get(piece)) for piece in line] for line in pieces]


# -- The frame of every view: the projects to choose from, whether Engram is working, and what needs attention.


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs the user's attention, and the view for it."""

    text: str
    #: Path of the view.
    path: str
    number: int = 1
    #: True if Engram is not working properly; False for a decision that can wait.
    is_trouble: bool = False
    #: The command that repairs it; "" if there is none.
    repair: str = ""


def list_needs(
    store: Store, vitals: Vitals, settings: Settings, checked: Checked, *, with_folders: bool = False
) -> list[Need]:
    """Return everything that needs the user's attention, malfunctions first; all views get their counts from this list.

    Memories that the user's files contradict are left out, because comparing them for every view would take too long.

    Args:
        vitals: the state of processes, stages and work.
        checked: what the last check of everything found besides.
        with_folders: also check the disk for projects that may have moved.
    """
    troubles = list_troubles(vitals)
    start = start_of(store, vitals, settings)
    needs = [Need(said(trouble), "health", 1, True, start) for trouble in troubles if is_process(trouble)]
    if is_unconnected(store, settings):
        needs.append(Need("Claude Code is not connected: Claude is shown nothing", "health", 1, True, INSTALL))
    needs += [
        Need(f"{said(trouble)}. {capitalised(trouble.advice)}", "health", 1, True)
        for trouble in troubles
        if not is_process(trouble)
    ]
    if vitals.given_up:
        told = number_of(vitals.given_up, "task failed and was given up", "tasks failed and were given up")
        needs.append(Need(told, "tasks", vitals.given_up, True))
    if checked.broken:
        more = "more " if needs else ""
        told = number_of(checked.broken, f"{more}thing is not working", f"{more}things are not working")
        needs.append(Need(told, "health", checked.broken, True))
    moves = find_moves(store) if with_folders else []
    both, orders = "that can't both be true", "like an instruction"
    for number, path, one, many in (
        (len(open_contradictions(store)), "decide", f"pair of memories {both}", f"pairs of memories {both}"),
        (len(suspect_memories(store)), "decide", f"memory that reads {orders}", f"memories that read {orders}"),
        (len(moves), "projects", "project may have moved", "projects may have moved"),
    ):
        if number:
            needs.append(Need(number_of(number, one, many), path, number))
    return needs


def count_broken(needs: Sequence[Need]) -> int:
    """Return how many things are not working, which every view says of Health; all tasks given up are one of them."""
    return sum(need.number if need.path == "health" else 1 for need in needs if need.is_trouble)


#: Command that connects Claude Code.
INSTALL = "engram install"
#: Name of both processes together.
BOTH = "watcher and worker"


def list_troubles(vitals: Vitals) -> list[Trouble]:
    """Return all problems. If neither process is running, that is one problem, because one command starts both."""
    troubles = vitals.troubles()
    stopped = [trouble for trouble in troubles if is_process(trouble)]
    if len(stopped) < 2:
        return troubles
    follows = "not running: nothing is read or remembered, and Claude is shown nothing"
    # Stages that are merely late are waiting for these processes.
    rest = [trouble for trouble in troubles if trouble not in stopped and trouble.is_broken]
    return [Trouble(BOTH, follows, stopped[0].advice), *rest]


def is_process(trouble: Trouble) -> bool:
    """Return True for a process that is not running, which ``Vitals.start_command`` fixes."""
    return trouble.about in ("watcher", "worker", BOTH)


def start_of(store: Store, vitals: Vitals, settings: Settings) -> str:
    """Return the command that starts the processes that are not running; "" if both are running."""
    if not any(map(is_process, vitals.troubles())):
        return ""
    # An installation starts them, too.
    return INSTALL if is_unconnected(store, settings) else vitals.start_command


def repair_of(store: Store, vitals: Vitals, settings: Settings) -> str:
    """Return the command that starts the processes and connects Claude Code; "" if both are done."""
    return INSTALL if is_unconnected(store, settings) else start_of(store, vitals, settings)


def said(trouble: Trouble) -> str:
    """Return a problem as one string, with a colon between a stage and its error message."""
    is_sentence = trouble.text.startswith(("not ", "is "))
    return f"{capitalised(trouble.about)}{'' if is_sentence else ':'} {trouble.text}"


@dataclass(frozen=True, slots=True)
class FrameValues:
    projects: tuple[ProjectRow, ...]
    needs: tuple[Need, ...]
    #: How many of today's answers arrived after their hook had exited, in words; "" for none.
    late: str
    #: Whether Engram is running or paused, in words.
    state: str
    #: True if it is paused.
    is_paused: bool
    #: When the page was rendered, in milliseconds since 1970; later items are news.
    now_ms: int
    #: True if single letters act as keyboard shortcuts.
    has_letters: bool

    @property
    def troubles(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if need.is_trouble)

    @property
    def sentence(self) -> str:
        if not self.troubles:
            return self.state
        first, broken = self.troubles[0], count_broken(self.needs)
        if first.number > 1 and broken > 1:
            return f"{broken:,} things are not working"
        more = f" (and {broken - 1:,} more)" if broken > 1 else ""
        return f"{first.text.split(': ')[0].split('. ')[0]}{more}"

    def waiting(self, path: str) -> int:
        """Return how many items need attention in the view at ``path``."""
        if path == "health":
            return count_broken(self.needs)
        return sum(need.number for need in self.needs if need.path == path)


def state_of(store: Store) -> tuple[str, bool]:
    """Return whether Engram is running or paused, in words, and True if it is paused; a project's pause is its own."""
    pauses = current_pauses(store)
    if "" in pauses:
        return "Engram is paused", True
    return ("The worker is paused", True) if TASKS_SCOPE in pauses else ("Engram is running", False)


def frame_values(store: Store, settings: Settings, checked: Checked) -> FrameValues:
    """Collect the values of a view's frame, in a few milliseconds for a memory of any size."""
    vitals = take_vitals(store, settings, with_files=False)
    late = sum(late_since(store, day_spans(store.now_ms(), 1)[0][0]).values())
    state, is_paused = state_of(store)
    return FrameValues(
        projects=tuple(list_held_projects(store)),
        needs=tuple(list_needs(store, vitals, settings, checked)),
        late=f"{number_of(late, 'answer')} came too late today" if late else "",
        state=state,
        is_paused=is_paused,
        now_ms=store.now_ms(),
        has_letters=settings.page_letters,
    )


def day_spans(now_ms: int, number: int) -> list[tuple[int, int]]:
    """Return the start and end of each of the last ``number`` local days, in milliseconds, ending with today."""
    now = time.localtime(now_ms / 1000)
    starts = [
        int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday - back, 0, 0, 0, 0, 0, -1)) * 1000)
        for back in range(number - 1, -2, -1)
    ]
    return list(itertools.pairwise(starts))


# -- News since a page was rendered: sent as a number that the user can click, so that the page doesn't jump.

#: How often the files of memory.db are checked while a page is open, in seconds.
POLL_SECONDS = 1.0
#: Interval of the comments that keep an idle stream alive, in seconds.
KEEP_ALIVE_SECONDS = 15.0

_Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(path: Path) -> _Stamp:
    """Return the inode, size and modification time of memory.db and of its write-ahead log.

    Every commit changes at least one of them. ``PRAGMA data_version`` would need a connection that is kept open, and a
    restore would wait for it.
    """
    return tuple(_stamp(f"{path}{suffix}") for suffix in ("", "-wal"))


def _stamp(name: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        facts = os.stat(name)
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
    return None


@dataclass(slots=True)
class Activity:
    """When the page was last used, and how many streams are open, which decides whether the process exits."""

    last_seconds: float
    streams: int = 0
    is_ending: bool = False

    def is_idle(self, now_seconds: float, limit_seconds: float) -> bool:
        """Return True if the page has not been used for ``limit_seconds``. A visible page has an open stream."""
        return not self.streams and now_seconds - self.last_seconds >= limit_seconds


async def changes(path: Path, activity: Activity) -> AsyncIterator[bool]:
    """Yield True after each change to memory.db, and False after ``KEEP_ALIVE_SECONDS`` without one.

    The first check yields True, so that changes since the page was rendered are sent immediately. The stream ends when
    the process begins to stop.
    """
    activity.streams += 1
    try:
        before: _Stamp | None = None
        quiet_seconds = 0.0
        while not activity.is_ending:
            now = stamp_of(path)
            if now != before:
                before, quiet_seconds = now, 0.0
                yield True
            elif quiet_seconds >= KEEP_ALIVE_SECONDS:
                quiet_seconds = 0.0
                yield False
            await asyncio.sleep(POLL_SECONDS)
            quiet_seconds += POLL_SECONDS
    finally:
        activity.streams -= 1
        activity.last_seconds = time.monotonic()


# -- Run an Engram command for anything slow or memory-hungry, so that the page itself stays small and fast.

#: Timeout for a command, in seconds; shorter than that of the page's script.
MAX_SECONDS = 25.0


def ask_command(settings: Settings, *arguments: str) -> dict[str, Any]:
    """Run ``engram … --json`` on the same memory and return its output. No process it started outlives this call.

    Raises:
        EngramError: it took too long, or did not print a JSON object.
    """
    vault = own_vault(settings.places)
    # A vault uses the settings of the memory folder that contains it.
    home = settings.home if vault is None else vault.around
    folders = ["--home", str(home), "--claude-folder", str(settings.claude_folder)]
    folders += [] if vault is None else ["--vault", vault.identities[0]]
    command = [sys.executable, "-P", "-m", "engram.cli.main", *folders, *arguments, "--json"]
    done = run_bounded(command, b"", folder=settings.home, environment=os.environ, seconds=MAX_SECONDS)
    name = "engram " + " ".join(arguments)
    if done.has_timed_out:
        raise EngramError(f"`{name}` took longer than {MAX_SECONDS:.0f} s; run it in a terminal")
    try:
        answer = json.loads(done.output)
    except ValueError:
        lines = done.errors.decode("utf-8", "replace").strip().splitlines()
        raise EngramError(f"`{name}` failed: {lines[-1] if lines else 'it printed nothing'}") from None
    if not isinstance(answer, dict):
        raise EngramError(f"`{name}` did not print a JSON object")
    return answer
