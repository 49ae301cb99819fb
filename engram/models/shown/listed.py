"""Conditions that decide which sessions and projects are counted and listed, the same for all lists and figures."""

from __future__ import annotations

from peewee import ColumnBase, fn

from engram.models import tables


def has_turns() -> ColumnBase:
    """Return the condition that a session has turns. Lists and counts leave out other sessions.

    Sessions without turns were forgotten, had no prompt, or came only with an imported memory.
    """
    turn: ColumnBase = fn.EXISTS(tables.Turn.select(tables.Turn.id).where(tables.Turn.session == tables.Session.id))
    return turn


def was_in_project(project_id: int | ColumnBase) -> ColumnBase:
    """Return the condition that a session began in a project or worked in it."""
    session, turn = tables.Session, tables.Turn
    visits = turn.select(turn.session).where(turn.project == project_id)
    was_in: ColumnBase = (session.project == project_id) | session.id.in_(visits)
    return was_in


def has_sessions() -> ColumnBase:
    """Return the condition that a project has sessions with turns."""
    session = tables.Session
    condition: ColumnBase = fn.EXISTS(session.select(session.id).where(has_turns(), was_in_project(tables.Project.id)))
    return condition


def holds_anything() -> ColumnBase:
    """Return the condition that a project contains a turn or a memory. Lists leave out other projects.

    Projects that contain nothing were forgotten, or are folders in which a session only began.
    """
    held = (table.select(table.id).where(table.project == tables.Project.id) for table in (tables.Turn, tables.Memory))
    turns, memories = map(fn.EXISTS, held)
    condition: ColumnBase = turns | memories
    return condition
