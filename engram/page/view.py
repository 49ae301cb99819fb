"""What a view is made of: its routes, what a route is asked, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engram.errors import EngramError
from engram.extraction.model.bounded_command import run_bounded
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import open_contradictions
from engram.models.projects.projects import ProjectRow, list_projects
from engram.models.search.memory_lists import suspect_memories
from engram.models.shown.usage import late_since
from engram.reports.health import Trouble, Vitals, take_vitals
from engram.reports.settings_report import list_moves
from engram.settings import Settings
from engram.vaults import own_vault


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request, with the memory open for it."""

    store: Store
    settings: Settings
    #: Name of the setting → where its value comes from.
    sources: Mapping[str, str]
    #: Parameters in the path of the route.
    path: Mapping[str, str]
    #: Parameters behind the question mark.
    query: Mapping[str, str]
    #: Fields of a form; empty for a request that changes nothing.
    form: Mapping[str, str]
    #: htmx asks for a part of a page.
    is_fragment: bool
    #: Id of the element that htmx replaces with the answer; "" if it asks for none.
    target: str
    #: The project that the person chose; None for all.
    project: ProjectRow | None

    @property
    def project_id(self) -> int | None:
        """Row id of the chosen project; None for all."""
        return None if self.project is None else self.project.id


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about what was just done, for eight seconds, with the way to undo it."""

    text: str
    #: Path that undoes it, from the root, such as ``("m", "ep_…", "undo")``; empty if nothing is to be undone.
    undo: tuple[str, ...] = ()
    #: Id of the element that the answer to the undo replaces.
    target: str = "main"


@dataclass(frozen=True, slots=True)
class Answer:
    """A template with its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    #: Only this block of the template; "" for the whole page.
    block: str = ""
    notice: Notice | None = None
    #: Address that the browser shows from now on, as parts and a query; None leaves it. Another path than before is a
    #: step that "back" takes back.
    replace_url: tuple[tuple[str, ...], Mapping[str, str]] | None = None
    status: int = 200
    #: Something was changed: the worker is told.
    is_change: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another view of the page, as the parts of its path."""

    path: tuple[str, ...]


Handler = Callable[[PageRequest], Answer | Redirect]


@dataclass(frozen=True, slots=True)
class Route:
    """A path below the root, such as ``/m/{episode_id}``, and the function that answers it."""

    path: str
    handler: Handler
    #: GET, or POST for what changes something.
    method: str = "GET"
    #: It answers a part of a page, never a whole one.
    is_part: bool = False
    #: It waits for a command of Engram, in a queue of its own, so that nothing else waits for that.
    runs_command: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One view of the page."""

    #: Unique; also the name of its template and, if it is in the navigation, the first part of its path.
    name: str
    title: str
    routes: tuple[Route, ...]
    #: Pressed after ``g``, it leads here; "" for a view that is not in the navigation.
    key: str = ""
    #: First part of its path; "" for the start page.
    path: str = ""
    #: Name of the view in the navigation that this one belongs to; "" for none.
    within: str = ""
    #: True for a view that stands in the second group of the navigation.
    is_more: bool = False
    #: Returns how many things the view would show that are newer than a time in milliseconds. None: it has no news.
    count_new: Callable[[Store, int, int | None], int] | None = None


# -- What stands around every view: the projects to choose from, whether memory works, and what waits for the person.


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for the person, and the view that settles it."""

    text: str
    #: Path of the view.
    path: str
    number: int = 1
    #: Memory does not work as it should; False for a decision that can wait.
    is_trouble: bool = False


def list_needs(store: Store, vitals: Vitals, *, with_folders: bool = False) -> list[Need]:
    """Return everything that waits for the person, what does not work first; the one list that every view counts by.

    Memories that the user's files contradict are not in it: comparing all of them takes too long for every view.

    Args:
        store: the open memory.
        vitals: whether memory works.
        with_folders: also look on disk for projects that may have moved.
    """
    needs = [
        Need(f"{_said(trouble)}. {trouble.advice[:1].upper()}{trouble.advice[1:]}", "health", 1, True)
        for trouble in vitals.troubles()
    ]
    for number, path, one, many in (
        (sum(work.dead or 0 for work in vitals.work), "tasks", "task was given up", "tasks were given up"),
        (
            len(open_contradictions(store)),
            "decide",
            "pair of memories that can't both hold",
            "pairs of memories that can't both hold",
        ),
        (len(suspect_memories(store)), "decide", "memory that reads like an order", "memories that read like an order"),
        (
            len(list_moves(store)) if with_folders else 0,
            "projects",
            "project may have moved",
            "projects may have moved",
        ),
    ):
        if number:
            needs.append(Need(f"{number:,} {one if number == 1 else many}", path, number))
    return needs


def _said(trouble: Trouble) -> str:
    """What is wrong; the message of a failure is set apart from the stage that failed."""
    is_sentence = trouble.text.startswith(("not ", "is "))
    return f"{trouble.about.capitalize()}{'' if is_sentence else ':'} {trouble.text}"


@dataclass(frozen=True, slots=True)
class FrameValues:
    """The values of the layout."""

    projects: tuple[ProjectRow, ...]
    needs: tuple[Need, ...]
    #: Answers that came after their hook had ended, today, for people; "" for none.
    late: str
    #: When this page was made, in milliseconds since 1970: what came later is news.
    now_ms: int
    #: Claude Code's folder.
    claude_folder: str
    #: Single letters are keys.
    has_letters: bool

    @property
    def troubles(self) -> tuple[Need, ...]:
        """What does not work, the worst first; empty if all is well."""
        return tuple(need for need in self.needs if need.is_trouble)

    @property
    def sentence(self) -> str:
        """One sentence on whether memory works."""
        if not self.troubles:
            return "All is well"
        more = f" (and {len(self.troubles) - 1} more)" if len(self.troubles) > 1 else ""
        return f"{self.troubles[0].text.split(': ')[0].split('. ')[0]}{more}"

    def waiting(self, path: str) -> int:
        """How many things wait in the view of a path."""
        return sum(need.number for need in self.needs if need.path == path)


def frame_values(asked: PageRequest) -> FrameValues:
    """Collect what stands around a view; a few milliseconds at any size."""
    store = asked.store
    late = sum(late_since(store, day_spans(store.now_ms(), 1)[0][0]).values())
    return FrameValues(
        projects=tuple(list_projects(store)),
        needs=tuple(list_needs(store, take_vitals(store, asked.settings, with_files=False))),
        late=f"{late:,} {'answer' if late == 1 else 'answers'} came too late today" if late else "",
        now_ms=store.now_ms(),
        claude_folder=str(asked.settings.projects_folder),
        has_letters=asked.settings.page_letters,
    )


def day_spans(now_ms: int, number: int) -> list[tuple[int, int]]:
    """Return start and end of the latest days, today included, in milliseconds; local days, also of 23 or 25 hours."""
    now = time.localtime(now_ms / 1000)
    starts = [
        int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday - back, 0, 0, 0, 0, 0, -1)) * 1000)
        for back in range(number - 1, -2, -1)
    ]
    return list(itertools.pairwise(starts))


# -- What is new since a page was made: told as a number that waits to be shown, so that nothing jumps.

#: How often the files of memory.db are looked at while a page is open, in seconds.
POLL_SECONDS = 1.0
#: How often a comment keeps an idle stream alive, in seconds.
KEEP_ALIVE_SECONDS = 15.0

_Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(path: Path) -> _Stamp:
    """Inode, size and time of memory.db and of its write-ahead log: another one after every commit.

    ``PRAGMA data_version`` would say the same, but needs a connection that stays open, for which a restore would wait.
    """
    return tuple(_stamp(f"{path}{suffix}") for suffix in ("", "-wal"))


def _stamp(name: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        facts = os.stat(name)
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
    return None


@dataclass(slots=True)
class Activity:
    """When the page was used last, and how many streams are open: what decides whether the process ends."""

    last_seconds: float
    streams: int = 0
    is_ending: bool = False

    def is_idle(self, now_seconds: float, limit_seconds: float) -> bool:
        """True if nobody has used the page for that long. A page that is in view has a stream."""
        return not self.streams and now_seconds - self.last_seconds >= limit_seconds


async def changes(path: Path, activity: Activity) -> AsyncIterator[bool]:
    """Yield True after each change of memory.db, False now and then without one, until the process ends.

    The first look yields True: what changed since the page was made is told at once.
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


def to_event(html: str) -> bytes:
    """Return a server-sent event whose data is HTML."""
    return b"".join(b"data: " + line.encode() + b"\n" for line in html.splitlines() or [""]) + b"\n"


# -- Ask a command of Engram for what takes long or needs much memory: the page itself stays small and quick.

#: Longest time that a command is waited for, in seconds: less than the page's script waits.
MAX_SECONDS = 25.0


def ask_command(settings: Settings, *arguments: str, seconds: float = MAX_SECONDS) -> dict[str, Any]:
    """Run ``engram … --json`` over the same memory and return what it prints; it and all it starts end with it.

    Raises:
        EngramError: it took too long, or printed no JSON.
    """
    vault = own_vault(settings.places)
    # A vault's settings are those of the memory folder around it.
    home = settings.home if vault is None else vault.around
    folders = ["--home", str(home), "--claude-folder", str(settings.claude_folder)]
    folders += [] if vault is None else ["--vault", vault.identities[0]]
    command = [sys.executable, "-P", "-m", "engram.cli.main", *folders, *arguments, "--json"]
    done = run_bounded(command, b"", folder=settings.home, environment=os.environ, seconds=seconds)
    name = "engram " + " ".join(arguments)
    if done.has_timed_out:
        raise EngramError(f"`{name}` took longer than {seconds:.0f} s; run it in a terminal")
    try:
        answer = json.loads(done.output)
    except ValueError:
        lines = done.errors.decode("utf-8", "replace").strip().splitlines()
        raise EngramError(f"`{name}` failed: {lines[-1] if lines else 'it said nothing'}") from None
    if not isinstance(answer, dict):
        raise EngramError(f"`{name}` printed no object")
    return answer
