"""Tables of projects, folders joined to them, and their former names."""

from __future__ import annotations

from peewee import AutoField, IntegerField, TextField

from engram.models.tables.declaring import Table, View, reference


class Project(Table):
    """A project: a folder in which sessions took place."""

    id = AutoField()
    stable_id = TextField(unique=True)
    #: Path of its folder, or of its main checkout.
    identity = TextField(unique=True)
    #: For display.
    name = TextField(unique=True)
    root = TextField(default="")
    origin = TextField(default="")
    revision = IntegerField(default=1)
    updated_at_ms = IntegerField()
    #: Facts about its repository, by which a moved folder is recognised.
    remote = TextField(default="")
    first_commit = TextField(default="")
    hints_at_ms = IntegerField(default=0)


class ProjectFolder(Table):
    identity = TextField(primary_key=True)
    #: No foreign key, since two projects may be merged in either order.
    project_id = IntegerField()
    root = TextField()
    reason = TextField()
    added_at_ms = IntegerField()

    class Meta:
        without_rowid = True


class FormerName(Table):
    """A former name of a project, by the identity of its folder; never given to another project."""

    name = TextField(primary_key=True)
    identity = TextField()

    class Meta:
        without_rowid = True


class ProjectNamed(View):
    """Every name that a project has or had."""

    name = TextField()
    project = reference(Project, "project_id", null=True)

    definition = """CREATE VIEW project_named AS SELECT name, id AS project_id FROM project
        UNION ALL SELECT f.name, coalesce((SELECT p.id FROM project p WHERE p.identity = f.identity),
            (SELECT l.project_id FROM project_folder l WHERE l.identity = f.identity)) FROM former_name f
        WHERE NOT EXISTS (SELECT 1 FROM project p WHERE p.name = f.name)"""
