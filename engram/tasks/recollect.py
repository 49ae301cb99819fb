"""Task ``recollect(session_id)``: choose bites for a new prompt that the socket did not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: Tool calls that tell what is at hand.
TOOL_CALLS = 3


@huey.task(name="recollect", priority=50)
def recollect(session_id: str) -> None:
    """Lay bites ready for the session's latest prompt, or for what is at hand; or stay silent."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    run_guarded(runtime, "recollect", session_id, lambda: recollect_now(runtime, session_id))


def recollect_now(runtime: Runtime, session_id: str) -> None:
    """Recollect, and finish the work unless a newer prompt made it due meanwhile."""
    from engram.models.stages import note_success
    from engram.models.work import find_work, finish

    work = find_work(runtime.store, "recollect", session_id)
    if not runtime.recollection.recollect(session_id):
        _look_at_tool(runtime, session_id)
    with runtime.store.transaction() as tx:
        if work is not None:
            finish(tx, work)
        note_success(runtime.store, "recollect", seen=1, done=1)


def _look_at_tool(runtime: Runtime, session_id: str) -> None:
    """Lay memories ready about the file or command that the session has just touched."""
    from engram.models.recent import latest_turn

    turn = latest_turn(runtime.store, session_id)
    if turn is None or not turn.turn.actions:
        return
    latest = turn.turn.actions[-TOOL_CALLS:]
    files = [name for action in latest for name in action.files]
    command = next((action.command for action in reversed(latest) if action.command), "")
    error = next((action.error_line for action in reversed(latest) if action.error_line), "")
    if files or command:
        runtime.recollection.about_tool(session_id, files, command, error)
