"""Vectors of episodes (e), note chunks (n) and passages (p): float16, by the model that made them."""

from __future__ import annotations

from peewee import AutoField, BlobField, IntegerField, TextField
from playhouse.sqlite_ext import AutoIncrementField

from engram.models.tables.declaring import Table, one_of, reference


class VectorModel(Table):
    """The name of an embedding model."""

    id = AutoField()
    name = TextField(unique=True)


class Vector(Table):
    """One vector. ``seq`` rises with every vector written, so that an index in memory reads only what is new."""

    seq = AutoIncrementField()
    #: e, n or p: which table ``owner_id`` is a row id of.
    owner = TextField()
    owner_id = IntegerField()
    piece = IntegerField(default=0)
    model = reference(VectorModel, "model_id")
    data = BlobField()

    class Meta:
        indexes = ((("owner", "owner_id", "piece"), True),)
        constraints = (one_of("owner", ("e", "n", "p")),)


#: Vectors of long texts beyond their first: how many owners have one is counted with it.
Vector.add_index(Vector.index(Vector.piece, name="vector_further").where(Vector.piece > 0))
