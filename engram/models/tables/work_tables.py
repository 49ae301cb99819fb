"""Tables of due work, task runs, leases, stages, pauses, spending and metadata."""

from __future__ import annotations

from peewee import FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.models.tables.declaring import Table, one_of


class Work(Table):
    """A piece of work that is or was due. There is one row for each kind and key."""

    id = AutoIncrementField()
    kind = TextField()
    key = TextField()
    state = TextField()
    due_at_ms = IntegerField()
    attempts = IntegerField(default=0)
    version = IntegerField(default=1)
    last_error = TextField(default="")
    reason = TextField(default="")
    updated_at_ms = IntegerField()

    class Meta:
        indexes = ((("kind", "key"), True), (("state", "due_at_ms"), False))
        constraints = (one_of("state", ("due", "done", "dead")),)


class TaskRun(Table):
    """A run of a task. Old rows are deleted."""

    id = AutoIncrementField()
    kind = TextField()
    key = TextField(default="")
    state = TextField()
    pid = IntegerField()
    started_at_ms = IntegerField()
    #: Measured with the monotonic clock; NULL while it is running.
    duration_ms = IntegerField(null=True)
    outcome = TextField(default="")
    error = TextField(default="")
    times = IntegerField(default=1)

    class Meta:
        indexes = ((("kind", "id"), False),)
        constraints = (one_of("state", ("running", "done", "failed", "interrupted")),)


class Lease(Table):
    """Who may do periodic work, until when, and when it was last done."""

    name = TextField(primary_key=True)
    owner = TextField()
    until_ms = IntegerField()
    last_run_ms = IntegerField()

    class Meta:
        without_rowid = True


class Stage(Table):
    """The health of a stage: how many items it saw and processed, and its last success and failure."""

    name = TextField(primary_key=True)
    seen = IntegerField(default=0)
    done = IntegerField(default=0)
    last_success_ms = IntegerField(null=True)
    last_error = TextField(default="")
    last_error_ms = IntegerField(null=True)

    class Meta:
        without_rowid = True


class Pause(Table):
    """The end of a pause. The scope is a project's identity, "" for everything, or "tasks" for all work."""

    scope = TextField(primary_key=True)
    until_ms = IntegerField()

    class Meta:
        without_rowid = True


# -- Spending on a language model.


class Spend(Table):
    """A reservation for a call to a language model, or its actual cost."""

    id = AutoIncrementField()
    at_ms = IntegerField()
    task = TextField()
    model = TextField()
    #: No foreign key, because spending outlives a deleted project.
    project_id = IntegerField(null=True)
    state = TextField()
    input_tokens = IntegerField()
    output_tokens = IntegerField()
    dollars = FloatField()
    #: Time by the ledger's own clock, to which the caps' periods refer; jumps of the wall clock don't affect it.
    ledger_ms = IntegerField(default=0)

    class Meta:
        indexes = ((("at_ms",), False), (("ledger_ms",), False))
        constraints = (one_of("state", ("reserved", "spent")),)


# -- Metadata of the memory, by name.


class MetaValue(Table):
    """A fact about this memory.db, such as this machine's salt or how far consolidation has got."""

    key = TextField(primary_key=True)
    value = TextField()

    class Meta:
        table_name = "meta"
        without_rowid = True
