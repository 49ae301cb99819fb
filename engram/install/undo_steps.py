"""Takes a run back after a failure, and a whole installation at uninstall."""

from __future__ import annotations

import contextlib
from pathlib import Path

from engram.failpoint import reach
from engram.install.actions import action_from_json
from engram.install.changes import Step
from engram.install.file_state import read_state
from engram.install.journal import FileRecord, Journal, Ledger, Phase, drop_journal
from engram.install.run import Run, collecting, undo_actions
from engram.install.take_back import drop_folders, take_back


def undo_run(run: Run) -> list[str]:
    """Take back what this run changed; returns what was impossible."""
    journal, problems = run.journal, list[str]()
    journal.phase = Phase.UNDOING
    with contextlib.suppress(OSError):
        run.save()
    for step in reversed(journal.ledger.steps):
        if step.is_begun:
            undo_actions(run, step.after, problems)
    for path, state in reversed(journal.before.items()):
        former = journal.previous.files.get(path)
        record = journal.ledger.files.get(path) or former
        if record is not None:
            with collecting(problems):
                take_back(run.home, record, state, ours=(former.written, former.original) if former else ())
                reach("install.undone")
    with collecting(problems):
        run.put_back()
    for step in reversed(journal.ledger.steps):
        if step.is_begun:
            undo_actions(run, step.before, problems)
    drop_folders(journal.ledger.folders[len(journal.previous.folders) :])
    for step in journal.previous.steps:
        # What the installation before had started runs again.
        for stored in [*step.before, *step.after]:
            with collecting(problems):
                action_from_json(stored).apply()
    if problems:
        return problems
    with collecting(problems):
        journal.ledger, journal.previous, journal.before = journal.previous, Ledger(), {}
        if journal.ledger.steps or journal.ledger.files:
            journal.phase = Phase.INSTALLED
            run.save()
        else:
            drop_journal(run.home)
    return problems


def undo_installation(run: Run, journal: Journal) -> None:
    """Take everything back; the journal goes last, and only if nothing is left."""
    run.journal = journal
    # Interrupted: what the installation before had is Engram's too.
    for path, record in journal.previous.files.items():
        journal.ledger.files.setdefault(path, record)
    known = {step.name for step in journal.ledger.steps}
    journal.ledger.steps += [step for step in journal.previous.steps if step.name not in known]
    journal.previous.steps = []
    journal.phase = Phase.UNINSTALLING
    run.save()
    reach("uninstall.begun")
    for step in reversed(journal.ledger.steps):
        run.tell(Step(step.name, step.summary))
        undo_actions(run, step.after, run.outcome.problems)
        reach("uninstall.stopped")
    for record in reversed(list(journal.ledger.files.values())):
        with collecting(run.outcome.problems):
            former = journal.previous.files.get(record.path)
            source = former if former is not None and _is_of(run, former) else record
            run.note(take_back(run.home, source, record.original))
            run.outcome.changed.append(record.path)
        reach("uninstall.restored")
    drop_folders(journal.ledger.folders)
    for step in reversed(journal.ledger.steps):
        undo_actions(run, step.before, run.outcome.problems)
    if not run.outcome.problems:
        drop_journal(run.home)


def _is_of(run: Run, record: FileRecord) -> bool:
    """The file is as the installation before wrote it."""
    return read_state(Path(record.real))[0].has_same_content(record.written)
