"""Find work that grows faster than its input: ``PYTHONPATH=. python benchmarks/growth_of_work.py [--only WORD]``.

Every kind of work is done with N, 2 N and 4 N of something: entries, pasted points, memories, projects, tasks, files.
Only the processor time of this process is measured, so that other programs hardly disturb; the smallest of ``--rounds``
counts. What does not depend on N is left out of the exponent: it is the logarithm of (T4 - T2) / (T2 - T1), 1 for work
that is linear and 2 for a square. ``!`` marks an exponent above 1.3, or 1 s for N. A kind that takes longer than
``--limit`` seconds is broken off. Without a model; texts are made, always the same ones.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.growing_lab import Lab, rewrite, words
from bench.growing_texts import FORMS, TEXTS, alone, each, rule, turn
from engram.consolidation.consolidation_run import consolidate
from engram.enums import Kind, Scope, Source
from engram.extraction import rule_endings, user_rules
from engram.ingest.project_moves import sort_projects
from engram.ingest.read_sources import ingest_path
from engram.models.rescue.backup import make_backup
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.vectors.loaded_vectors import similar_pairs
from engram.tasks.session_tasks import extract_now
from engram.text import markdown, shell, splitting, titles
from engram.text import words as text_words
from engram.trust import addressed, suspicion, voice
from engram.watcher.watch import Watcher
from engram_mcp.access import access_for
from engram_mcp.catalog import TOOLS
from tests.growing_transcript import Transcript
from tests.hub.machines import Machine
from tests.page.serving import serve_page

#: Exponent above which work is marked, and the seconds for N above which it is marked too.
MARKED_EXPONENT, MARKED_SECONDS = 1.3, 1.0
#: Differences between two sizes below this many seconds say nothing about growth.
MIN_SECONDS = 0.1
Work = Callable[[], object]
Prepare = Callable[[Lab, int], Work]
#: Name → N, and how the work is prepared.
KINDS: dict[str, tuple[int, Prepare]] = {}


class TooLong(BaseException):
    """The limit of a measurement is reached."""


# -- One transcript: what is in it, and what is done with it.

#: What is asked of a text.
ABOUT_TEXTS: Mapping[str, Callable[[str], object]] = {
    "redact": redact,
    "typed": voice.typed_text,
    "suspect": lambda text: suspicion.why_suspect(text, is_typed=True),
    "addressed": addressed.is_addressed,
    "sentences": lambda text: (splitting.sentences(text), splitting.split(text), splitting.split_passages(text)),
    "plain": lambda text: (splitting.plain(text), list(markdown.readable_lines(text))),
    "title": lambda text: (titles.title_from(text), titles.says_something(text), titles.labelled_parts(text)),
    "rule": lambda text: (user_rules.rules(text), rule_endings.takings_back(text), user_rules.only_asks(text)),
    "words": lambda text: (text_words.names_of(text), text_words.topic_words(text), text_words.terms_of(text)),
    "command": lambda text: (shell.programs_of(text), shell.told_part(text), shell.normal_command(text)),
    "errors": lambda text: shell.error_keys(shell.telling_lines(text)),
}


def _ingest(form: Callable[[Transcript, int], object], lab: Lab, n: int) -> Work:
    transcript = lab.session()
    form(transcript, n)
    return partial(ingest_path, lab.store, transcript.path, settings=lab.settings, redact=redact)


def _reread(
    form: Callable[[Transcript, int], object], change: Callable[[list[str]], list[str]], lab: Lab, n: int
) -> Work:
    work = _ingest(form, lab, n)
    work()
    rewrite(lab.session().path, change)
    return work


def _extract(form: Callable[[Transcript, int], object], lab: Lab, n: int, *, is_again: bool = False) -> Work:
    _ingest(form, lab, n)()
    if is_again:
        extract_now(lab.runtime, "s1")
        lab.session().add({"type": "user", "message": {"content": "and one more"}, "uuid": "more"})
        lab.read()
    else:
        assert lab.runtime
    return partial(extract_now, lab.runtime, "s1")


def _prompt(text: Callable[[int], str], lab: Lab, n: int) -> Work:
    read = _ingest(alone(text), lab, n)
    return lambda: (read(), extract_now(lab.runtime, "s1"))


def _asked(text: Callable[[int], str], lab: Lab, n: int) -> Work:
    return partial(_hook, lab, "UserPromptSubmit", text(n))


def _about(text: Callable[[int], str], work: Callable[[str], object], lab: Lab, n: int) -> Work:
    return partial(work, text(n))


def _propose(shape: Callable[[int], str], lab: Lab, n: int) -> Work:
    lab.memories(n, shape, source=Source.MANUAL)
    return partial(lab.run, "propose")


for _name, (_n, _form) in FORMS.items():
    KINDS[f"ingest: {_name}"] = (_n, partial(_ingest, _form))
    KINDS[f"extract: {_name}"] = (_n, partial(_extract, _form))
    KINDS[f"extract again: {_name}"] = (_n, partial(_extract, _form, is_again=True))
    KINDS[f"read again, first line changed: {_name}"] = (_n, partial(_reread, _form, lambda r: [" " + r[0], *r[1:]]))
    KINDS[f"read again, half cut: {_name}"] = (_n, partial(_reread, _form, lambda rows: rows[: len(rows) // 2]))
    KINDS[f"read again, first half cut: {_name}"] = (_n, partial(_reread, _form, lambda rows: rows[len(rows) // 2 :]))
for _name, _text in TEXTS.items():
    KINDS[f"ingest and extract a prompt: {_name}"] = (400, partial(_prompt, _text))
    KINDS[f"hook asks: {_name}"] = (400, partial(_asked, _text))
    for _name_of_work, _work in ABOUT_TEXTS.items():
        KINDS[f"{_name_of_work}: {_name}"] = (400, partial(_about, _text, _work))


def _hook(lab: Lab, event: str, prompt: str) -> bytes:
    payload = {"hook_event_name": event, "session_id": "s1", "cwd": str(lab.project), "prompt": prompt, "error": prompt}
    return lab.runtime.recollection.answer_hook(payload | {"tool_name": "Bash", "tool_input": {"command": prompt}})


KINDS["hook fails: a log"] = (400, lambda lab, n: partial(_hook, lab, "PostToolUseFailure", TEXTS["a log"](n)))


# -- Consolidation, forgetting, exchange and hubs over N memories.

SHAPES: Mapping[str, Callable[[int], str]] = {
    "different": words,
    "near": lambda k: f"{words(1, 30)} part {k}",
    "the same": lambda k: words(1, 30),
    "contradicting": lambda k: f"{'Always' if k % 2 else 'Never'} use {words(1, 6)} for {words(2, 3)} {k // 2}.",
    "rules": rule,
}


def _consolidate(shape: Callable[[int], str], lab: Lab, n: int, *, is_again: bool = False, **fields: Any) -> Work:
    lab.memories(n, shape, **fields)
    embedder = lab.runtime.embedder
    assert embedder
    similar = partial(similar_pairs, lab.store, embedder.model_id)
    work = partial(consolidate, lab.store, lab.settings, similar=similar, is_forced=True)
    if is_again:
        work()
    return work


for _name, _shape in SHAPES.items():
    KINDS[f"consolidate: {_name}"] = (250, partial(_consolidate, _shape))
    KINDS[f"consolidate again: {_name}"] = (250, partial(_consolidate, _shape, is_again=True))
    KINDS[f"propose lines: {_name}"] = (250, partial(_propose, _shape))
KINDS["consolidate: saved rules"] = (
    250,
    partial(_consolidate, rule, kind=Kind.PREFERENCE, source=Source.MANUAL, scope=Scope.GLOBAL),
)


def _stored(lab: Lab, n: int) -> list[str]:
    """Store N sessions with what is made of them, each with one more memory."""
    lab.sessions(n, turn, projects=1)
    lab.read()
    lab.drain()
    return [str(value) for (value,) in lab.store.rows("SELECT episode_id FROM episode")]


def _command(*arguments: str) -> Prepare:
    return lambda lab, n: partial(lab.run, *(a.format(id=_stored(lab, n)[0]) if "{" in a else a for a in arguments))


def _after_stored(work: Callable[[Lab], Work]) -> Prepare:
    return lambda lab, n: (_stored(lab, n), work(lab))[1]


def _exported(lab: Lab, n: int, form: str) -> Work:
    _stored(lab, n)
    lab.run("export", "--format", form, "--output", lab.folder / "out")
    other = Lab(lab.folder / "other")
    lab.closing.callback(other.close)
    return partial(other.run, "import", lab.folder / "out")


def _notes(lab: Lab, n: int, *, is_import: bool) -> Work:
    path = lab.settings.places.notes / "long.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"## {words(k, 3)}\n\n{words(k, 30)}\n\n" for k in range(n)), encoding="utf-8")
    if is_import:
        return partial(lab.run, "import", path, "--from", "notes", "--global")
    return partial(index_notes, lab.store, lab.settings, redact)


def _claude_mem(lab: Lab, n: int) -> Work:
    path = lab.folder / "claude-mem.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE sdk_sessions (id INTEGER, content_session_id TEXT, memory_session_id TEXT)")
        database.execute(
            "CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, type TEXT, "
            "title TEXT, narrative TEXT, facts TEXT, created_at_epoch INTEGER)"
        )
        for k in range(n):
            row = (k, f"m{k}", f"p{k}", "decision", words(k), words(k, 60), json.dumps([words(k)]), 1_767_225_600 + k)
            database.execute("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            database.execute("INSERT INTO sdk_sessions VALUES (?, ?, ?)", (k, f"{k:08x}", f"m{k}"))
    return partial(lab.run, "import", path)


def _by_folder(lab: Lab, n: int, *, is_pull: bool) -> Work:
    _stored(lab, n)
    first = Machine(lab.settings.places, lab.store)
    first.use_folder(lab.folder / "synced")
    if not is_pull:
        return first.sync
    first.sync()
    second = lab.closing.enter_context(Machine.open(lab.folder / "second"))
    second.use_folder(lab.folder / "synced", first.phrase)
    return second.sync


def _watch(lab: Lab, n: int, *, appends: int = 0) -> Work:
    lab.sessions(n if not appends else 1, lambda t, k: (t.user(words(k)), t.says(words(k))), projects=1)
    watcher = Watcher(lab.settings, lab.store)
    lab.closing.callback(watcher.close)

    def sweep() -> None:
        watcher.sweep()
        while watcher.step():
            pass

    def append() -> None:
        for k in range(n):
            lab.session(f"{0:08x}-0000-4000-8000-000000000000").add(
                {"type": "user", "uuid": f"u{k}", "message": {"content": words(k)}}
            )
            sweep()

    if appends:
        sweep()
    return append if appends else sweep


def _folders(lab: Lab, n: int) -> Work:
    lab.sessions(n, lambda t, k: t.user(words(k)), projects=n)
    lab.read()
    return partial(sort_projects, lab.store, lab.settings)


def _restored(lab: Lab) -> Work:
    make_backup(lab.store, lab.settings.places.backups)
    lab.closing.close()
    return partial(lab.run, "restore", "--yes")


KINDS |= {
    "forget one": (80, _command("forget", "{id}", "--yes")),
    "forget one with its source": (80, _command("forget", "{id}", "--also-source", "--yes")),
    "forget a session": (
        80,
        lambda lab, n: (_stored(lab, n), partial(lab.run, "forget", f"{0:08x}-0000-4000-8000-000000000000", "--yes"))[
            1
        ],
    ),
    "forget a long session": (
        80,
        lambda lab, n: (_extract(each(turn), lab, n)(), partial(lab.run, "forget", "s1", "--yes"))[1],
    ),
    "forget a project": (80, _after_stored(lambda lab: partial(lab.run, "projects", "forget", "boats", "--yes"))),
    "export": (80, _after_stored(lambda lab: partial(lab.run, "export", "--output", lab.folder / "out"))),
    "export to Markdown": (
        80,
        _after_stored(lambda lab: partial(lab.run, "export", "--format", "markdown", "--output", lab.folder / "out")),
    ),
    "import": (80, partial(_exported, form="jsonl")),
    "import Markdown": (80, partial(_exported, form="markdown")),
    "index a note of headings": (150, partial(_notes, is_import=False)),
    "import a note of headings": (150, partial(_notes, is_import=True)),
    "import from claude-mem": (150, _claude_mem),
    "folder sync: push": (80, partial(_by_folder, is_pull=False)),
    "folder sync: pull": (80, partial(_by_folder, is_pull=True)),
    "backup": (80, _after_stored(lambda lab: partial(make_backup, lab.store, lab.settings.places.backups))),
    "restore": (80, _after_stored(_restored)),
    "purge": (80, _after_stored(lambda lab: partial(lab.run, "purge", "--superseded", 1, "--archived", 1, "--yes"))),
    "watch: files": (80, _watch),
    "watch: appends": (60, partial(_watch, appends=1)),
    "sort projects": (60, _folders),
    "up --once: sessions": (60, lambda lab, n: (lab.sessions(n, turn), partial(lab.run, "up", "--once"))[1]),
    "up --once: projects": (
        60,
        lambda lab, n: (lab.sessions(n, turn, projects=n), partial(lab.run, "up", "--once"))[1],
    ),
    "up --once: one session": (
        60,
        lambda lab, n: (each(turn)(lab.session(), n), partial(lab.run, "up", "--once"))[1],
    ),
    "fork of a session": (20, lambda lab, n: (lab.sessions(n, lambda t, k: _forked(t, n)), lab.read)[1]),
}


def _forked(transcript: Transcript, _: int) -> None:
    for k in range(40):
        transcript.add(
            {"type": "user", "uuid": f"{k:08x}-0000-4000-8000-00000000ffff", "message": {"content": words(k)}}
        )


# -- What is asked of a memory with N sessions, projects, memories and tasks: all kinds share one such memory.

WORLDS: Mapping[str, Callable[[Lab, int], object]] = {
    "sessions": lambda lab, n: (lab.sessions(n, turn), lab.read(), lab.drain()),
    "projects": lambda lab, n: (lab.sessions(n, turn, projects=n), lab.read(), lab.drain()),
    "turns of a session": lambda lab, n: (each(turn)(lab.session(), n), lab.read().drain()),
    "memories": lambda lab, n: (turn(lab.session(), 1), lab.read(), lab.memories(6 * n)),
    "rules": lambda lab, n: (
        turn(lab.session(), 1),
        lab.read(),
        lab.memories(3 * n, rule, kind=Kind.PREFERENCE, scope=Scope.GLOBAL, source=Source.MANUAL, is_pinned=True),
    ),
    "due sessions": lambda lab, n: (lab.sessions(n, turn), lab.read()),
    "changes of a memory": lambda lab, n: (turn(lab.session(), 1), lab.read(), lab.drain(), _change(lab, n)),
    "prompts": lambda lab, n: (
        each(turn)(lab.session(), 5),
        lab.read(),
        lab.drain(),
        [_asked(words, lab, k % 5)() for k in range(3 * n)],
    ),
}


def _change(lab: Lab, n: int) -> int:
    (episode_id,) = lab.store.rows("SELECT episode_id FROM episode LIMIT 1")[0]
    for k in range(n // 2):
        lab.run("edit", episode_id, "--summary", words(k))
    return n


#: What is asked of a memory on the command line, and which views of the page are opened.
COMMANDS = (
    "sessions; timeline; timeline --json; where; report; report --days 900; doctor; status; status --json; review; "
    "search because; recall because; why; why {session}; why {id}; why --prompt because; expand {id} --why; "
    "sessions {session}; fix error; how make; blame a.py; projects; tasks; propose; cost; consolidate --dry-run; "
    "forget {id} --dry-run; purge --archived 1; restore --list; import --list"
)
VIEWS = (
    "; m; m?q=because; m/{id}; m/{id}/forget; s; s/{session}; projects; projects/1; decide; decide/files; gone; "
    "gone/purge; health; health/checks; tasks; costs; settings; briefing"
)


def asked_of(lab: Lab) -> Iterator[tuple[str, Work]]:
    """Yield what is asked of a memory: commands, views of the page, tools, and a hook."""
    (episode_id,) = (lab.store.rows("SELECT episode_id FROM episode LIMIT 1") or [("none",)])[0]
    (session_id,) = lab.store.rows("SELECT session_id FROM session LIMIT 1")[0]
    for arguments in COMMANDS.format(id=episode_id, session=session_id).split("; "):
        yield (
            f"engram {arguments}".replace(session_id, "SESSION").replace(episode_id, "ID"),
            partial(lab.run, *arguments.split()),
        )
    with serve_page(lab.settings) as page:
        for path in VIEWS.format(id=episode_id, session=session_id).split("; "):
            yield (
                f"page /{path}".replace(session_id, "SESSION").replace(episode_id, "ID"),
                partial(page.ask, f"{page.access.root}/{path}"),
            )
    access = access_for({**os.environ, "CLAUDE_PROJECT_DIR": str(lab.project)})
    given = {"recall": {"query": "because"}, "search": {"query": "because"}, "expand": {"id": episode_id}}
    for name in ("recall", "search", "expand", "status", "timeline", "context"):
        yield f"tool {name}", partial(TOOLS[f"memory_{name}"].work, access, **given.get(name, {}))
    start = {"hook_event_name": "SessionStart", "session_id": "new", "cwd": str(lab.project), "source": "startup"}
    yield "hook SessionStart", lambda: lab.runtime.recollection.answer_hook(start)
    yield "hook UserPromptSubmit", partial(_hook, lab, "UserPromptSubmit", words(4))


# -- Measure.


def seconds_of(work: Work, limit: float) -> float:
    """Return the processor time of some work; raise TooLong if it takes longer than the limit."""

    def end(*_: object) -> None:
        raise TooLong

    gc.collect()
    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, limit)
    begin = time.process_time()
    try:
        work()
        return time.process_time() - begin
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextlib.contextmanager
def new_lab() -> Iterator[Lab]:
    """Yield an empty memory folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lab = Lab(Path(folder))
        try:
            yield lab
        finally:
            lab.close()


def measure(prepare: Prepare, n: int, rounds: int, limit: float) -> list[float]:
    """Return the smallest seconds with N, 2 N and 4 N; shorter if one took too long."""
    with new_lab() as lab:
        prepare(lab, n // 4)()  # compile what is compiled at its first use
    found: list[float] = []
    for size in (n, 2 * n, 4 * n):
        took = []
        for _ in range(rounds):
            with new_lab() as lab:
                work = prepare(lab, size)
                try:
                    took.append(seconds_of(work, limit))
                except TooLong:
                    return [*found, math.inf]
        found.append(min(took))
    return found


def measure_world(
    fill: Callable[[Lab, int], object], n: int, rounds: int, limit: float, only: str
) -> dict[str, list[float]]:
    """Return the same for everything that is asked of a memory, each asked once before."""
    found: dict[str, list[float]] = {}
    for size in (n, 2 * n, 4 * n):
        with new_lab() as lab:
            fill(lab, size)
            for name, work in asked_of(lab):
                if math.inf in found.setdefault(name, []) or only not in name:
                    continue
                try:
                    found[name].append(min(seconds_of(work, limit) for _ in range(rounds + 1)))
                except TooLong:
                    found[name].append(math.inf)
                except Exception as error:  # noqa: BLE001 - a kind that fails doesn't end the others
                    print(f"? {name}: {error!r}", flush=True)
    return {name: took for name, took in found.items() if took}


def exponent_of(took: list[float]) -> float | None:
    """Return how work grows; None if it is too short to tell."""
    if len(took) < 3 or took[2] - took[1] < MIN_SECONDS:
        return math.inf if took[-1] == math.inf else None
    return math.log2((took[2] - took[1]) / max(took[1] - took[0], MIN_SECONDS / 4))


def show(name: str, n: int, took: list[float]) -> dict[str, Any]:
    """Print a row of the table, and return it."""
    exponent = exponent_of(took)
    is_marked = (exponent or 0) > MARKED_EXPONENT or took[0] > MARKED_SECONDS
    cells = "".join(f"{seconds:9.3f}" for seconds in took)
    print(
        f"{'!' if is_marked else ' '} {name:70}{n:6}{cells:27}{'' if exponent is None else f'{exponent:7.2f}'}",
        flush=True,
    )
    return {"name": name, "n": n, "seconds": took, "exponent": exponent, "marked": is_marked}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only kinds whose name contains this (default: all)")
    parser.add_argument("--world", default=None, help="only what is asked of this memory, or of all (empty)")
    parser.add_argument("--asked", default="", help="of those, only questions that contain this")
    parser.add_argument("--size", type=int, default=60, help="N of what is asked of a memory (default 60)")
    parser.add_argument("--times", type=int, default=1, help="multiply every other N (default 1)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each size (default 1)")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="seconds after which a kind is broken off (default 20)"
    )
    parser.add_argument("--json", type=Path, help="also write the table here")
    given = parser.parse_args()
    rows = []
    for name, (n, prepare) in KINDS.items() if given.world is None else ():
        if given.only in name:
            try:
                rows.append(show(name, n * given.times, measure(prepare, n * given.times, given.rounds, given.limit)))
            except Exception as error:  # noqa: BLE001 - a kind that fails doesn't end the others
                print(f"? {name}: {error!r}", flush=True)
    for name, fill in WORLDS.items() if given.world is not None or not given.only else ():
        if given.world in (None, "") or name == given.world:
            for asked, took in measure_world(fill, given.size, given.rounds, given.limit, given.asked).items():
                rows.append(show(f"{name}: {asked}", given.size, took))
    print(f"{sum(row['marked'] for row in rows)} of {len(rows)} kinds are marked")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
