"""Tasks ``recollect(session_id)`` and ``refresh(session_id)``: choose bites for a prompt that the socket didn't
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: Latest tool calls of a turn whose files and command are looked at.
TOOL_CALLS = 3


@huey.task(name="recollect", priority=50)
def recollect(session_id: str) -> None:
    """Store bites for the session's latest prompt, or for the files and commands of its latest tool calls, if any
    fit.
    """
    from engram.tasks.boundary import run_guarded
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    run_guarded(runtime, "recollect", session_id, lambda: recollect_now(runtime, session_id))


@huey.task(name="refresh", priority=40)
def refresh(session_id: str) -> None:
    """Choose the session's pending or latest bites again, after an extraction changed memories."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    run_guarded(runtime, "refresh", session_id, lambda: runtime.recollection.refresh(session_id))


def recollect_now(runtime: Runtime, session_id: str) -> None:
    """Choose bites, and finish the work unless a newer prompt made it due meanwhile."""
    from engram.models.stages import note_success
    from engram.models.work import find_work, finish

    work = find_work(runtime.store, "recollect", session_id)
    if not runtime.recollection.recollect(session_id):
        _recollect_for_tools(runtime, session_id)
    with runtime.store.transaction() as tx:
        if work is not None:
            finish(tx, work)
        note_success(runtime.store, "recollect", seen=1, done=1)


def _recollect_for_tools(runtime: Runtime, session_id: str) -> None:
    """Choose memories about the files or the command that the session's latest tool calls used."""
    from engram.models.recent import latest_turn

    recent = latest_turn(runtime.store, session_id)
    if recent is None or not recent.turn.actions:
        return
    actions = recent.turn.actions[-TOOL_CALLS:]
    files = [name for action in actions for name in action.files]
    command = next((action.command for action in reversed(actions) if action.command), "")
    error = next((action.error_line for action in reversed(actions) if action.error_line), "")
    if files or command:
        runtime.recollection.about_tool(session_id, files, command, error)
