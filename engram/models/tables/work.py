"""The work that is due, the runs of tasks, leases, the health of each stage, and pauses."""

from __future__ import annotations

from peewee import IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.models.tables.declaring import Table, one_of


class Work(Table):
    """A piece of work that is or was due: one row for each kind and key."""

    id = AutoIncrementField()
    kind = TextField()
    key = TextField()
    state = TextField()
    due_at_ms = IntegerField()
    attempts = IntegerField(default=0)
    #: Raised by every change that makes it due.
    version = IntegerField(default=1)
    last_error = TextField(default="")
    reason = TextField(default="")
    updated_at_ms = IntegerField()

    class Meta:
        indexes = ((("kind", "key"), True), (("state", "due_at_ms"), False))
        constraints = (one_of("state", ("due", "done", "dead")),)


class TaskRun(Table):
    """One run of a task: when it began and ended, and what came of it. Old rows are deleted."""

    id = AutoIncrementField()
    kind = TextField()
    #: What it is about, such as a session id; "" for kinds without one.
    key = TextField(default="")
    state = TextField()
    #: Process that runs or ran it.
    pid = IntegerField()
    started_at_ms = IntegerField()
    #: By the monotonic clock; None until it has ended.
    duration_ms = IntegerField(null=True)
    #: One line: what it did.
    outcome = TextField(default="")
    #: The traceback of a failure, redacted.
    error = TextField(default="")
    #: How many runs the row stands for: runs in a row that found nothing to do share one.
    times = IntegerField(default=1)

    class Meta:
        indexes = ((("kind", "id"), False),)
        constraints = (one_of("state", ("running", "done", "failed", "interrupted")),)


class Lease(Table):
    """Who may do a periodic piece of work until when, and when it was last done."""

    name = TextField(primary_key=True)
    owner = TextField()
    until_ms = IntegerField()
    last_run_ms = IntegerField()

    class Meta:
        without_rowid = True


class Stage(Table):
    """How a stage of the work fares: how much it saw and did, and its last success and failure."""

    name = TextField(primary_key=True)
    seen = IntegerField(default=0)
    done = IntegerField(default=0)
    last_success_ms = IntegerField(null=True)
    last_error = TextField(default="")
    last_error_ms = IntegerField(null=True)

    class Meta:
        without_rowid = True


class Pause(Table):
    """Until when a scope is paused: a project's identity, "" for everything, or the work itself."""

    scope = TextField(primary_key=True)
    until_ms = IntegerField()

    class Meta:
        without_rowid = True
