"""The projects: their folders and counts, and the next session's briefing; rename, pause and merge."""

from __future__ import annotations

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.ingest.project_moves import find_moves
from engram.models.projects.project_folders import list_merges, merge_projects, undo_merge
from engram.models.projects.projects import rename_project
from engram.models.shown.usage import count_without_project
from engram.models.work.work import pause as pause_scope
from engram.models.work.work import resume as resume_scope
from engram.page.view import Answer, Notice, PageRequest, Route, View, number_in
from engram.page.views.tasks import PAUSES, end_of_pause_ms
from engram.reports.settings_report import ProjectReport, list_project_reports
from engram.trust.display import number_of


def show_one(request: PageRequest, notice: Notice | None = None, number: str = "") -> Answer:
    """Show the project whose row id is ``number``; if that is "", the one in the path."""
    report = _find(request, number or request.path["number"])
    others = [other for other in list_project_reports(request.store) if other.project.id != report.project.id]
    merges = [merge for merge in list_merges(request.store) if merge.into_id == report.project.id]
    values = {"report": report, "others": others, "pauses": PAUSES, "merges": merges}
    return request.answer("project.html", values, notice)


def rename(request: PageRequest) -> Answer:
    return _rename(request, request.form.get("name", ""), "{before} is now called {name}.")


def rename_back(request: PageRequest) -> Answer:
    return _rename(request, request.path["name"], "It is called {name} again.")


def _rename(request: PageRequest, wanted: str, sentence: str) -> Answer:
    project = _find(request, request.path["number"]).project
    name = rename_project(request.store, project, wanted)
    way_back = ("projects", str(project.id), "named", project.name)
    return show_one(request, Notice(sentence.format(before=project.name, name=name), way_back))


def pause(request: PageRequest) -> Answer:
    """Pause a project for some time, during which nothing in it is read, stored or shown."""
    report = _find(request, request.path["number"])
    pause_scope(request.store, report.project.identity, end_of_pause_ms(request))
    text = f"{report.project.name} is paused: nothing said there is kept."
    return show_one(request, Notice(text, ("projects", str(report.project.id), "resume")))


def resume(request: PageRequest) -> Answer:
    report = _find(request, request.path["number"])
    until_ms, name = resume_scope(request.store, report.project.identity), report.project.name
    if not until_ms:
        return show_one(request, Notice(f"{name} was not paused."))
    way_back = ("projects", str(report.project.id), "pause", str(until_ms))
    return show_one(request, Notice(f"{name} is no longer paused.", way_back))


def ask_merge(request: PageRequest) -> Answer:
    """Show exactly what a merge would move, and ask for confirmation."""
    source, into = _pair(request)
    level, block = (2, "question") if request.is_fragment else (1, "")
    return Answer("merge.html", {"source": source, "into": into, "level": level}, block=block)


def merge(request: PageRequest) -> Answer:
    source, into = _pair(request)
    moved = merge_projects(request.store, into.project, source.project, "by hand", actor=Actor.USER)
    text = f"Moved {number_of(moved, 'session')}. {source.folder} now belongs to {into.project.name}."
    (latest, *_) = list_merges(request.store)
    way_back = ("projects", "merges", str(latest.number), "undo")
    return show_one(request, Notice(text, way_back), str(into.project.id))


def unmerge(request: PageRequest) -> Answer:
    number = number_in(request.path["number"])
    if number is None:
        raise NotFound("there is no such merge")
    project = undo_merge(request.store, number, actor=Actor.USER)
    return show_one(request, Notice(f"{project.name} is a separate project again."), str(project.id))


def _pair(request: PageRequest) -> tuple[ProjectReport, ProjectReport]:
    source = _find(request, request.path["number"])
    into = _find(request, request.form.get("into", "") or request.query.get("into", ""))
    if source.project.id == into.project.id:
        raise BadRequest("choose another project")
    return source, into


def _find(request: PageRequest, number: str) -> ProjectReport:
    for report in list_project_reports(request.store):
        if str(report.project.id) == number:
            return report
    raise NotFound("there is no such project; the list shows those that are known")


def show(request: PageRequest) -> Answer:
    values = {
        "reports": list_project_reports(request.store),
        "moves": find_moves(request.store),
        "without_project": count_without_project(request.store),
    }
    return Answer("projects.html", values)


VIEW = View(
    name="projects",
    title="Projects",
    key="p",
    path="projects",
    is_more=True,
    routes=(
        Route("/projects", show),
        Route("/projects/{number}", show_one),
        Route("/projects/{number}/rename", rename, method="POST"),
        Route("/projects/{number}/named/{name}", rename_back, method="POST"),
        Route("/projects/{number}/pause", pause, method="POST"),
        Route("/projects/{number}/pause/{until}", pause, method="POST"),
        Route("/projects/{number}/resume", resume, method="POST"),
        Route("/projects/{number}/merge", ask_merge),
        Route("/projects/{number}/merge", merge, method="POST"),
        Route("/projects/merges/{number}/undo", unmerge, method="POST"),
    ),
)
