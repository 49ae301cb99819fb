"""What a person changes of a memory: each change stands in its history, and all but forget can be undone here."""

from __future__ import annotations

from engram.consolidation.undo import plan_undo, undo_last_change
from engram.enums import Actor, Importance, Judgement, Scope
from engram.errors import BadRequest
from engram.memories.correct import supersede_memory
from engram.memories.feedback import judge_memory, take_back_judgement
from engram.memories.forget import forget_episode
from engram.memories.forget_files import withdraw_bites
from engram.memories.forget_preview import preview_forget
from engram.memories.save import edit_memory, pin_memory, require_episode
from engram.models.episodes import Episode
from engram.page.view import Answer, Notice, PageRequest, Redirect, Route
from engram.redaction import redact

#: Why a memory is wrong, where a person gives no reason.
NO_REASON = "by hand, on the page"
#: Time between the decision to forget and the deed, in seconds.
FORGET_SECONDS = 6


def ask_edit(request: PageRequest) -> Answer:
    """Show the form that edits a memory."""
    return _detail(request, _episode(request), form="edit")


def edit(request: PageRequest) -> Answer:
    """Change text, importance or scope; only what differs is changed."""
    episode, form = _episode(request), request.form
    summary, content = form.get("summary", "").strip(), form.get("content", "").replace("\r\n", "\n").strip()
    importance, scope = Importance.parse(form.get("importance", "")), Scope.parse(form.get("scope", ""))
    changes = {
        "summary": summary if summary != episode.summary else None,
        "content": content if content != episode.content.strip() else None,
        "importance": importance if importance is not episode.importance else None,
        "scope": scope if scope is not episode.scope else None,
    }
    if all(value is None for value in changes.values()):
        return _detail(request, episode, notice=Notice("Nothing was changed."))
    changed = edit_memory(
        request.store,
        episode.episode_id,
        redact,
        actor=Actor.USER,
        summary=summary if changes["summary"] is not None else None,
        content=content if changes["content"] is not None else None,
        importance=importance if changes["importance"] is not None else None,
        scope=scope if changes["scope"] is not None else None,
    )
    withdraw_bites(request.settings.places, episode.episode_id)
    return _changed(request, changed, "Edited.")


def pin(request: PageRequest) -> Answer:
    """Pin a memory, or unpin it."""
    episode = _episode(request)
    changed = pin_memory(request.store, episode.episode_id, actor=Actor.USER, is_pinned=not episode.is_pinned)
    return _changed(request, changed, "Pinned: every briefing begins with it." if changed.is_pinned else "Unpinned.")


def judge_wrong(request: PageRequest) -> Answer:
    """Judge a memory wrong, or take that back."""
    episode = _episode(request)
    if episode.is_lowered:
        changed, _ = take_back_judgement(request.store, episode.episode_id, actor=Actor.USER)
        return _changed(request, changed, "It may be shown again.")
    why = request.form.get("why", "").strip() or NO_REASON
    changed = judge_memory(request.store, episode.episode_id, Judgement.WRONG, why, redact, actor=Actor.USER)
    return _changed(request, changed, "Wrong: Claude is never shown it again.")


def ask_successor(request: PageRequest) -> Answer:
    """Show the form that names what replaces a memory."""
    return _detail(request, _episode(request), form="supersede")


def supersede(request: PageRequest) -> Answer:
    """Let another memory replace this one."""
    successor = request.form.get("successor", "").strip()
    changed = supersede_memory(request.store, _episode(request).episode_id, successor, actor=Actor.USER)
    return _changed(request, changed, f"Replaced by {successor}.")


def undo(request: PageRequest) -> Answer:
    """Take back the last change of a memory, if it is still the one that the person saw."""
    episode, step = _episode(request), request.path["step"]
    if not step.isdecimal():
        raise BadRequest("say which change to undo")
    plan = undo_last_change(request.store, request.settings, episode.episode_id, actor=Actor.USER, step=int(step))
    done = "The undo was undone" if plan.is_redo else f"Undone: {plan.change.action}"
    return _changed(request, _episode(request), f"{done}.")


def ask_forget(request: PageRequest) -> Answer:
    """Show exactly what forgetting would delete, and ask."""
    episode = _episode(request)
    also_source = request.query.get("source") == "yes"
    preview = preview_forget(request.store, request.settings.places, episode.episode_id, also_source=also_source)
    return _detail(request, episode, form="forget", preview=preview, also_source=also_source)


def wait_forget(request: PageRequest) -> Answer:
    """Wait a moment before it is forgotten, with a way out."""
    also_source = request.form.get("source") == "yes"
    values = {"episode": _episode(request), "also_source": also_source, "seconds": FORGET_SECONDS}
    return Answer("forgetting.html", values)


def forget(request: PageRequest) -> Answer | Redirect:
    """Forget a memory for good."""
    report = forget_episode(
        request.store,
        request.settings.places,
        _episode(request).episode_id,
        also_source=request.form.get("source") == "yes",
        actor=Actor.USER,
    )
    return Answer("forgotten_now.html", {"report": report}, is_change=True)


def _episode(request: PageRequest) -> Episode:
    return require_episode(request.store, request.path["episode_id"])


def _changed(request: PageRequest, episode: Episode, sentence: str) -> Answer:
    """Answer a change with the memory as it is now, and with the way to undo it."""
    step = plan_undo(request.store, episode).change.id
    notice = Notice(sentence, undo=("m", episode.episode_id, "undo", str(step)), target=request.target)
    if request.target == "detail":
        return _detail(request, episode, notice=notice, is_change=True)
    return Answer("memory.html", {"episode": episode}, block="actions", notice=notice, is_change=True)


def _detail(
    request: PageRequest, episode: Episode, *, notice: Notice | None = None, is_change: bool = False, **values: object
) -> Answer:
    from engram.page.views.memory import memory_values  # it lists these routes

    shown = memory_values(request, episode) | values
    return Answer("memory.html", shown, block="detail", notice=notice, is_change=is_change)


ROUTES = (
    Route("/m/{episode_id}/edit", ask_edit),
    Route("/m/{episode_id}/edit", edit, method="POST"),
    Route("/m/{episode_id}/pin", pin, method="POST"),
    Route("/m/{episode_id}/wrong", judge_wrong, method="POST"),
    Route("/m/{episode_id}/supersede", ask_successor),
    Route("/m/{episode_id}/supersede", supersede, method="POST"),
    Route("/m/{episode_id}/undo/{step}", undo, method="POST"),
    Route("/m/{episode_id}/forget", ask_forget),
    Route("/m/{episode_id}/forget/wait", wait_forget, method="POST"),
    Route("/m/{episode_id}/forget", forget, method="POST"),
)
