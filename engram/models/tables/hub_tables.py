"""What this machine shares with others: the hubs it joined, their spaces, and what was said about each memory.

Columns that are not explained here are explained at the fields of their records, in ``engram.models.hub``.
"""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.hub.protocol.requests import ROLES
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.project_tables import Project


class HubServer(Table):
    """A hub that this machine joined. Its token and keys are stored in a file of their own, not here."""

    id = AutoField()
    url = TextField(unique=True)
    #: The hub's ids of the person and of this machine.
    member_id = IntegerField()
    member_name = TextField()
    device_id = IntegerField()
    #: The last push that the hub has, and the pushes that were sent, answered or not, sixteen bytes each.
    last_push = BlobField(default=b"")
    in_flight = BlobField(default=b"")
    clock_error_ms = IntegerField(default=0)
    joined_at_ms = IntegerField()
    synced_at_ms = IntegerField(default=0)
    #: When it is next tried after a failure; the number of failures in a row, and the last one.
    retry_at_ms = IntegerField(default=0)
    failures = IntegerField(default=0)
    last_error = TextField(default="")


class HubSpace(Table):
    """A space of a hub, or an installed pack: what its members or machines have in common."""

    id = AutoField()
    #: NULL for a pack, which has no hub.
    server = reference(HubServer, "server_id", null=True, cascade=True)
    #: The hub's id; for a pack, an id made of its key and name.
    ns_id = IntegerField()
    name = TextField()
    kind = TextField()
    role = TextField(default="reader")
    is_sealed = BooleanField(default=True)
    #: Everything up to this place in the hub's order has been stored here.
    cursor = IntegerField(default=0)
    #: The last mark that was seen, which reveals a hub that was put back to an older copy.
    mark_seq = IntegerField(default=0)
    mark = BlobField(default=b"")
    clock = IntegerField(default=0)
    published = IntegerField(default=0)
    is_muted = BooleanField(default=False)
    last_error = TextField(default="")
    reports = IntegerField(default=0)

    class Meta:
        indexes = ((("server", "ns_id"), True),)
        constraints = (one_of("kind", ("private", "team", "pack")), one_of("role", ROLES))


class HubMemory(Table):
    """What was said about a memory in a space: a stamp for each field. A forgotten one keeps only its ids."""

    space = reference(HubSpace, "space_id", cascade=True)
    #: The hub's id of the member who said it.
    author = IntegerField()
    #: Eight bytes, the same on every machine.
    memory_id = BlobField()
    #: The memory here; for a share, the memory that was shared.
    episode_id = TextField()
    version = IntegerField(default=0)
    pushed = IntegerField(default=0)
    #: JSON object: field → [clock, device, value]. The value of a text is in the memory itself.
    said = TextField(default="{}")
    #: JSON object of the text as it was said, if tidying rewrote the memory; else NULL. For a share,
    #: the text that was shared.
    own_text = TextField(null=True)
    is_forgotten = BooleanField(default=False)
    #: The memory that replaced it and is not here yet; for a share made by another machine, the memory that was shared.
    waits_for = BlobField(null=True)

    class Meta:
        primary_key = CompositeKey("space", "author", "memory_id")
        without_rowid = True
        indexes = ((("episode_id",), False),)


#: What waits to be pushed: the dirty set.
HubMemory.add_index(
    HubMemory.index(HubMemory.space, name="hub_memory_outgoing").where(HubMemory.version > HubMemory.pushed)
)
HubMemory.add_index(
    HubMemory.index(HubMemory.space, HubMemory.waits_for, name="hub_memory_waiting").where(
        HubMemory.waits_for.is_null(False)
    )
)


class HubSetAside(Table):
    """A row that could not be stored here or was refused; it does not hold up the others."""

    space = reference(HubSpace, "space_id", cascade=True)
    direction = TextField()
    author = IntegerField()
    memory_id = BlobField()
    seq = IntegerField(default=0)
    reason = TextField()
    at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("space", "direction", "author", "memory_id")
        without_rowid = True
        constraints = (one_of("direction", ("pull", "push")),)


class HubMember(Table):
    """Another member of a hub, as far as teams name them: their name, and whether this person wants to hear them."""

    server = reference(HubServer, "server_id", cascade=True)
    member_id = IntegerField()
    name = TextField()
    is_muted = BooleanField(default=False)

    class Meta:
        primary_key = CompositeKey("server", "member_id")
        without_rowid = True


class HubRule(Table):
    """New memories of a project are shared in a space automatically, some time after they were said."""

    space = reference(HubSpace, "space_id", cascade=True)
    project = reference(Project, "project_id", cascade=True)
    delay_ms = IntegerField()
    made_at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("space", "project")
        without_rowid = True
