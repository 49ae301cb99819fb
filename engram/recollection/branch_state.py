"""Where the work on a branch stands: what is not committed, unfinished, failing and open, and the session to resume."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.enums import BranchState
from engram.models.engine.transaction import Store
from engram.models.memories import branches
from engram.models.memories.branches import MAX_BRANCH_CHARACTERS
from engram.models.memories.memory_records import Memory
from engram.models.search.memory_lists import latest_memories
from engram.models.sessions.recent import calls_of_session, latest_prompts, latest_sessions_of, latest_sessions_on
from engram.models.sessions.sessions import SessionRow, session_titles
from engram.models.sessions.sources import files_of_session
from engram.recollection.briefing_lines import is_open_problem, text_of, title_line
from engram.recollection.prompts import filter_prompt
from engram.recollection.render import shown_name, shown_text
from engram.system.clock import day_of, iso_time
from engram.text.shell import programs_of, without_comments
from engram.text.titles import MAX_TITLE_CHARACTERS
from engram.transcripts.calls import open_todos
from engram.transcripts.git_commands import WorkTree, counts_as_merged, read_work_tree
from engram.transcripts.git_files import read_branch
from engram.transcripts.registry import resume_command
from engram.transcripts.turns import Action
from engram.trust.suspicion import why_suspect

#: Sessions on the branch that are looked at, the latest first.
MAX_SESSIONS = 5
#: Todo lists and failures of older sessions are not told, in milliseconds.
MAX_AGE_MS = 14 * 86_400_000
#: Prompts among which the last one with a topic is looked for.
MAX_PROMPTS = 5
#: Open threads that are told, and memories among which they are looked for.
MAX_THREADS, MAX_CANDIDATES = 3, 200
#: Todos that are told, and the longest, in characters.
MAX_TODOS, MAX_TODO_CHARACTERS = 4, 120
#: A longer prompt or command is not told, in characters: half a sentence says nothing.
MAX_PROMPT_CHARACTERS, MAX_COMMAND_CHARACTERS = 160, 120


@dataclass(frozen=True, slots=True)
class OpenFailure:
    """A command that failed, and was not seen to pass since."""

    command: str
    exit_code: int | None
    #: The most telling line of the error: shown to people alone, since a tool wrote it.
    error_line: str


@dataclass(frozen=True, slots=True)
class LastSession:
    """A session that may be resumed."""

    session: SessionRow
    #: The branch that it was on last; "" if that is not known.
    branch: str
    #: The command that resumes it; "" if its transcript is gone.
    resume: str
    #: What was asked for last in it; "" if that says nothing.
    prompt: str
    #: By which a person recognises it; "" for a session without a prompt.
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        """The session for scripts."""
        return {
            "id": self.session.session_id,
            "title": self.title or None,
            "branch": self.branch or None,
            "last_at": iso_time(self.session.last_at_ms),
            "resume": self.resume or None,
            "last_prompt": self.prompt or None,
        }


@dataclass(frozen=True, slots=True)
class Where:
    """Where the work stands in a folder."""

    #: "" outside a repository.
    branch: str
    #: None if the branch is not known, as for a new one.
    branch_state: BranchState | None = None
    #: None outside a repository, and if git was too slow.
    work_tree: WorkTree | None = None
    #: The latest session on the branch; None if there is none.
    last: LastSession | None = None
    #: The latest session of the project, if that was on another branch; else None.
    last_elsewhere: LastSession | None = None
    #: True if the branch of ``last_elsewhere`` is known to be merged.
    is_elsewhere_merged: bool = False
    todos: tuple[str, ...] = ()
    failure: OpenFailure | None = None
    #: Memories of open problems that were learned on the branch.
    threads: tuple[Memory, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """True if something is not committed, not done, failing or open."""
        is_changed = self.work_tree is not None and (not self.work_tree.is_clean or self.work_tree.unpushed > 0)
        return bool(is_changed or self.todos or self.failure or self.threads)

    def to_json(self) -> dict[str, Any]:
        """The report for scripts."""
        tree = self.work_tree
        return {
            "branch": self.branch,
            "branch_state": self.branch_state,
            "uncommitted": None
            if tree is None
            else {"changed": list(tree.changed), "untracked": list(tree.untracked), "unpushed_commits": tree.unpushed},
            "session": None if self.last is None else self.last.to_json(),
            "last_elsewhere": None if self.last_elsewhere is None else self.last_elsewhere.to_json(),
            "todos": list(self.todos),
            "failure": None
            if self.failure is None
            else {
                "command": self.failure.command,
                "exit_code": self.failure.exit_code,
                "error": self.failure.error_line or None,
            },
            "open": [{"id": memory.episode_id, "summary": memory.summary} for memory in self.threads],
        }


def find_where(
    store: Store, project_id: int | None, folder: str, *, git_seconds: float, but_session: str = ""
) -> Where:
    """Return where the work in a folder stands now: what was finished since is left out.

    Args:
        store: the open memory.
        project_id: row id of the folder's project; None if it has none.
        folder: the working folder.
        git_seconds: maximum duration of reading the working tree; 0 does not run git.
        but_session: the session that asks.
    """
    branch = read_branch(folder)
    tree = read_work_tree(folder, seconds=git_seconds) if branch and git_seconds > 0 else None
    if project_id is None:
        return Where(branch=branch, work_tree=tree)
    rows = {row.name: row for row in branches.branches_of_project(store, project_id)}
    row = rows.get(branch)
    sessions = [
        session
        for session in latest_sessions_on(store, project_id, branch, MAX_SESSIONS + 1)
        if session.session_id != but_session
    ][:MAX_SESSIONS]
    is_over = row is not None and row.state is BranchState.MERGED and not row.is_default
    calls = [] if is_over else _late_calls(store, sessions, project_id)
    last = _told(store, sessions[0], project_id) if sessions else None
    of_all = [row for row in latest_sessions_of(store, project_id, 2) if row.session_id != but_session]
    is_elsewhere = bool(of_all) and (last is None or of_all[0].id != last.session.id)
    elsewhere = _told(store, of_all[0], project_id) if is_elsewhere else None
    row_elsewhere = None if elsewhere is None else rows.get(elsewhere.branch)
    return Where(
        branch=branch,
        branch_state=None if row is None else row.state,
        work_tree=tree,
        last=last,
        last_elsewhere=elsewhere,
        is_elsewhere_merged=row_elsewhere is not None and row_elsewhere.state is BranchState.MERGED,
        todos=tuple(_unfinished(calls)),
        failure=_open_failure(calls[0]) if calls else None,
        threads=() if is_over else tuple(open_threads(store, project_id, branch)),
    )


def _told(store: Store, session: SessionRow, project_id: int) -> LastSession:
    return LastSession(
        session,
        branch=session.branch if session.project_id == project_id else "",
        resume=resume_of(store, session),
        prompt=_last_prompt(store, session, project_id),
        title=session_titles(store, [session])[session.session_id],
    )


def open_threads(store: Store, project_id: int, branch: str) -> list[Memory]:
    """Return the latest memories of open problems that were learned on a branch."""
    states = [
        memory
        for memory in latest_memories(store, project_id=project_id, with_global=False, limit=MAX_CANDIDATES)
        if is_open_problem(memory, store.now_ms())
    ]
    places = branches.branches_of_memories(store, [memory.id for memory in states])
    return [memory for memory in states if branch in places.get(memory.id, ())][:MAX_THREADS]


def _late_calls(store: Store, sessions: Sequence[SessionRow], project_id: int) -> list[list[Action]]:
    """Return the tool calls in a project of each session that is not too old, the latest session first."""
    since_ms = store.now_ms() - MAX_AGE_MS
    return [calls_of_session(store, session.id, project_id) for session in sessions if session.last_at_ms >= since_ms]


def _unfinished(calls: Iterable[Sequence[Action]]) -> list[str]:
    """Return the open entries of the latest todo list."""
    for of_session in calls:
        if any(call.todos or call.is_todo_list for call in of_session):
            return open_todos(of_session)
    return []


def _open_failure(calls: Sequence[Action]) -> OpenFailure | None:
    """Return the last failing command of a session that none of its programs passed after, and no commit followed."""
    passed: set[str] = set()
    for call in reversed(calls):
        if call.commit:
            return None
        programs = programs_of(call.command) if call.is_error is not None and not call.is_refused else ()
        if not programs:
            continue
        if not call.is_error:
            passed.update(programs)
        elif not passed & set(programs):
            return OpenFailure(command=call.command, exit_code=call.exit_code, error_line=call.error_line)
    return None


def resume_of(store: Store, session: SessionRow) -> str:
    """Return the command that resumes a session; "" if none of its files is left, since then nothing does."""
    files = files_of_session(store, session.session_id)
    paths = (Path(file.path) for file in files if not file.is_gone and Path(file.path).exists())
    path = next(paths, None)
    return resume_command(session.agent, session.session_id, path) if path else ""


def _last_prompt(store: Store, session: SessionRow, project_id: int) -> str:
    prompts = latest_prompts(store, session.id, project_id, MAX_PROMPTS)
    return next((" ".join(prompt.split()) for prompt in prompts if filter_prompt(prompt).text), "")


# -- lines that a session is told


def where_lines(where: Where, threads: Sequence[Memory]) -> list[str]:
    """Return a heading and its lines; nothing if all is finished on the default branch, and the last work was there.

    What is not committed is not among them: it stands in Claude's first request.

    Args:
        where: the state of the work.
        threads: memories of open problems to tell.
    """
    lines = [title_line(memory, text) for memory in threads if not memory.suspect and (text := text_of(memory))]
    failure = where.failure
    if failure is not None and (
        command := _shown(without_comments(failure.command), MAX_COMMAND_CHARACTERS, is_typed=False)
    ):
        status = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
        lines.append(f"- `{command.replace('`', chr(39))}` failed last{status}, and was not seen to pass since.")
    todos = [text for todo in where.todos if (text := _shown(todo, MAX_TODO_CHARACTERS, is_typed=False))]
    if todos:
        more = f"; {len(todos) - MAX_TODOS} more" if len(todos) > MAX_TODOS else ""
        lines.append(f"- Unfinished in the todo list: {'; '.join(todos[:MAX_TODOS])}{more}.")
    lines += _session_lines(where, is_open=bool(lines))
    name = shown_name(where.branch, MAX_BRANCH_CHARACTERS)
    return [f"State of branch {name}:" if name else "State of the work:", *lines] if lines else []


def _session_lines(where: Where, *, is_open: bool) -> list[str]:
    """Return the lines of the last session of the branch, and of the last of all where that was on another.

    With nothing open, the session of a default branch and that of a merged one are not worth a line.
    """
    here, elsewhere = where.last, where.last_elsewhere
    lines = []
    if here is not None and (is_open or not counts_as_merged(where.branch)):
        lines.append(f"- Last session{' of this branch' if elsewhere else ''}: {_about(here)}.")
    is_worth = lines or not (where.is_elsewhere_merged or (elsewhere and counts_as_merged(elsewhere.branch)))
    if elsewhere is not None and is_worth:
        name = shown_name(elsewhere.branch, MAX_BRANCH_CHARACTERS)
        lines.append(f"- Last session of all{f' (branch {name})' if name else ''}: {_about(elsewhere)}.")
    return lines


def _about(last: LastSession) -> str:
    prompt = _shown(last.prompt, MAX_PROMPT_CHARACTERS, is_typed=True)
    title = _shown(last.title.rstrip("…"), MAX_TITLE_CHARACTERS, is_typed=False)
    # A session of one prompt is called by it.
    named = f', "{title}"' if title and not prompt.startswith(title) else ""
    asked = f', asked last: "{prompt}"' if prompt else ""
    resume = f"; `{last.resume}` resumes it" if last.resume else ""
    return f"{day_of(last.session.last_at_ms)}{named}{asked}{resume}"


def _shown(text: str, limit: int, *, is_typed: bool) -> str:
    """Return a text that is whole and harmless; "" for any other."""
    if not text or len(text) > limit or "\n" in text.strip():
        return ""
    return "" if why_suspect(text, is_typed=is_typed, is_assistant=not is_typed) else shown_text(text, limit)
