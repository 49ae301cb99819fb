"""Find the state of the work on a branch: uncommitted, unfinished, failing and open work, and the session to resume."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import BranchState
from engram.models.engine.transaction import Store
from engram.models.memories import branches
from engram.models.memories.branches import MAX_BRANCH_CHARACTERS
from engram.models.memories.memory_records import Memory
from engram.models.search.memory_lists import latest_memories
from engram.models.sessions.recent_work import (
    calls_of_session,
    latest_prompts,
    latest_sessions_of,
    latest_sessions_on,
    latest_turn,
)
from engram.models.sessions.sessions import SessionRow, find_session, session_titles
from engram.recollection.briefing_lines import is_open_problem, text_of, title_line
from engram.recollection.prompts import filter_prompt
from engram.recollection.render_bites import shown_name, shown_text
from engram.reports.session_report import resume_of
from engram.system.clock import day_of, iso_time
from engram.text.shell import is_check_command, without_comments, without_redirections
from engram.text.titles import MAX_TITLE_CHARACTERS
from engram.text.words import topic_words
from engram.transcripts.calls import open_failure, open_todos
from engram.transcripts.git_commands import WorkTree, counts_as_merged, read_work_tree
from engram.transcripts.git_files import read_branch
from engram.transcripts.turns import Action, Role
from engram.trust.suspicion import why_suspect

#: Number of sessions on the branch to consider, latest first.
MAX_SESSIONS = 5
#: Maximum age of a session for its todo list and failure to be shown, in milliseconds.
MAX_AGE_MS = 14 * 86_400_000
#: Maximum age of a session for a briefing to mention it, in milliseconds; Claude Code deletes older transcripts.
MAX_SESSION_AGE_MS = 30 * 86_400_000
#: Maximum time without a new entry in which a session counts as at work, in milliseconds.
MAX_PAUSE_MS = 300_000
#: Shared branches besides the default one. A session on such a branch rarely continues the previous one.
TRUNKS = frozenset("develop development dev next trunk staging canary edge nightly integration unstable".split())
#: Minimum number of informative words that a title or prompt must have to identify a session.
MIN_TELLING_WORDS = 2
#: Number of latest prompts that are searched for one with a topic.
MAX_PROMPTS = 5
#: Maximum number of open threads shown, and of memories examined to find them.
MAX_THREADS, MAX_CANDIDATES = 3, 200
#: Maximum number of todos shown, and of characters in each.
MAX_TODOS, MAX_TODO_CHARACTERS = 4, 120
#: Maximum length of a prompt or command that is shown, in characters; longer ones are left out, not cut.
MAX_PROMPT_CHARACTERS, MAX_COMMAND_CHARACTERS = 160, 120


@dataclass(frozen=True, slots=True)
class LastSession:
    session: SessionRow
    #: Its last branch; "" if unknown.
    branch: str
    #: The command that resumes it; "" if its transcript is gone.
    resume: str
    #: Its last informative prompt; "" if there is none.
    prompt: str
    #: Its title for display; "" for a session without a prompt.
    title: str = ""
    #: False if it is too old to be mentioned in a briefing.
    is_recent: bool = True
    #: Its last prompt, which may be as short as "commit".
    final_prompt: str = ""
    #: True while its latest turn goes on: what it has not finished is being worked on, not left open.
    is_at_work: bool = False

    @property
    def prompt_before(self) -> str:
        """The last informative prompt, unless that is the last one of all."""
        return self.prompt if self.prompt != self.final_prompt else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.session.session_id,
            "title": self.title or None,
            "branch": self.branch or None,
            "last_at": iso_time(self.session.last_at_ms),
            "resume": self.resume or None,
            "last_prompt": self.final_prompt or None,
            "prompt_before": self.prompt_before or None,
        }


@dataclass(frozen=True, slots=True)
class Where:
    #: "" outside a repository.
    branch: str
    #: None if the branch is not stored yet, such as a new one.
    branch_state: BranchState | None = None
    #: None outside a repository or if git was too slow.
    work_tree: WorkTree | None = None
    #: The latest session on the branch; None if there is none.
    last: LastSession | None = None
    #: The latest session of the project; None if that is ``last``.
    last_elsewhere: LastSession | None = None
    #: The todos and the failure that ``last_elsewhere`` left open; empty if its branch was merged.
    todos_elsewhere: tuple[str, ...] = ()
    failure_elsewhere: Action | None = None
    todos: tuple[str, ...] = ()
    #: True if ``todos`` is the list of ``last``, not of an earlier session on the branch.
    are_todos_of_last: bool = False
    #: The last command that failed and, as far as is known, has not passed since. Only people are shown its error line,
    #: because a tool wrote it.
    failure: Action | None = None
    #: Memories of open problems that were learned on the branch.
    threads: tuple[Memory, ...] = ()
    #: Those of the project that were learned on other branches only, unless these were merged; each with a branch.
    threads_elsewhere: tuple[tuple[Memory, str], ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """True if something is uncommitted, undone, failing or open."""
        is_changed = self.work_tree is not None and (not self.work_tree.is_clean or self.work_tree.unpushed > 0)
        return bool(is_changed or self.todos or self.failure or self.threads)

    def to_json(self) -> dict[str, Any]:
        tree = self.work_tree
        return {
            "branch": self.branch,
            "branch_state": self.branch_state,
            "uncommitted": None
            if tree is None
            else {"changed": list(tree.changed), "untracked": list(tree.untracked), "unpushed_commits": tree.unpushed},
            "session": None if self.last is None else self.last.to_json(),
            "last_elsewhere": None if self.last_elsewhere is None else self.last_elsewhere.to_json(),
            "todos_elsewhere": list(self.todos_elsewhere),
            "todos": list(self.todos),
            "failure": None
            if self.failure is None
            else {
                "command": self.failure.command,
                "exit_code": self.failure.exit_code,
                "error": self.failure.error_line or None,
            },
            "open": [{"id": memory.episode_id, "summary": memory.summary} for memory in self.threads],
            "open_elsewhere": [
                {"id": memory.episode_id, "summary": memory.summary, "branch": branch or None}
                for memory, branch in self.threads_elsewhere
            ],
        }


def find_branch_state(
    store: Store, project_id: int | None, folder: str, *, git_seconds: float, but_session: str = ""
) -> Where:
    """Return the current state of the work in a folder, leaving out anything that has been finished since.

    Args:
        git_seconds: time limit for reading the working tree; if 0, git is not run.
        but_session: the asking session, which is left out.
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
    is_over = _is_over(row)
    calls = [] if is_over else _late_calls(store, sessions, project_id)
    last = _last_session(store, sessions[0], project_id) if sessions else None
    of_all = [row for row in latest_sessions_of(store, project_id, 2) if row.session_id != but_session]
    is_elsewhere = bool(of_all) and (last is None or of_all[0].id != last.session.id)
    elsewhere = _last_session(store, of_all[0], project_id) if is_elsewhere else None
    row_elsewhere = None if elsewhere is None else rows.get(elsewhere.branch)
    calls_elsewhere = _late_calls(store, of_all[:1], project_id) if elsewhere and not _is_over(row_elsewhere) else []
    over = {name for name, known in rows.items() if _is_over(known)}
    threads, threads_elsewhere = _open_threads(store, project_id, branch, over)
    return Where(
        branch=branch,
        branch_state=None if row is None else row.state,
        work_tree=tree,
        last=last,
        last_elsewhere=elsewhere,
        todos_elsewhere=tuple(_unfinished(calls_elsewhere)),
        failure_elsewhere=open_failure(calls_elsewhere[0]) if calls_elsewhere else None,
        todos=tuple(_unfinished(calls)),
        are_todos_of_last=bool(calls) and _has_todos(calls[0]),
        failure=open_failure(calls[0]) if calls else None,
        threads=tuple(threads),
        threads_elsewhere=tuple(threads_elsewhere),
    )


def _last_session(store: Store, session: SessionRow, project_id: int) -> LastSession:
    prompts = [" ".join(text.split()) for text in latest_prompts(store, session.id, project_id, MAX_PROMPTS)]
    silent_ms = store.now_ms() - session.last_at_ms
    return LastSession(
        session,
        branch=session.branch if session.project_id == project_id else "",
        resume=resume_of(store, session),
        prompt=next((prompt for prompt in prompts if filter_prompt(prompt).text), ""),
        final_prompt=prompts[0] if prompts else "",
        title=session_titles(store, [session])[session.session_id],
        is_recent=silent_ms <= MAX_SESSION_AGE_MS,
        is_at_work=silent_ms <= MAX_PAUSE_MS and _is_under_way(store, session),
    )


def _is_under_way(store: Store, session: SessionRow) -> bool:
    """Return True if a session's latest turn is open, was not interrupted, and does not end with the assistant's text.

    Without a hook that closes it, a turn remains open after its final answer.
    """
    stored = latest_turn(store, session.session_id)
    if stored is None or stored.turn.is_closed or stored.turn.is_interrupted:
        return False
    turn = stored.turn
    newest = max(turn.entries, key=lambda entry: entry.offset, default=None)
    return newest is None or all(said.uuid != newest.uuid for said in turn.said if said.role is Role.ASSISTANT)


def _is_over(branch: branches.BranchRow | None) -> bool:
    """Return True for a merged branch, unless it is the default branch."""
    return branch is not None and branch.state is BranchState.MERGED and not branch.is_default


def _open_threads(
    store: Store, project_id: int, branch: str, over: Collection[str]
) -> tuple[list[Memory], list[tuple[Memory, str]]]:
    """Return the latest memories of open problems: those learned on ``branch``, and the others, each with its branch.

    Args:
        over: the branches on which nothing is open any more.
    """
    states = [
        memory
        for memory in latest_memories(store, project_id=project_id, with_global=False, limit=MAX_CANDIDATES)
        if is_open_problem(memory, store.now_ms())
    ]
    places = branches.branches_of_memories(store, [memory.id for memory in states])
    alive = {memory.id: sorted(places.get(memory.id, set()) - set(over)) for memory in states}
    here = [memory for memory in states if branch in alive[memory.id]]
    elsewhere = [(memory, alive[memory.id][-1]) for memory in states if alive[memory.id] and memory not in here]
    return here[:MAX_THREADS], elsewhere[:MAX_THREADS]


def _late_calls(store: Store, sessions: Sequence[SessionRow], project_id: int) -> list[list[Action]]:
    """Return, for each session that is not too old, its tool calls in the project."""
    since_ms = store.now_ms() - MAX_AGE_MS
    return [calls_of_session(store, session.id, project_id) for session in sessions if session.last_at_ms >= since_ms]


def _unfinished(calls: Iterable[Sequence[Action]]) -> list[str]:
    """Return the unfinished entries of the latest todo list."""
    for of_session in calls:
        if _has_todos(of_session):
            return open_todos(of_session)
    return []


def _has_todos(calls: Iterable[Action]) -> bool:
    return any(call.todos or call.is_todo_list for call in calls)


def resume_of_id(store: Store, session_id: str) -> str:
    """Return the command that resumes the session with an id; "" for an unknown session, or if no file is left."""
    session = find_session(store, session_id) if session_id else None
    return "" if session is None else resume_of(store, session)


# -- The lines of a briefing about the branch.


def where_lines(where: Where, threads: Sequence[Memory]) -> list[str]:
    """Return a heading and the lines below it; empty if nothing is open and the branch has no session to resume.

    Uncommitted files are left out, because Claude Code's first request lists them.
    """
    lines = [title_line(memory, text) for memory in threads if not memory.suspect and (text := text_of(memory))]
    is_at_work = where.last is not None and where.last.is_at_work
    if not is_at_work and (failed := _failed(where.failure)):
        lines.append(f"- {failed}, and has not been seen to pass since.")
    if not (is_at_work and where.are_todos_of_last) and (todos := _todos(where.todos)):
        lines.append(f"- Unfinished in the todo list: {todos}.")
    lines += _session_lines(where, is_open=bool(lines))
    name = shown_name(where.branch, MAX_BRANCH_CHARACTERS)
    return [f"State of branch {name}:" if name else "State of the work:", *lines] if lines else []


def _session_lines(where: Where, *, is_open: bool) -> list[str]:
    """Return lines about the branch's last session and, on a trunk, about the latest one if it left work open.

    If nothing is open, there is no line for a session on the default branch or a trunk, or without an informative title
    or prompt. A session that is active now has left nothing open, and must not be resumed a second time.
    """
    here, elsewhere = where.last, where.last_elsewhere
    lines = []
    is_trunk = counts_as_merged(where.branch) or where.branch in TRUNKS
    if here is not None and here.is_at_work:
        doing = where.todos if where.are_todos_of_last else ()
        if doing or (not is_trunk and _is_named(here)):
            lines.append(_at_work_line(here, " on this branch" if where.branch else "", doing))
    elif here is not None and here.is_recent and (is_open or (not is_trunk and _is_named(here))):
        lines.append(f"- Last session on this branch: {_about(here)}.")
    left = "; ".join(part for part in (_failed(where.failure_elsewhere), _todos(where.todos_elsewhere)) if part)
    if elsewhere is None or not is_trunk:
        return lines
    name = shown_name(elsewhere.branch, MAX_BRANCH_CHARACTERS)
    place = f" (branch {name})" if name else ""
    if elsewhere.is_at_work:
        if where.todos_elsewhere:
            lines.append(_at_work_line(elsewhere, place, where.todos_elsewhere))
    elif left:
        lines.append(f"- Latest session overall{place}: {_about(elsewhere, left=left)}.")
    return lines


def _at_work_line(session: LastSession, place: str, todos: Sequence[str]) -> str:
    """Return the line about another session that is at work now."""
    return f"- Another session is at work now{place}: {_about(session, doing=_todos(todos))}."


def _failed(failure: Action | None) -> str:
    """Describe the last failure; "" unless the command is a check, because other failures leave nothing to do."""
    if failure is None or not is_check_command(failure.command):
        return ""
    command = without_redirections(without_comments(failure.command))
    command = _shown(command, MAX_COMMAND_CHARACTERS, is_typed=False)
    status = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
    return f"`{command.replace('`', chr(39))}` failed last{status}" if command else ""


def _todos(texts: Sequence[str]) -> str:
    todos = [text for todo in texts if (text := _shown(todo, MAX_TODO_CHARACTERS, is_typed=False))]
    more = f"; {len(todos) - MAX_TODOS} more" if len(todos) > MAX_TODOS else ""
    return f"{'; '.join(todos[:MAX_TODOS])}{more}"


def _is_named(last: LastSession) -> bool:
    return any(len(topic_words(text)) >= MIN_TELLING_WORDS for text in (last.title, last.prompt))


def _about(last: LastSession, left: str = "", doing: str = "") -> str:
    """Describe a session by its last informative prompt, or by the work that it left open or has yet to do."""
    prompt = "" if left or doing else _shown(last.prompt, MAX_PROMPT_CHARACTERS, is_typed=True)
    title = _shown(last.title.rstrip("…"), MAX_TITLE_CHARACTERS, is_typed=False)
    # The title of a session with a single prompt is that prompt.
    named = f', "{title}"' if title and not prompt.startswith(title) else ""
    which = "one of the last prompts" if last.prompt_before else "last prompt"
    asked = f', {which}: "{prompt}"' if prompt else ""
    open_work = f"; left open: {left}" if left else f"; yet to do: {doing}" if doing else ""
    resume = f"; `{last.resume}` resumes it" if last.resume and not last.is_at_work else ""
    return f"{day_of(last.session.last_at_ms)}{named}{asked}{open_work}{resume}"


def _shown(text: str, limit: int, *, is_typed: bool) -> str:
    """Return the text if it is short enough, on one line and not suspect; otherwise, ""."""
    if not text or len(text) > limit or "\n" in text.strip():
        return ""
    return "" if why_suspect(text, is_typed=is_typed, is_assistant=not is_typed) else shown_text(text, limit)
