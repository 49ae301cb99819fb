"""Branches of repositories, as far as git says whether they were merged."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, IntegerField, TextField

from engram.enums import BranchState
from engram.models.tables.declaring import Table, one_of, reference
from engram.models.tables.projects import Project


class Branch(Table):
    """A branch on which turns took place. The default branch counts as merged."""

    project = reference(Project, "project_id", cascade=True)
    name = TextField()
    state = TextField(default=BranchState.UNKNOWN.value)
    #: The last commit that git showed on it; "" for none.
    tip = TextField(default="")
    #: The last commit that a transcript reports on it, maybe abbreviated; "" for none.
    reported_commit = TextField(default="")
    #: True if it is known to have had a commit of its own.
    has_commits = BooleanField(default=False)
    #: What the state was found by: the name of the default branch, its commits, and how the branch stood. With the same
    #: again, git is not asked.
    compared_with = TextField(default="")
    #: When a turn last took place on it.
    last_turn_ms = IntegerField(default=0)
    #: When its state last changed.
    changed_at_ms = IntegerField(default=0)

    class Meta:
        primary_key = CompositeKey("project", "name")
        without_rowid = True
        constraints = (one_of("state", BranchState.values()),)
