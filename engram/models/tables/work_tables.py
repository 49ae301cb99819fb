"""Tables of the work that is due, runs of tasks, leases, pauses, money, and small facts."""

from __future__ import annotations

from peewee import FloatField, IntegerField, TextField
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
    """One run of a task: when it began and ended, and its outcome. Old rows are deleted."""

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
    #: How many runs the row counts for: runs in a row that found nothing to do share one.
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
    """The health of a stage of the work: how much it saw and did, and its last success and failure."""

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


# -- Money spent on a language model.


class Spend(Table):
    """A reservation for a call to a language model, or what the call took."""

    id = AutoIncrementField()
    at_ms = IntegerField()
    task = TextField()
    model = TextField()
    #: No foreign key: what was spent stays when the project is deleted.
    project_id = IntegerField(null=True)
    state = TextField()
    input_tokens = IntegerField()
    output_tokens = IntegerField()
    dollars = FloatField()
    #: The ledger's own time, which no jump of the wall clock moves; the windows of the caps use it.
    ledger_ms = IntegerField(default=0)

    class Meta:
        indexes = ((("at_ms",), False), (("ledger_ms",), False))
        constraints = (one_of("state", ("reserved", "spent")),)


# -- Small facts about the memory, by name.


class MetaValue(Table):
    """A fact about this memory.db: the version of its tables, the salt of this machine, how far the tidying has
    looked.
    """

    key = TextField(primary_key=True)
    value = TextField()

    class Meta:
        table_name = "meta"
        without_rowid = True
