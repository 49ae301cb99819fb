"""Small facts about the memory, by name."""

from __future__ import annotations

from peewee import TextField

from engram.models.tables.declaring import Table


class MetaValue(Table):
    """A fact about this memory.db: the version of its tables, the salt of this machine, how far the tidying has
    looked.
    """

    key = TextField(primary_key=True)
    value = TextField()

    class Meta:
        table_name = "meta"
        without_rowid = True
