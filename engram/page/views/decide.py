"""Decisions for the user: contradictions, memories that the user's files contradict, and suspects."""

from __future__ import annotations

from engram.consolidation.undo import undo_last_change
from engram.enums import Actor, Judgement
from engram.errors import BadRequest
from engram.memories.correct import judge_memory, keep_both, keep_one
from engram.memories.save import trust_memory
from engram.models.memories.judgements import open_contradictions
from engram.page.view import Answer, Notice, PageRequest, Route, View, number_in
from engram.redaction import redact
from engram.reports.open_contradictions import compare_some, list_contradictions

#: Number of memories that one request compares with the files, about as many as can be read in 50 ms.
COMPARED_AT_ONCE = 10_000
#: Maximum number of listed memories that contradict files.
MAX_SHOWN = 20


def show_files(request: PageRequest) -> Answer:
    """Show the memories that the user's files contradict, or only how many there are.

    All memories are compared, ``COMPARED_AT_ONCE`` per request.
    """
    before, count = request.number("found"), request.query.get("count", "")
    found, then = compare_some(request.store, request.number("after"), COMPARED_AT_ONCE)
    values = {
        "of_files": found[: max(0, MAX_SHOWN - before)],
        "number": before + len(found),
        "then": then,
        "is_first": not before,
        # "alone" if nothing else needs the user's attention.
        "count": count,
    }
    return Answer("decide.html", values, block="counted" if count else "files")


def decide(request: PageRequest) -> Answer:
    choice, number = request.form.get("keep", ""), number_in(request.path["number"])
    found = [] if number is None else open_contradictions(request.store, number=number)
    if number is None or not found:
        raise BadRequest("this has already been decided; the list shows what is left")
    sides = (found[0].older_id, found[0].newer_id)
    if choice == "both":
        keep_both(request.store, str(number), actor=Actor.USER)
        return show(
            request, Notice("Both memories are kept, and you won't be asked again.", ("decide", "undo", sides[0]))
        )
    if choice not in sides:
        raise BadRequest("choose one of the two memories, or both")
    gone = sides[0] if choice == sides[1] else sides[1]
    keep_one(request.store, choice, actor=Actor.USER)
    return show(request, Notice(f"“{choice}” is kept, and replaces “{gone}”.", ("decide", "undo", gone)))


def trust(request: PageRequest) -> Answer:
    episode_id = request.path["episode_id"]
    trust_memory(request.store, episode_id, actor=Actor.USER)
    return show(request, Notice("Claude may now be shown this memory.", ("decide", "undo", episode_id)))


def judge_wrong(request: PageRequest) -> Answer:
    episode_id = request.path["episode_id"]
    judge_memory(request.store, episode_id, Judgement.WRONG, "decided on the page", redact, actor=Actor.USER)
    return show(request, Notice("Claude won't be shown this memory again.", ("decide", "undo", episode_id)))


def undo(request: PageRequest) -> Answer:
    episode_id = request.path["episode_id"]
    plan = undo_last_change(request.store, request.settings, episode_id, actor=Actor.USER)
    text = "Decided again." if plan.is_redo else "Undone: it awaits your decision again."
    return show(request, Notice(text, ("decide", "undo", episode_id)))


def show(request: PageRequest, notice: Notice | None = None) -> Answer:
    found = list_contradictions(request.store, with_files=False)
    return request.answer("decide.html", {"found": found}, notice)


VIEW = View(
    name="decide",
    title="To decide",
    key="d",
    path="decide",
    routes=(
        Route("/decide", show),
        Route("/decide/files", show_files, is_part=True),
        Route("/decide/undo/{episode_id}", undo, method="POST"),
        Route("/decide/trust/{episode_id}", trust, method="POST"),
        Route("/decide/wrong/{episode_id}", judge_wrong, method="POST"),
        Route("/decide/{number}", decide, method="POST"),
    ),
)
