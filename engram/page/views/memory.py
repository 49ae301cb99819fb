"""One memory: its text, source, outcomes and history, and the actions on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.consolidation.undo import UndoPlan, plan_undo, undo_last_change
from engram.enums import Actor, Importance, Judgement, Scope, Voice
from engram.errors import BadRequest
from engram.forgetting.forget import forget_memory
from engram.forgetting.forget_plan import preview_forget
from engram.memories.correct import judge_memory, supersede_memory, take_back_judgement
from engram.memories.save import edit_memory, edit_stamp, pin_memory, require_memory
from engram.models.engine.transaction import Store
from engram.models.memories.branches import branch_remark
from engram.models.memories.memory_history import Change
from engram.models.memories.memory_records import MAX_CONTENT_CHARACTERS, Memory, find_memory
from engram.models.sessions.passage_rows import is_quotation_id, require_quotation
from engram.models.sessions.prompt_outcomes import Outcome
from engram.models.sessions.recent_work import prompt_near
from engram.page.rendering import feature_bars, spell_hidden, title_and_rest
from engram.page.view import Answer, Notice, PageRequest, Redirect, Route, View, assistants_of, name_memories, number_in
from engram.recollection.why import why_memory
from engram.redaction import redact
from engram.reports.hub_report import where_shared
from engram.reports.memory_report import changed_in, done_of, reason_of, report_memory, source_turns, who_changed
from engram.reports.session_report import CANDIDATE_REASONS

# -- The user's changes. Each is recorded in the history, and all except forgetting can be undone here.

#: Reason for judging a memory wrong if the user gives none.
NO_REASON = "by hand, on the page"
#: Time between the decision to forget a memory and its deletion, in seconds.
FORGET_SECONDS = 6


def ask_edit(request: PageRequest) -> Answer:
    memory = _memory(request)
    return _detail(request, memory, form="edit", seen=edit_stamp(memory))


def edit(request: PageRequest) -> Answer:
    """Change the fields that differ: text, importance or scope.

    The form has every field as it was when the form was opened. If the memory has changed since, nothing is saved: the
    fields that the user left alone would take that change back.
    """
    memory, form = _memory(request), request.form
    # The form shows hidden characters spelled out; a text that nobody touched keeps them.
    shown_summary, shown_content = spell_hidden(memory.summary).strip(), spell_hidden(memory.content).strip()
    summary, content = form.get("summary", "").strip(), form.get("content", "").replace("\r\n", "\n").strip()
    importance, scope = Importance.parse(form.get("importance", "")), Scope.parse(form.get("scope", ""))
    changes: dict[str, Any] = {
        "summary": summary if summary != shown_summary else None,
        "content": content if content != shown_content else None,
        "importance": importance if importance is not memory.importance else None,
        "scope": scope if scope is not memory.scope else None,
    }
    if all(value is None for value in changes.values()):
        return _detail(request, memory, notice=Notice("Nothing was changed."))
    changed = edit_memory(
        request.store, memory.episode_id, redact, actor=Actor.USER, seen=form.get("seen", ""), **changes
    )
    return _changed(request, changed, "Edited.")


def pin(request: PageRequest) -> Answer:
    memory, is_wanted = _memory(request), _is_wanted(request)
    if memory.is_pinned == is_wanted:
        return _changed(request, memory, "It is pinned." if is_wanted else "It is not pinned.", is_new=False)
    changed = pin_memory(request.store, memory.episode_id, actor=Actor.USER, is_pinned=is_wanted)
    return _changed(request, changed, "Pinned: every briefing begins with it." if is_wanted else "Unpinned.")


def judge_wrong(request: PageRequest) -> Answer:
    """Judge a memory wrong, or withdraw that judgement."""
    memory, is_wanted = _memory(request), _is_wanted(request)
    if memory.is_lowered == is_wanted:
        return _changed(request, memory, "It is marked wrong." if is_wanted else "It isn't marked wrong.", is_new=False)
    if memory.is_lowered:
        changed, _ = take_back_judgement(request.store, memory.episode_id, actor=Actor.USER)
        return _changed(request, changed, "It may be shown again.")
    why = request.form.get("why", "").strip() or NO_REASON
    changed = judge_memory(request.store, memory.episode_id, Judgement.WRONG, why, redact, actor=Actor.USER)
    return _changed(request, changed, "Wrong: Claude won't be shown it again.")


def ask_successor(request: PageRequest) -> Answer:
    """Show the form that asks which memory replaces this one."""
    return _detail(request, _memory(request), form="supersede")


def supersede(request: PageRequest) -> Answer:
    successor = request.form.get("successor", "").strip()
    changed = supersede_memory(request.store, _memory(request).episode_id, successor, actor=Actor.USER)
    return _changed(request, changed, f"Replaced by “{successor}”.")


def undo(request: PageRequest) -> Answer:
    """Undo the last change to a memory, provided that it is the change that the user saw."""
    memory, step = _memory(request), number_in(request.path["step"])
    if step is None:
        raise BadRequest("say which change to undo")
    plan = undo_last_change(request.store, request.settings, memory.episode_id, actor=Actor.USER, step=step)
    done = "The undo was undone" if plan.is_redo else f"Undone: {done_of(plan.change)}"
    return _changed(request, _memory(request), f"{done}.")


def ask_forget(request: PageRequest) -> Answer:
    """Show exactly what forgetting would delete, and ask for confirmation."""
    memory = _memory(request)
    also_source = request.query.get("source") == "yes"
    preview = preview_forget(request.store, request.settings.places, memory.episode_id, also_source=also_source)
    return _detail(request, memory, form="forget", preview=preview, also_source=also_source)


def wait_forget(request: PageRequest) -> Answer:
    """Show a countdown that can be cancelled before the memory is forgotten."""
    also_source = request.form.get("source") == "yes"
    values = {"memory": _memory(request), "also_source": also_source, "seconds": FORGET_SECONDS}
    return Answer("parts/forgetting.html", values, block="waiting")


def forget(request: PageRequest) -> Answer | Redirect:
    report = forget_memory(
        request.store,
        request.settings.places,
        _memory(request).episode_id,
        also_source=request.form.get("source") == "yes",
        actor=Actor.USER,
    )
    account, *remarks = report.told()
    values = {"account": account, "remarks": name_memories(request.store, remarks)}
    return Answer("parts/forgetting.html", values, block="gone", is_change=True)


def _is_wanted(request: PageRequest) -> bool:
    """Return what the button asked for. It doesn't switch: another tab may have done the same before."""
    return request.query.get("on") != "no"


def _memory(request: PageRequest) -> Memory:
    return require_memory(request.store, request.path["episode_id"])


def _changed(request: PageRequest, memory: Memory, sentence: str, *, is_new: bool = True) -> Answer:
    """Return the view of a memory after a change, with a notice that offers to undo the change.

    Args:
        is_new: False if the memory was as wanted already, so that there is nothing to undo.
    """
    undo = ("m", memory.episode_id, "undo", str(plan_undo(request.store, memory).change.id)) if is_new else ()
    notice = Notice(sentence, undo=undo, target=request.target)
    if request.target == "detail":
        return _detail(request, memory, notice=notice, is_change=True)
    return Answer("memory.html", {"memory": memory}, block="actions", notice=notice, is_change=True)


def _detail(
    request: PageRequest, memory: Memory, *, notice: Notice | None = None, is_change: bool = False, **values: object
) -> Answer:
    shown = memory_values(request, memory) | values
    block = "detail" if request.is_fragment else ""
    return Answer("memory.html", shown, block=block, notice=notice, is_change=is_change)


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


#: Label of the button that undoes a change that is not in ``UNDOS``.
UNDO_LAST = "Undo the last change"
#: Maximum number of listed prompts for which the memory was considered.
MAX_MOMENTS = 4
#: Maximum number of listed steps of the memory's history, latest first.
MAX_STEPS = 10
#: The fields that a user edits.
EDITED = ("summary", "content", "importance", "scope")
#: Action in the history → label of the button that undoes it.
UNDOS: Mapping[str, str] = {
    "extract": "Don't keep it",
    "save": "Don't keep it",
    "edit": "Undo the edit",
    "pin": "Undo the pin",
    "bad": "Not wrong after all",
    "supersede": "Undo the replacement",
    "archive": "Undo the archiving",
    "merge": "Undo the merge",
    "confirm": "Undo the confirmation",
    "correct": "Don't keep it",
}


def show(request: PageRequest) -> Answer | Redirect:
    """Show a memory on its own page or beside a list; for a quotation, redirect to its turn."""
    if is_quotation_id(request.path["episode_id"]):
        stored = require_quotation(request.store, request.path["episode_id"]).stored
        return Redirect(("s", stored.turn.session_id, "t", str(stored.id)))
    return _detail(request, _memory(request))


def memory_values(request: PageRequest, memory: Memory) -> dict[str, Any]:
    store = request.store
    report = report_memory(store, memory)
    why = why_memory(store, memory.episode_id, MAX_MOMENTS)
    undo = _undo_plan(store, memory)
    title, rest = title_and_rest(memory)
    steps = report.history[: -MAX_STEPS - 1 : -1]
    reasons = name_memories(store, [reason_of(step) for step in steps])
    sources = source_turns(store, memory)
    return {
        "memory": memory,
        "title": title,
        "rest": rest,
        "content": content_beyond(memory),
        "successor": find_memory(store, memory.superseded_by) if memory.superseded_by else None,
        "report": report,
        "branch_remark": branch_remark(report.branch),
        "sources": sources,
        "assistants": assistants_of(store, [source.session_id for source in sources]),
        "shown_times": sum(injection.state == "shown" for injection in report.injections),
        "moments": [_moment(store, outcome) for outcome in why.outcomes],
        "steps": [
            (step, done_of(step), who_changed(step, memory.extractor), reason, _edited(step))
            for step, reason in zip(steps, reasons, strict=True)
        ],
        "hidden_steps": max(0, len(report.history) - MAX_STEPS),
        "undo": undo,
        "undo_label": "" if undo is None else "Redo" if undo.is_redo else UNDOS.get(undo.change.action, UNDO_LAST),
        "shares": where_shared(store, memory),
        "form": "",
    }


def _edited(step: Change) -> list[str]:
    """Return the names of the fields that an edit changed; empty for other steps."""
    names = zip(step.before, changed_in(step), strict=True) if step.action == "edit" else ()
    return [name for field, name in names if field in EDITED]


def content_beyond(memory: Memory) -> str:
    """Return the part of a memory's content that its summary leaves out; "" for none.

    The answer in a dialog is stored as "question → answer", and both are in the summary.
    """
    content = memory.content.strip()
    said, mark, more = content.partition("\n\n[")
    summary = _letters(memory.summary)
    question, _, answer = map(_letters, said.rpartition("→"))
    is_told = memory.voice == Voice.CHOSEN and bool(question) and question in summary and summary.endswith(answer)
    if is_told or _letters(said) == summary:
        content = f"{mark}{more}".strip()
    return content if len(content) <= MAX_CONTENT_CHARACTERS else f"{content[:MAX_CONTENT_CHARACTERS].rstrip()} …"


def _letters(text: str) -> str:
    """Return only the letters and digits of a text, for comparison."""
    return "".join(char for char in text.casefold() if char.isalnum())


def _moment(store: Store, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome, with its prompt if that is still stored."""
    candidate = outcome.considered[0]
    return {
        "outcome": outcome,
        "candidate": candidate,
        "prompt": prompt_near(store, outcome.session_id, outcome.at_ms),
        "reason": CANDIDATE_REASONS[candidate.verdict],
        "bars": feature_bars(candidate.features)[:4],
    }


def _undo_plan(store: Store, memory: Memory) -> UndoPlan | None:
    try:
        return plan_undo(store, memory)
    except BadRequest:
        return None


VIEW = View(name="memory", title="Memory", within="memories", routes=(Route("/m/{episode_id}", show), *ROUTES))
