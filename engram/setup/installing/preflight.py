"""Check conditions that must be met before anything is changed; each error message says what to do."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engram.embedding.model_source import BUNDLED, is_bundled_intact
from engram.enums import Actor
from engram.errors import EngramError, HomeError, InstallError
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_memory
from engram.models.search.memory_lists import latest_memories
from engram.paths import Home
from engram.redaction import redact
from engram.search.question import Query
from engram.settings import Settings
from engram.system.atomic import locked_folder, make_private_folder
from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.system.socketpath import bind_at
from engram.tasks.runtime import Runtime, make_runtime
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.claude_code import AGENT
from engram.transcripts.message_elements import written_beginnings
from engram.version import SOURCE

#: Free space that an installation needs, in bytes.
MIN_FREE_BYTES = 300_000_000
#: Path components of interpreters that will soon be deleted, because `uvx` and `pipx run` delete their environments.
_TEMPORARY_PARTS = ("archive-v0", "builds-v0", ".cache/pipx", "pipx/.cache")


def check_machine(settings: Settings, *, interpreter: str = sys.executable) -> None:
    """Check the user, the interpreter, the free space and Claude Code's folder, without creating anything.

    Args:
        interpreter: the interpreter of the hooks and the service.

    Raises:
        InstallError: an installation would not work.
    """
    if os.geteuid() == 0 and os.environ.get("SUDO_USER", "root") != "root":
        raise InstallError("Engram belongs to one user: run `engram install` without sudo")
    if not interpreter or not os.access(interpreter, os.X_OK):
        raise InstallError(f"the Python interpreter {interpreter!r} can't be run. Install Engram in a new environment")
    if any(part in interpreter for part in _TEMPORARY_PARTS):
        raise InstallError(
            f"{interpreter} is in a temporary environment, which will be deleted. Install Engram first, with "
            f"`uv tool install {SOURCE}` or `pipx install {SOURCE}` in Engram's folder, then run `engram install`"
        )
    if settings.embedding_model == BUNDLED and not is_bundled_intact():
        raise InstallError("the bundled model is missing or damaged. Install Engram again")
    free = shutil.disk_usage(_existing(settings.home)).free
    if free < MIN_FREE_BYTES:
        needed = f"Free {MIN_FREE_BYTES / 1e6:.0f} MB first"
        raise InstallError(f"only {free / 1e6:.0f} MB are free on the disk that contains {settings.home}. {needed}")
    for folder in settings.all_claude_folders:
        _check_folder(folder)


def make_home(home: Home) -> None:
    """Create the memory folder, for an installation that begins.

    Raises:
        HomeError: it can't be created, or its file system has no locks or no sockets. What was created is removed.
    """
    made = _first_missing(home.root)
    try:
        path = home.prepare().root / ".check.sock"
        with locked_folder(home.root), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            bind_at(probe, path)
            path.unlink()
    except HomeError:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise


def _first_missing(folder: Path) -> Path | None:
    """Return the outermost missing folder of a path; None if the folder exists."""
    existing = _existing(folder)
    return None if existing == folder else existing / folder.relative_to(existing).parts[0]


def _check_folder(folder: Path) -> None:
    """Check that Claude Code's folder, or the first one above it that exists, can be written to."""
    existing = _existing(folder)
    if not existing.is_dir():
        raise InstallError(f"{existing} is not a folder. Move it away, or set CLAUDE_CONFIG_DIR")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InstallError(f"{existing} is not writable. Make it writable, or set CLAUDE_CONFIG_DIR to another folder")


def _existing(folder: Path) -> Path:
    """Return the folder, or the first one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


# -- What it would cost to have a language model write this user's memories, based on recent sessions.

#: Number of days that are examined.
DAYS = 30
#: Model → dollars for a thousand turns at list price: if they are imported as whole sessions, and if they are read
#: while you work. The figures are from docs/language-model.md; which model `haiku` means depends on Claude Code's
#: version.
DOLLARS: Final[Mapping[str, tuple[float, float]]] = {"Claude Haiku 5.5": (0.22, 0.37), "Claude Haiku 4.5": (1.70, 2.83)}
PRICE_DAY = "2026-11-26"
#: Of the prompts that a memory can help with, the percentage that get a helpful one: with memories made by a model, and
#: with memories made by rules.
SERVED_BY_MODEL, SERVED_BY_RULES = 72, 5
#: Maximum number of bytes of transcripts that are counted; the turns of the others are estimated from their size.
MAX_COUNTED_BYTES = 200_000_000
_DAY_NS = 86_400 * 10**9
_USER, _NO_PROMPT = (
    b'"type":"user"',
    (b'"tool_result"', b'"isMeta":true', b'"isSidechain":true', b'"isCompactSummary":true'),
)
#: The beginning of a text that nobody typed.
_WRITTEN = lazy_regex(rb'"(?:content|text)":"(?:%b)' % b"|".join(re.escape(w.encode()) for w in written_beginnings()))
_ENTRY_ID = lazy_regex(rb'"uuid":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of a month like the last one."""

    #: Claude Code's sessions that changed in the last ``DAYS`` days.
    sessions: int
    #: The estimated number of their turns.
    turns: int

    def dollars(self, model: str) -> tuple[float, float]:
        """Lowest and highest cost of these turns at list price; of a thousand turns if there are none."""
        low, high = DOLLARS[model]
        turns = self.turns or 1000
        return turns * low / 1000, turns * high / 1000


def estimate_cost(
    sources: Iterable[Source], now_seconds: float, *, max_counted_bytes: int = MAX_COUNTED_BYTES
) -> CostEstimate:
    """Count the prompts in the transcripts of the last ``DAYS`` days. Nothing is stored or sent."""
    recent = [source for source, _ in _recent_sessions(sources, now_seconds)]
    recent.sort(key=lambda source: -source.changed_at_ns)
    counted = 0
    prompts: set[bytes] = set()
    for source in recent:
        if counted >= max_counted_bytes:
            break
        counted += source.size or 0
        prompts |= _prompts_of(source)
    total = sum(source.size or 0 for source in recent)
    return CostEstimate(len(recent), round(len(prompts) * total / counted) if counted else 0)


def _prompts_of(source: Source) -> set[bytes]:
    """Return the ids of lines that look like prompts. This is much faster than a full read, and nearly as exact.

    A fork or a resumed copy has the ids of the original.
    """
    try:
        with open(source.path, "rb") as file:
            users = (line for line in file if _USER in line and not any(mark in line for mark in _NO_PROMPT))
            lines = [line for line in users if not _WRITTEN.search(line)]
    except OSError:
        return set()
    return {found[1] if (found := _ENTRY_ID.search(line)) else line for line in lines}


# -- What the mod costs: Claude Code runs a session's mods in one separate worker, and only the first mod causes the
# cost.

#: Megabytes for each session that is open, and seconds of processor time for each start; measured with 2.1.332.
MOD_MEGABYTES = (37, 48)
MOD_START_SECONDS = 0.19
#: Number of bytes at the beginning of a transcript, or at its end, that are searched for a timestamp.
_HEAD_BYTES = 65_536
_TIME = lazy_regex(rb'"timestamp":"([^"]{20,35})"')


def cost_lines(settings: Settings, cost: CostEstimate) -> list[str]:
    """Return what a month like the last one would cost with Claude, and the cap."""
    from engram.extraction.model.claude_provider import who_pays  # only the question who writes the memories needs it

    each = " and ".join(f"{_range(*cost.dollars(model))} with {model}" for model in DOLLARS)
    month = f"Your last {DAYS} days ({cost.sessions} sessions, about {cost.turns} turns) would have cost"
    return [
        f"{month if cost.turns else 'A thousand turns cost about'} {each}, at the list prices of "
        f"{PRICE_DAY}. {who_pays()}",
        f"At most ${settings.llm_dollars_per_day:.2f} a day, whatever happens (setting llm_dollars_per_day).",
    ]


def _range(low: float, high: float) -> str:
    return f"${low:.2f} to ${high:.2f}" if high >= 0.01 else "less than a cent"


def mod_price(sources: Iterable[Source], now_seconds: float) -> str:
    """Return what the mod costs a user with these sessions, in a sentence or two. Only both ends of files are read."""
    recent = _recent_sessions((source for source in sources if not source.is_subagent), now_seconds)
    low, high = MOD_MEGABYTES
    each = f"It takes {low} to {high} MB for each open session, and {MOD_START_SECONDS} s of processor time per start"
    if not recent:
        return f"{each}."
    begins = [(_began_ms(source), 1) for source, _ in recent]
    steps = sorted([*begins, *((ended_ns // 10**6 + 1, -1) for _, ended_ns in recent)])
    most = max(itertools.accumulate(change for _, change in steps))
    return (
        f"{each}. Of your {len(recent)} sessions in {DAYS} days, at most {most} were open at once: that is "
        f"{most * low} to {most * high} MB, and {len(recent) * MOD_START_SECONDS:.0f} s for all starts together."
    )


def _recent_sessions(sources: Iterable[Source], now_seconds: float) -> list[tuple[Source, int]]:
    """Return Claude Code's sessions of the last ``DAYS`` days, each with its end in nanoseconds since 1970."""
    since_ns = int(now_seconds * 10**9) - DAYS * _DAY_NS
    # A session can't have ended after its file last changed, so older files need not be read.
    changed = (source for source in sources if source.agent == AGENT and source.changed_at_ns >= since_ns)
    return [(source, ended_ns) for source in changed if (ended_ns := _ended_ns(source)) >= since_ns]


def _ended_ns(source: Source) -> int:
    """Return when a session ended, in nanoseconds since 1970, by the last timestamp in its file.

    The time of the file itself is used if it is earlier. A copied file has the time of the copy, so it may be later.
    """
    try:
        with open(source.path, "rb") as file:
            file.seek(max(0, (source.size or 0) - _HEAD_BYTES))
            times = _TIME.findall(file.read())
    except OSError:
        return source.changed_at_ns
    said_ms = parse_time_ms(times[-1].decode("ascii", "replace")) if times else None
    return source.changed_at_ns if said_ms is None else min(said_ms * 10**6, source.changed_at_ns)


def _began_ms(source: Source) -> int:
    """Return when a session began, in milliseconds since 1970, by its file's first timestamp or else last change."""
    ended_ms = source.changed_at_ns // 10**6
    try:
        with open(source.path, "rb") as file:
            found = _TIME.search(file.read(_HEAD_BYTES))
    except OSError:
        return ended_ms
    began_ms = parse_time_ms(found[1].decode("ascii", "replace")) if found else None
    return ended_ms if began_ms is None else min(began_ms, ended_ms)


# -- A self-test: invent a session, make a memory from it, then recall and forget that memory, in a temporary folder.

#: A word that occurs in no other text.
CANARY = "Quagmarine"
_SESSION = "5e1f7e57-0000-4000-8000-000000000001"
_PROMPT = (
    f"From now on we always use SQLite for the {CANARY} queue in this project, never Redis. "
    "A second service must not be needed."
)
_ANSWER = f"Understood: the {CANARY} queue stays in SQLite, so that no second service is needed."
_QUESTION = f"Why is the {CANARY} queue in SQLite?"


@dataclass(frozen=True, slots=True)
class SelfTest:
    #: What did not work; "" if everything did.
    problem: str
    seconds: float
    #: True if the model took part; False if recall used text alone.
    has_vectors: bool = False


def run_self_test(settings: Settings) -> SelfTest:
    """Test reading, making a memory, recalling and forgetting it, with this installation's model and disk.

    The test uses a temporary folder inside the memory folder, and leaves nothing behind.
    """
    started = time.monotonic()
    has_vectors = False
    try:
        with _folder(settings) as folder:
            has_vectors = _test(settings, folder)
            problem = ""
    except EngramError as error:
        problem = str(error)
    return SelfTest(problem, time.monotonic() - started, has_vectors)


@contextmanager
def _folder(settings: Settings) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".self-test-", dir=make_private_folder(settings.home, with_parents=True)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _test(settings: Settings, folder: Path) -> bool:
    """Run all steps; return whether the model took part. Raises EngramError if a step fails."""
    own = Settings(
        home=folder,
        claude_folder=folder / "claude",
        embedding_model=settings.embedding_model,
        sqlite_driver=settings.sqlite_driver,
    )
    path = _write_session(own.projects_folder / "-self-test")
    own.places.prepare()
    with open_memory(own.places.memory_db, driver=own.sqlite_driver, is_made=True) as store:
        ingest_all(store, settings=own, redact=redact, sources=registry.sources_at(path, own))
        runtime = make_runtime(replace(own, exclude=()), store, may_load_torch=False)
        # The queue is loaded only where it is used, because every command imports this module.
        from engram.tasks.drain import drain

        drain(runtime, with_waiting=True)
        episode_id = _recall(store, runtime)
        forget_memory(store, own.places, episode_id, actor=Actor.USER, also_source=True)
        runtime.refresh_index()
        if _hits(runtime):
            raise EngramError("a forgotten memory was found again")
    left = [file.name for file in folder.glob("memory.db*") if CANARY.encode() in file.read_bytes()]
    if left:
        raise EngramError(f"words of a forgotten memory are still in {', '.join(left)}")
    return runtime.embedder is not None


def _recall(store: Store, runtime: Runtime) -> str:
    memories = latest_memories(store)
    if not any(CANARY in memory.summary for memory in memories):
        raise EngramError("no memory was made from a session")
    runtime.refresh_index()
    hits = _hits(runtime)
    if not hits:
        raise EngramError("a memory that was just made was not found")
    return hits[0]


def _hits(runtime: Runtime) -> list[str]:
    return [hit.id for hit in runtime.searcher.recall(Query(text=_QUESTION, limit=3))]


def _write_session(folder: Path) -> Path:
    """Write a session with a prompt and an answer, as Claude Code does."""
    folder.mkdir(parents=True)
    common = {"sessionId": _SESSION, "cwd": str(folder), "isSidechain": False, "version": "2.1.330"}
    lines = [
        {
            **common,
            "type": "user",
            "uuid": "5e1f7e57-0000-4000-8000-000000000002",
            "parentUuid": None,
            "timestamp": "2026-01-05T10:00:00.000Z",
            "message": {"role": "user", "content": _PROMPT},
        },
        {
            **common,
            "type": "assistant",
            "uuid": "5e1f7e57-0000-4000-8000-000000000003",
            "parentUuid": "5e1f7e57-0000-4000-8000-000000000002",
            "timestamp": "2026-01-05T10:00:09.000Z",
            "message": {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": _ANSWER}]},
        },
    ]
    path = folder / f"{_SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
