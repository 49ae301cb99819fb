"""Find work that grows faster than its input: ``PYTHONPATH=. python benchmarks/growth_of_work.py [--only WORD]``.

Every kind of work is done with N, 2 N and 4 N of something: entries, pasted points, memories, projects, tasks, files.
Only the processor time of this process is measured, so that other programs hardly disturb; the smallest of ``--rounds``
counts. What does not depend on N is left out of the exponent: it is the logarithm of (T4 - T2) / (T2 - T1), 1 for work
that is linear and 2 for a square. ``!`` marks an exponent above 1.3, 1 s for N, and what took longer than ``--limit``
and was broken off; ``?`` what failed. Without a model; texts are made, always the same ones.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.growing_lab import Lab, rewrite, words
from bench.growing_texts import FORMS, TEXTS, alone, rule, turn, write_claude_mem
from bench.growing_worlds import CHANGES, WORLDS, asked_of
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
from tests.growing_transcript import Transcript
from tests.hub.machines import Machine

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


def _ingest(form: Callable[[Transcript, int], object], lab: Lab, n: int) -> Work:
    transcript = lab.session()
    form(transcript, n)
    return partial(ingest_path, lab.store, transcript.path, settings=lab.settings, redact=redact)


def _reread(form: Callable[[Transcript, int], object], lab: Lab, n: int) -> Work:
    work = _ingest(form, lab, n)
    work()
    rewrite(lab.session().path, lambda rows: rows[len(rows) // 2 :])
    return work


def _extract(form: Callable[[Transcript, int], object], lab: Lab, n: int) -> Work:
    _ingest(form, lab, n)()
    return partial(extract_now, lab.runtime, "s1")


def _prompt(text: Callable[[int], str], lab: Lab, n: int) -> Work:
    read = _ingest(alone(text), lab, n)
    return lambda: (read(), extract_now(lab.runtime, "s1"), lab.hook("UserPromptSubmit", text(n)))


def _judge(text: str) -> object:
    """Ask everything of a text that is asked of it anywhere."""
    return (
        (redact(text), voice.typed_text(text), suspicion.why_suspect(text, is_typed=True)),
        (addressed.is_addressed(text), splitting.sentences(text), splitting.split(text)),
        (splitting.split_passages(text), splitting.plain(text), list(markdown.readable_lines(text))),
        (titles.title_from(text), titles.says_something(text), titles.labelled_parts(text)),
        (user_rules.rules(text), rule_endings.takings_back(text), user_rules.only_asks(text)),
        (text_words.names_of(text), text_words.topic_words(text), text_words.terms_of(text)),
        (shell.programs_of(text), shell.part_with_known_status(text), shell.normal_command(text)),
        shell.error_keys(shell.telling_lines(text)),
    )


for _name, (_n, _form) in FORMS.items():
    KINDS[f"ingest: {_name}"] = (_n, partial(_ingest, _form))
    KINDS[f"extract: {_name}"] = (_n, partial(_extract, _form))
    KINDS[f"read again, first half cut: {_name}"] = (_n, partial(_reread, _form))
for _name, _text in TEXTS.items():
    KINDS[f"judge: {_name}"] = (300, lambda lab, n, text=_text: partial(_judge, text(n)))  # type: ignore[misc]
    KINDS[f"prompt: {_name}"] = (200, partial(_prompt, _text))
KINDS["hook fails: a log"] = (400, lambda lab, n: partial(lab.hook, "PostToolUseFailure", TEXTS["a log"](n)))


# -- Consolidation, exchange and hubs over N memories; the watcher, and everything at once, over N sessions.

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


def _propose(shape: Callable[[int], str], lab: Lab, n: int) -> Work:
    lab.memories(n, shape, source=Source.MANUAL)
    return partial(lab.run, "propose")


def _imported(lab: Lab, n: int, form: str) -> Work:
    lab.memories(n)
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
    return partial(lab.run, "import", write_claude_mem(lab.folder / "claude-mem.db", n))


def _by_folder(lab: Lab, n: int, *, is_pull: bool) -> Work:
    lab.memories(n)
    first = Machine(lab.settings.places, lab.store)
    first.use_folder(lab.folder / "synced")
    if not is_pull:
        return first.sync
    first.sync()
    second = lab.closing.enter_context(Machine.open(lab.folder / "second"))
    second.use_folder(lab.folder / "synced", first.phrase)
    return second.sync


def _watch(lab: Lab, n: int, *, is_appending: bool = False) -> Work:
    lab.sessions(1 if is_appending else n, lambda t, k: (t.user(words(k)), t.says(words(k))))
    watcher = Watcher(lab.settings, lab.store)
    lab.closing.callback(watcher.close)

    def sweep() -> None:
        watcher.sweep()
        watcher.step()

    def append() -> None:
        for k in range(n):
            lab.session(f"{0:08x}-0000-4000-8000-000000000000").add(
                {"type": "user", "uuid": f"u{k}", "message": {"content": words(k)}}
            )
            sweep()

    if not is_appending:
        return sweep
    sweep()
    return append


def _folders(lab: Lab, n: int) -> Work:
    lab.sessions(n, lambda t, k: t.user(words(k)), projects=n).read()
    return partial(sort_projects, lab.store, lab.settings)


def _restored(lab: Lab, n: int) -> Work:
    lab.memories(n)
    make_backup(lab.store, lab.settings.places.backups)
    lab.close()
    return partial(lab.run, "restore", "--yes")


def _forks(lab: Lab, n: int) -> Work:
    """Write N sessions that begin with the same 40 entries."""

    def fork(transcript: Transcript, _: int) -> None:
        for k in range(40):
            uuid = f"{k:08x}-0000-4000-8000-00000000ffff"
            transcript.add({"type": "user", "uuid": uuid, "message": {"content": words(k)}})

    return lab.sessions(n, fork).read


for _name, _shape in SHAPES.items():
    KINDS[f"consolidate: {_name}"] = (150, partial(_consolidate, _shape))
    KINDS[f"consolidate again: {_name}"] = (150, partial(_consolidate, _shape, is_again=True))
    KINDS[f"propose lines: {_name}"] = (150, partial(_propose, _shape))
KINDS |= {
    "consolidate: saved rules": (
        150,
        partial(_consolidate, rule, kind=Kind.PREFERENCE, source=Source.MANUAL, scope=Scope.GLOBAL),
    ),
    "import": (150, partial(_imported, form="jsonl")),
    "import Markdown": (150, partial(_imported, form="markdown")),
    "import from claude-mem": (150, _claude_mem),
    "import a note of headings": (150, partial(_notes, is_import=True)),
    "index a note of headings": (150, partial(_notes, is_import=False)),
    "folder sync: push": (150, partial(_by_folder, is_pull=False)),
    "folder sync: pull": (150, partial(_by_folder, is_pull=True)),
    "restore": (150, _restored),
    "watch: files": (60, _watch),
    "watch: appends": (60, partial(_watch, is_appending=True)),
    "sort projects": (60, _folders),
    "forks of a session": (20, _forks),
    "up --once: sessions": (20, lambda lab, n: partial(lab.sessions(n, turn).run, "up", "--once")),
    "up --once: projects": (20, lambda lab, n: partial(lab.sessions(n, turn, projects=n).run, "up", "--once")),
}


# -- Measure.


def seconds_of(work: Callable[[], object], limit: float) -> float:
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
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        contextlib.closing(Lab(Path(folder))) as lab,
    ):
        yield lab


def measure(prepare: Prepare, n: int, rounds: int, limit: float) -> list[float]:
    """Return the smallest seconds with N, 2 N and 4 N; infinite at the end if preparing it or the work is too long."""
    found: list[float] = []
    for size in (n // 4, n, 2 * n, 4 * n):  # the first compiles what is compiled at its first use
        took = []
        for _ in range(rounds):
            with new_lab() as lab:
                made: list[Work] = []
                try:
                    seconds_of(lambda: made.append(prepare(lab, size)), limit)  # noqa: B023 - it is done here
                    took.append(seconds_of(made[0], limit))
                except TooLong:
                    return [*found[1:], math.inf]
        found.append(min(took))
    return found[1:]


def measure_world(fill: Callable[[Lab, int], object], n: int, limit: float, only: str) -> dict[str, list[float]]:
    """Return the same for everything that is asked of a memory; what isn't answered differently again, twice."""
    found: dict[str, list[float]] = {}
    for size in (n, 2 * n, 4 * n):
        with new_lab() as lab:
            try:
                seconds_of(lambda: fill(lab, size), 3 * limit)  # noqa: B023 - it is done here
            except TooLong:
                found["filling it"] = [math.inf]
                break
            for name, work in asked_of(lab):
                if only not in name or math.inf in found.setdefault(name, []):
                    continue
                rounds = 1 if name.startswith("hook") or name.removeprefix("engram ") in CHANGES.split("; ") else 2
                try:
                    found[name].append(min(seconds_of(work, limit) for _ in range(rounds)))
                except TooLong:
                    found[name].append(math.inf)
                except Exception as error:  # noqa: BLE001 - a question that fails doesn't end the others
                    print(f"? {name}: {error!r}", flush=True)
    return {name: took for name, took in found.items() if took}


def exponent_of(took: list[float]) -> float | None:
    """Return how work grows; None if it is too short to tell."""
    if len(took) < 3 or math.inf in took or took[2] - took[1] < MIN_SECONDS:
        return None
    return math.log2((took[2] - took[1]) / max(took[1] - took[0], MIN_SECONDS / 4))


def show(name: str, n: int, took: list[float]) -> dict[str, Any]:
    """Print a row of the table, and return it."""
    exponent = exponent_of(took)
    is_marked = (exponent or 0) > MARKED_EXPONENT or took[0] > MARKED_SECONDS or math.inf in took
    cells = "".join(" too long" if seconds == math.inf else f"{seconds:9.3f}" for seconds in took)
    print(
        f"{'!' if is_marked else ' '} {name:70}{n:6}{cells:27}{'' if exponent is None else f'{exponent:7.2f}'}",
        flush=True,
    )
    return {"name": name, "n": n, "seconds": took, "exponent": exponent, "marked": is_marked}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only kinds whose name contains this (default: all)")
    parser.add_argument("--world", help="only what is asked of this memory, or of all ('')")
    parser.add_argument("--size", type=int, default=25, help="N of what is asked of a memory (default 25)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each size (default 1)")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds after which work is broken off (default 10)")
    parser.add_argument("--json", type=Path, help="also write the table here")
    given = parser.parse_args()
    rows = []
    for name, (n, prepare) in KINDS.items() if given.world is None else ():
        if given.only in name:
            try:
                rows.append(show(name, n, measure(prepare, n, given.rounds, given.limit)))
            except Exception as error:  # noqa: BLE001 - a kind that fails doesn't end the others
                print(f"? {name}: {error!r}", flush=True)
    for world, fill in WORLDS.items():
        if given.world in ("", world) or (given.world is None and not given.only):
            asked = measure_world(fill, given.size, given.limit, given.only)
            rows += [show(f"{world}: {name}", given.size, took) for name, took in asked.items()]
    print(f"{sum(row['marked'] for row in rows)} of {len(rows)} kinds are marked")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
