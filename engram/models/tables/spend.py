"""Money spent on a language model."""

from __future__ import annotations

from peewee import FloatField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.models.tables.declaring import Table, one_of


class Spend(Table):
    """A reservation for a call to a language model, or what the call took."""

    id = AutoIncrementField()
    at_ms = IntegerField()
    task = TextField()
    model = TextField()
    #: No foreign key: what was spent stays when the project goes.
    project_id = IntegerField(null=True)
    state = TextField()
    input_tokens = IntegerField()
    output_tokens = IntegerField()
    dollars = FloatField()
    #: The ledger's own time, which no jump of the wall clock moves; the windows of the caps go by it.
    ledger_ms = IntegerField(default=0)

    class Meta:
        indexes = ((("at_ms",), False), (("ledger_ms",), False))
        constraints = (one_of("state", ("reserved", "spent")),)
