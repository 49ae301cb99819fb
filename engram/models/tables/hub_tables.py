"""Tables of the hubs that this machine has joined, their spaces, and the statements about each memory.

Columns without a comment are explained in the records in ``engram.models.hub``.
"""

from __future__ import annotations

from peewee import AutoField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from engram.hub.protocol.requests import ROLES
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.session_tables import Project


class HubServer(Table):
    """A hub that this machine has joined. Its token and keys are stored in a separate file."""

    id = AutoField()
    url = TextField(unique=True)
    member_id = IntegerField()
    member_name = TextField()
    device_id = IntegerField()
    last_push = BlobField(default=b"")
    in_flight = BlobField(default=b"")
    clock_error_ms = IntegerField(default=0)
    joined_at_ms = IntegerField()
    synced_at_ms = IntegerField(default=0)
    retry_at_ms = IntegerField(default=0)
    failures = IntegerField(default=0)
    last_error = TextField(default="")


class HubSpace(Table):
    """A space of a hub, shared by its members or machines, or an installed pack."""

    id = AutoField()
    #: NULL for a pack, which has no hub.
    server = reference(HubServer, "server_id", null=True, cascade=True)
    #: The hub's id; for a pack, an id derived from its key and name.
    ns_id = IntegerField()
    name = TextField()
    kind = TextField()
    role = TextField(default="reader")
    is_sealed = BooleanField(default=True)
    #: Everything up to this position in the hub's order has been stored.
    cursor = IntegerField(default=0)
    #: The last mark seen, by which a hub that was restored from an older copy is recognised.
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
    """The statement about a memory in a space, with a stamp for each field. A forgotten memory keeps only its ids."""

    space = reference(HubSpace, "space_id", cascade=True)
    #: The hub's id for the member who made the statement.
    author = IntegerField()
    #: Eight bytes, the same on every machine.
    memory_id = BlobField()
    #: Id of the local memory; for a share, that of the memory that was shared.
    episode_id = TextField()
    version = IntegerField(default=0)
    pushed = IntegerField(default=0)
    #: JSON object: field → [clock, device, value]. The text is stored only in the memory.
    said = TextField(default="{}")
    #: JSON object with the stated text if a consolidation rewrote the memory, else NULL; for a share, the shared text.
    own_text = TextField(null=True)
    is_forgotten = BooleanField(default=False)
    #: The memory that replaced it but has not arrived yet; for a share made by another machine, the shared memory.
    waits_for = BlobField(null=True)

    class Meta:
        primary_key = CompositeKey("space", "author", "memory_id")
        without_rowid = True
        indexes = ((("episode_id",), False),)


#: Statements that have not been pushed yet.
HubMemory.add_index(
    HubMemory.index(HubMemory.space, name="hub_memory_outgoing").where(HubMemory.version > HubMemory.pushed)
)
HubMemory.add_index(
    HubMemory.index(HubMemory.space, HubMemory.waits_for, name="hub_memory_waiting").where(
        HubMemory.waits_for.is_null(False)
    )
)


class HubSetAside(Table):
    """A row that could not be stored or was refused. It is set aside so as not to delay the others."""

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
    """A teammate: their name, and whether the user has muted them."""

    server = reference(HubServer, "server_id", cascade=True)
    member_id = IntegerField()
    name = TextField()
    is_muted = BooleanField(default=False)

    class Meta:
        primary_key = CompositeKey("server", "member_id")
        without_rowid = True


class HubRule(Table):
    """A rule that shares a project's new memories with a team, after a delay."""

    space = reference(HubSpace, "space_id", cascade=True)
    project = reference(Project, "project_id", cascade=True)
    delay_ms = IntegerField()
    made_at_ms = IntegerField()

    class Meta:
        primary_key = CompositeKey("space", "project")
        without_rowid = True
