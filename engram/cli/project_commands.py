"""``engram projects``: the known projects, their folders, moves and vaults."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from engram.cli.options import (
    DefaultGroup,
    confirm,
    json_command,
    require_alone,
    tell,
    yes_option,
)
from engram.cli.output import print_facts, print_json, print_table, say
from engram.cli.results import all_memories, memories_in_words, named_memory
from engram.cli.workspace import Workspace, advise
from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.forgetting.forget import unwiped_line
from engram.forgetting.whole_project import (
    ForgottenProject,
    check_move,
    forget_project,
    move_into_vault,
    move_out_of_vault,
    seal,
)
from engram.ingest.project_moves import find_clones, find_moves, plan_sorting, sort_projects
from engram.ingest.session_project import identify_folder, named_project
from engram.models.forgetting.erase_project import contents_of_project
from engram.models.projects.project_folders import (
    ProjectCounts,
    check_merge,
    count_projects,
    link_folder,
    list_merges,
    list_sortings,
    merge_projects,
    undo_merge,
    undo_sorting,
)
from engram.models.projects.projects import find_project as find_project_row
from engram.models.projects.projects import find_project_of_identity, rename_project
from engram.models.shown.usage import count_without_project
from engram.paths import absolute_path
from engram.reports.settings_report import list_project_reports, move_to_json, sorting_to_json
from engram.system.clock import day_of
from engram.trust.display import as_arguments, counted, number_of
from engram.vaults import change_vault, find_vault, list_vaults, own_vault

# -- ``engram projects forget``: delete everything in a project, everywhere.


@click.command("forget", short_help="Delete everything in a project for good.")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted (default: delete it).")
@yes_option
@json_command
def forget(workspace: Workspace, name: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete everything in the project NAME for good: turns, memories and notes, including those in backups.

    What was said in it until now is never read again. The folder remains known: new sessions in it are read as before,
    unless the `exclude` setting lists it. Global memories that came from the project are kept, without their evidence,
    and are listed. The transcripts belong to Claude Code and are not changed.

    Example: engram projects forget harbor-2 --dry-run
    """
    with workspace.store() as store:
        place = named_project(store, name)
        contents = contents_of_project(store, place)
        for memory in contents.memories if dry_run and not as_json else ():
            say(f"memory     {named_memory(memory)}")
        for memory in () if as_json else contents.released:
            say(f"kept       {named_memory(memory)}, without its evidence")
        sessions = count_projects(store).get(place.id, ProjectCounts()).sessions
        what = (
            f"{number_of(sessions, 'session')} with {number_of(len(contents.turn_ids), 'turn')}, "
            f"{memories_in_words(contents.memories)} and the notes of {place.name} ({place.root}), "
            "including those in backups"
        )
        if dry_run:
            facts = {"dry": True, "project": place.name, "folder": place.root, "sessions": sessions}
            facts |= {"turns": len(contents.turn_ids), "memories": len(contents.memories)}
            tell(as_json, facts, f"In all: {what}.\nNothing was deleted.")
            return
        # If nothing is left, this only completes an interrupted deletion.
        is_asked = contents.turn_ids or contents.memories or contents.released
        confirm(yes or not is_asked, as_json, f"This deletes {what}. It can't be undone. Continue?")
        report = forget_project(store, workspace.places, place, actor=Actor.USER)
    workspace.wake_worker()
    tell(as_json, _forgotten_as_json(report), _forgotten_sentence(report))


def _forgotten_as_json(report: ForgottenProject) -> dict[str, Any]:
    return {
        "project": report.name,
        "folder": report.folder,
        "sessions": report.sessions,
        "turns": report.turns,
        "memories": report.memories,
        "kept_global": [{"id": memory.episode_id, "summary": memory.summary} for memory in report.kept_global],
        "files": list(report.files),
        "backups": report.backups,
        "dropped_backups": report.dropped_backups,
        "foreign": list(report.foreign),
        "not_wiped": report.not_wiped,
        "new_sessions_are_read": True,
    }


def _forgotten_sentence(report: ForgottenProject) -> str:
    kept = counted(len(report.kept_global), "global memory is kept", "global memories are kept")
    stays = f" {kept}; `engram forget ID` deletes one." if kept else ""
    names = ", ".join(report.foreign)
    foreign = f" Another program's database may still contain its words: {names}." if names else ""
    foreign += f" {unwiped_line(report.not_wiped)}" if report.not_wiped else ""
    if not (report.turns or report.memories or report.kept_global):
        again = f"New sessions in {report.folder} are read."
        return f"{report.name} is empty: it contains no turns and no memories.{foreign} {again}"
    turns = counted(report.turns, "turn") or "no turn"
    memories = counted(report.memories, "memory") or "no memory"
    files = counted(len(report.files), "file") or "no file"
    backups = counted(report.backups, "backup") or "no backup"
    damaged = counted(report.dropped_backups, "damaged copy", "damaged copies")
    backups += f" and deleted {damaged} of the memory" * bool(damaged)
    return (
        f"Deleted {turns} and {memories} of {report.name}; changed {files} and cleaned {backups}.{stays}{foreign} "
        f"What was said there is never read again. New sessions in {report.folder} are read unless you exclude it."
    )


# -- ``engram projects vault`` and ``unvault``: keep a client's project in a separate database, and bring it back.


@click.command("vault", short_help="Move a project to a database of its own.")
@click.argument("name")
@click.option(
    "--apart",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="A folder with the same repository as the vault's project that is another project (default: none).",
)
@yes_option
@json_command
def vault(workspace: Workspace, name: str, apart: Path | None, yes: bool, as_json: bool) -> None:
    """Move the project NAME to a database of its own, which nothing outside the project can see.

    Everything in the project is moved: turns, memories (including its global ones) and notes. It is also deleted from
    the backups and exports in the memory folder. From then on, the project's sessions read from and add to the vault
    only, and no answer in another project, no export and no share contains anything from it. `engram --vault NAME
    COMMAND` runs a command on the vault.

    Nothing from another folder with the same repository is stored, since it may be this project, renamed or cloned.
    `engram --vault NAME projects link FOLDER NAME` adds that folder to the vault; --apart makes it a separate project.

    Example: engram projects vault acme
    """
    if apart is not None:
        _keep_apart(workspace, name, apart, as_json)
        return
    with workspace.store() as store:
        settings = workspace.settings
        begun = find_vault(settings.places, name)
        project = find_project_row(store, name) if begun is None else find_project_row(store, begun.identities[0])
        if begun is not None and project is None:
            seal(begun)
            tell(as_json, {"project": begun.name, "vault": str(begun.folder)}, f"{begun.name} is in its vault.")
            return
        project = project or named_project(store, name)
        check_move(store, settings, project)
        contents = contents_of_project(store, project)
        confirm(
            yes,
            as_json,
            f"This moves {number_of(len(contents.session_ids), 'session')} and "
            f"{memories_in_words(contents.memories)} of {project.name} "
            f"into a vault, with {number_of(len(contents.released), 'global memory')} that came from it and that other "
            "projects will no longer see. `engram projects unvault` brings it back. Continue?",
        )
        moved = move_into_vault(store, settings, project)
    workspace.wake_worker()
    facts = {"project": moved.name, "vault": str(moved.folder), "sessions": moved.sessions, "memories": moved.memories}
    sentence = (
        f"{moved.name} is now in its vault, {moved.folder}, with {all_memories(moved.memories, moved.retired)}. "
        f"To work with it: engram --vault {shlex.quote(moved.name)} COMMAND"
    )
    tell(as_json, facts, sentence)


def _no_vault(workspace: Workspace, name: str) -> NotFound:
    names = ", ".join(known.name for known in list_vaults(workspace.places)) or "none"
    return NotFound(f"there is no vault for {name[:60]!r}; vaults: {names}")


def _keep_apart(workspace: Workspace, name: str, folder: Path, as_json: bool) -> None:
    known, place = find_vault(workspace.places, name), identify_folder(str(absolute_path(folder)), workspace.settings)
    if known is None:
        raise _no_vault(workspace, name)
    if not place.identity or place.is_global or known.has_identity(place.identity):
        raise BadRequest(f"{folder} can't be kept apart from {known.name}")
    change_vault(known, apart=tuple(sorted({*known.apart, place.identity})))
    workspace.wake_worker()
    facts = {"project": known.name, "vault": str(known.folder), "apart": place.root}
    tell(as_json, facts, f"{place.root} is not a folder of {known.name}: its sessions are read outside of the vault.")


@click.command("unvault")
@click.argument("name")
@yes_option
@json_command
def unvault(workspace: Workspace, name: str, yes: bool, as_json: bool) -> None:
    """Bring the project NAME back from its vault, and delete the vault.

    Memories that were global before they moved into the vault, or became so there, are global again.

    Example: engram projects unvault acme
    """
    with workspace.store() as store:
        found = find_vault(workspace.places, name)
        if found is None:
            raise _no_vault(workspace, name)
        confirm(yes, as_json, f"This moves everything in {found.name} out of its vault. Continue?")
        moved = move_out_of_vault(store, workspace.settings, found)
    workspace.wake_worker()
    facts = {"project": moved.name, "sessions": moved.sessions, "memories": moved.memories}
    tell(as_json, facts, f"{moved.name} is out of its vault, with {all_memories(moved.memories, moved.retired)}.")


@click.group("projects", cls=DefaultGroup)
def projects() -> None:
    """List the projects and their folders, and join those that were renamed or moved (default: list).

    A project is identified by its folder. If the folder is gone and a new one has the same remote and the same first
    commit, the worker joins the two. `engram projects` suggests less certain matches, and names clones of a repository.

    Example: engram projects merge harbor-2 harbor
    """


projects.add_command(forget)
projects.add_command(vault)
projects.add_command(unvault)


@projects.command("list", short_help="List the projects that are not empty.")
@json_command
def list_projects(workspace: Workspace, as_json: bool) -> None:
    """List the projects that are not empty, with folder, sessions and memories, and those that may have moved.

    Example: engram projects list --json
    """
    with workspace.store() as store:
        known = list_project_reports(store)
        moves = [move_to_json(move) for move in find_moves(store)]
        clones = [{"project": clone.name, "of": first.name} for clone, first in find_clones(store)]
        sortings = list_sortings(store)
        without_project = count_without_project(store)
    vaults = [{"name": vault.name, "folder": str(vault.folder)} for vault in list_vaults(workspace.places)]
    if as_json:
        facts = {
            "projects": [report.to_json() for report in known],
            "memories_without_project": without_project,
            "moves": moves,
            "clones": clones,
            "vaults": vaults,
        }
        print_json(facts)
        return
    rows = [
        (
            report.project.name,
            report.folder + (" (gone)" if report.is_gone else ""),
            report.counts.sessions,
            report.counts.memories,
        )
        for report in known
    ]
    print_table(("project", "folder", "sessions#", "memories#"), rows, empty="No projects yet.")
    if without_project:
        say(f"{number_of(without_project, 'more memory belongs', 'more memories belong')} to no project.")
    for known_vault in vaults:
        name = known_vault["name"]
        advise(f"{name} is in a vault. To work with it: engram --vault {shlex.quote(name)} COMMAND")
    for move in moves:
        command = f"engram projects merge {as_arguments(move['present'], move['former'])}"
        advise(f"{move['former']} may be {move['present']} now. If it is, run: {command}")
    for clone in clones:
        command = f"engram projects merge {as_arguments(clone['project'], clone['of'])}"
        advise(
            f"{clone['project']} and {clone['of']} are clones of one repository, and don't see each other's memories. "
            f"To join them, run: {command}"
        )
    if sortings:
        last = sortings[0]
        parts = (counted(last.sessions, "session"), counted(last.turns, "turn"))
        moved = ", ".join(filter(None, (*parts, counted(len(last.merged), "whole project"))))
        advise(f"Sorted on {day_of(last.at_ms)}: {moved}. To undo: engram projects sort --undo")


@projects.command("show", short_help="Show one project: its folders, remote, sessions and memories.")
@click.argument("name")
@json_command
def show(workspace: Workspace, name: str, as_json: bool) -> None:
    """Show one project: its folders, its remote and first commit, and its sessions and memories.

    Example: engram projects show harbor
    """
    with workspace.store() as store:
        place = named_project(store, name)
        facts = next(
            report.to_json() for report in list_project_reports(store, with_empty=True) if report.project.id == place.id
        )
    tell(as_json, facts, lambda: print_facts((key.replace("_", " "), _shown(value)) for key, value in facts.items()))


@projects.command("link")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("name")
@yes_option
@json_command
def link(workspace: Workspace, folder: Path, name: str, yes: bool, as_json: bool) -> None:
    """Add a folder that is not a project yet to the project NAME.

    Example: engram projects link ~/src/harbor-next harbor
    """
    with workspace.store() as store:
        place = named_project(store, name)
        scope = identify_folder(str(absolute_path(folder)), workspace.settings)
        if scope.is_global or not scope.identity:
            raise BadRequest(f"{folder} contains projects (setting project_roots), so it can't be part of one")
        known = find_project_of_identity(store, scope.identity)
        if known is not None and known.id == place.id:
            raise BadRequest(f"{folder} already belongs to {place.name}")
        if known is not None:
            command = f"engram projects merge {as_arguments(known.name, place.name)}"
            raise BadRequest(f"{folder} is the project {known.name}. To join them, run: {command}")
        confirm(
            yes,
            as_json,
            f"From now on, sessions in {scope.root} will see and add to the memories of {place.name}. Continue?",
        )
        with store.transaction() as tx:
            link_folder(tx, place, scope.identity, scope.root, "by hand")
    own = own_vault(workspace.places)
    if own is not None:
        others = tuple(identity for identity in own.apart if identity != scope.identity)
        change_vault(own, identities=(*own.identities, scope.identity), apart=others)
        workspace.wake_worker()
    tell(as_json, {"project": place.name, "folder": scope.root}, f"{scope.root} now belongs to {place.name}.")


@projects.command("merge")
@click.argument("source")
@click.argument("into")
@yes_option
@json_command
def merge(workspace: Workspace, source: str, into: str, yes: bool, as_json: bool) -> None:
    """Move everything in the project SOURCE to the project INTO. From then on, SOURCE's folder belongs to INTO.

    `engram projects unmerge SOURCE` undoes it.

    Example: engram projects merge harbor-2 harbor
    """
    with workspace.store() as store:
        other, place = named_project(store, source), named_project(store, into)
        check_merge(store, place, other)
        counts = count_projects(store).get(other.id, ProjectCounts())
        confirm(
            yes,
            as_json,
            f"This moves {number_of(counts.sessions, 'session')} and "
            f"{number_of(counts.memories, 'memory')} of {other.name} ({other.root}) to "
            f"{place.name} ({place.root}). `engram projects unmerge {as_arguments(other.name)}` undoes that. Continue?",
        )
        moved = merge_projects(store, place, other, "by hand", actor=Actor.USER)
    workspace.wake_worker()
    sentence = f"Moved {number_of(moved, 'session')}. {other.root} now belongs to {place.name}."
    tell(as_json, {"project": place.name, "folder": other.root, "sessions": moved}, sentence)


@projects.command("unmerge")
@click.argument("name")
@json_command
def unmerge(workspace: Workspace, name: str, as_json: bool) -> None:
    """Undo the last merge of the project NAME into another one.

    Its sessions and memories go back to it, and its folder belongs to it again. What was added since the merge remains
    with the other project. The ten latest merges can be undone.

    Example: engram projects unmerge harbor-2
    """
    with workspace.store() as store:
        merge = next((merge for merge in list_merges(store) if merge.name == name), None)
        if merge is None:
            raise NotFound(f"no merge of a project {name!r} is recorded; only the ten latest can be undone")
        project = undo_merge(store, merge.number, actor=Actor.USER)
        counts = count_projects(store).get(project.id, ProjectCounts())
    workspace.wake_worker()
    sentence = (
        f"{project.name} is a project again, with {number_of(counts.sessions, 'session')} and "
        f"{number_of(counts.memories, 'memory')}."
    )
    facts = {"project": project.name, "folder": project.root, "sessions": counts.sessions, "memories": counts.memories}
    tell(as_json, facts, sentence)


@projects.command("sort", short_help="Move sessions and turns to the project that they belong to.")
@click.option("--dry-run", is_flag=True, help="Show what would be sorted (default: sort it).")
@click.option("--undo", is_flag=True, help="Undo the latest sorting (default: sort).")
@json_command
def sort(workspace: Workspace, dry_run: bool, undo: bool, as_json: bool) -> None:
    """Move sessions and turns to the project that they belong to by what is known now.

    Earlier versions put work in deleted worktrees, and sessions that began above several repositories, into one
    project. The worker sorts them automatically; what --undo reverts is not sorted again. Nothing is sent to a
    hub.

    Example: engram projects sort --dry-run
    """
    require_alone("undo")
    with workspace.store() as store:
        if undo:
            sorting = undo_sorting(store, actor=Actor.USER)
            workspace.wake_worker()
            facts = {"sessions": sorting.sessions, "turns": sorting.turns, "memories": sorting.memories}
            sentence = (
                f"Undone: {number_of(sorting.sessions, 'session')}, {number_of(sorting.turns, 'turn')}, "
                f"{number_of(sorting.memories, 'memory')}"
            )
            merged = f", and the projects {', '.join(sorting.merged)}" if sorting.merged else ""
            tell(as_json, facts | {"projects": list(sorting.merged)}, f"{sentence}{merged}.")
            return
        found = plan_sorting(store, workspace.settings) if dry_run else sort_projects(store, workspace.settings)
    if found and not dry_run:
        workspace.wake_worker()
    rows = sorting_to_json(found)
    table = [(row["from"], row["to"], "all" if row["whole"] else row["sessions"], row["turns"]) for row in rows]
    headings = ("from", "to", "sessions", "turns")
    tell(as_json, {"sorted": rows}, lambda: print_table(headings, table, empty="Nothing to sort."))


@projects.command("rename")
@click.argument("name")
@click.argument("new_name")
@json_command
def rename(workspace: Workspace, name: str, new_name: str, as_json: bool) -> None:
    """Change the display name of a project. Its folder still identifies it.

    Example: engram projects rename harbor-2 harbor-old
    """
    with workspace.store() as store:
        renamed = rename_project(store, named_project(store, name), new_name)
    tell(as_json, {"project": renamed}, f"{name} is now called {renamed}.")


def _shown(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else value
