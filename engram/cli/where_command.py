"""``engram where``: where the work in this folder stands."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json, say, when
from engram.cli.workspace import Workspace, current_folder, pass_workspace
from engram.errors import NotFound
from engram.ingest.folder import scope_of_folder
from engram.recollection.where import LastSession, Where, find_where
from engram.text.titles import MAX_TITLE_CHARACTERS
from engram.transcripts.git_status import MAX_STATUS_SECONDS

#: Longest prompt, file and error that is printed, in characters.
_SHOWN_CHARACTERS = 200
#: Files that are listed.
_MAX_FILES = 20


@click.command("where")
@json_option
@pass_workspace
def where(workspace: Workspace, as_json: bool) -> None:
    """Show where the work in this folder stands: branch, uncommitted files, open todos, last failure, open problems.

    Also the last session of this branch and the last of all, what was asked last in each, and the command that resumes
    it. What was finished since is not shown. Git is only read, and runs nothing that the repository configures.

    Example: engram where
    """
    folder = current_folder()
    with workspace.store() as store:
        project = scope_of_folder(store, workspace.settings, folder).project
        state = find_where(store, None if project is None else project.id, folder, git_seconds=MAX_STATUS_SECONDS)
    if project is None and not state.branch:
        raise NotFound("this folder is in no known project and no repository; run `engram where` inside one")
    if as_json:
        print_json({"project": None if project is None else project.name, "folder": folder} | state.to_json())
        return
    _print(state)


def _print(state: Where) -> None:
    if state.branch:
        note = {"open": ", not merged", "merged": "", "unknown": ", not known whether merged"}
        say(f"On branch {one_line(state.branch)}{note.get(str(state.branch_state or ''), '')}.")
    tree = state.work_tree
    if tree is not None:
        for title, names in (("Not committed", tree.changed), ("New", tree.untracked)):
            if names:
                say(f"{title}: {', '.join(one_line(name) for name in names[:_MAX_FILES])}{_more(names)}")
        if tree.unpushed:
            say(f"Not pushed: {tree.unpushed} commit{'s' if tree.unpushed > 1 else ''}")
    if state.failure is not None:
        say(f"Failed last: {one_line(state.failure.command, _SHOWN_CHARACTERS)}")
        if state.failure.error_line:
            say(f"  {one_line(state.failure.error_line, _SHOWN_CHARACTERS)}")
    for todo in state.todos:
        say(f"To do: {one_line(todo, _SHOWN_CHARACTERS)}")
    for episode in state.threads:
        say(f"Open: {one_line(episode.summary, 400)} ({episode.episode_id})")
    if not state.is_unfinished:
        say("Nothing is open.")
    here, elsewhere = state.last, state.last_elsewhere
    if here is not None:
        _print_session("Last session of this branch" if elsewhere else "Last session", here)
    if elsewhere is not None:
        branch = f" (branch {one_line(elsewhere.branch)})" if elsewhere.branch else ""
        _print_session(f"Last session of all{branch}", elsewhere)
    if here is None and elsewhere is None:
        say("No session took place here yet.")


def _print_session(title: str, last: LastSession) -> None:
    say(f"{title}: {when(last.session.last_at_ms)}, {last.session.session_id}")
    if last.title:
        say(f"  {one_line(last.title, MAX_TITLE_CHARACTERS)}")
    if last.prompt:
        say(f"  asked last: {one_line(last.prompt, _SHOWN_CHARACTERS)}")
    say(f"  resume: {last.resume}" if last.resume else "  its transcript is gone")


def _more(names: tuple[str, ...]) -> str:
    return f" and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
