"""Runs: consolidations, and what one extraction, save, decision or purge changed in older memories."""

from __future__ import annotations

from peewee import IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.models.tables.declaring import Table, one_of


class Run(Table):
    """A run, so that what it changed can be shown and undone, and a consolidation resumed."""

    id = AutoIncrementField()
    kind = TextField()
    started_at_ms = IntegerField()
    ended_at_ms = IntegerField(null=True)
    state = TextField()
    #: Name of the step that comes next; "" at the start.
    position = TextField(default="")
    #: JSON.
    report = TextField(default="{}")

    class Meta:
        constraints = (one_of("state", ("running", "done", "undone")),)
