"""Failing commands of turns, by what identifies their errors."""

from __future__ import annotations

from peewee import CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table, reference
from engram.models.tables.turns import Turn


class FailedCall(Table):
    """A telling line of a failing command's error. It holds no words of the error."""

    turn = reference(Turn, "turn_id", cascade=True)
    #: Place of the call among the turn's tool calls.
    seq = IntegerField()
    #: Hash of the line without what differs between two runs (``engram.text.failures``).
    error_key = IntegerField()
    #: The programs that the command runs, one on each line.
    programs = TextField()

    class Meta:
        primary_key = CompositeKey("turn", "seq", "error_key")
        without_rowid = True
        indexes = ((("error_key",), False),)
