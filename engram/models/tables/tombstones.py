"""Tombstones: what was forgotten or purged. They hold ids and hashes, never text."""

from __future__ import annotations

from peewee import BlobField, CompositeKey, IntegerField, TextField

from engram.models.tables.declaring import Table


class Tombstone(Table):
    """Something that was forgotten, so that nothing brings it back (``engram.models.tombstones.TombstoneKind``)."""

    kind = TextField()
    key = BlobField()
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("kind", "key")
        without_rowid = True
