"""Tell a session where the work on its branch stands, in lines that stand alone."""

from __future__ import annotations

from collections.abc import Sequence

from engram.clock import day_of
from engram.models.branches import MAX_BRANCH_CHARACTERS
from engram.models.episodes import Episode
from engram.recollection.briefing_choice import text_of
from engram.recollection.briefing_lines import title_line
from engram.recollection.render import shown_name, shown_text
from engram.recollection.where import LastSession, Where
from engram.redaction.suspicion import why_suspect
from engram.text.commands import without_comments
from engram.transcripts.git_branches import counts_as_merged
from engram.transcripts.git_status import WorkTree

#: Files that are named, todos that are told, and the longest of each, in characters.
MAX_FILES, MAX_TODOS = 5, 5
MAX_FILE_CHARACTERS, MAX_TODO_CHARACTERS = 80, 200
#: A longer prompt or command is not told, in characters: half a sentence says nothing.
MAX_PROMPT_CHARACTERS, MAX_COMMAND_CHARACTERS = 160, 120


def where_lines(where: Where, threads: Sequence[Episode]) -> list[str]:
    """Return a heading and its lines; nothing if all is finished on the default branch, and the last work was there.

    Args:
        where: the state of the work.
        threads: memories of open problems to tell.
    """
    lines = [title_line(episode, text) for episode in threads if not episode.suspect and (text := text_of(episode))]
    tree, failure = where.work_tree, where.failure
    if tree is not None and not tree.is_clean:
        lines.append(f"- Not committed: {_changes(tree)}.")
    if tree is not None and tree.unpushed:
        lines.append(f"- Not pushed: {tree.unpushed} commit{'s' if tree.unpushed > 1 else ''}.")
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
    asked = f', asked last: "{prompt}"' if prompt else ""
    resume = f"; `{last.resume}` resumes it" if last.resume else ""
    return f"{day_of(last.session.last_at_ms)}{asked}{resume}"


def _changes(tree: WorkTree) -> str:
    parts = []
    for names, noun in ((tree.changed, "changed file"), (tree.untracked, "new file")):
        if names:
            shown = [shown for name in names[:MAX_FILES] if (shown := shown_name(name, MAX_FILE_CHARACTERS))]
            listed, left_out = ", ".join(shown), len(names) - len(shown)
            more = f"{' and ' if shown else ''}{left_out} more" if left_out else ""
            parts.append(f"{len(names)} {noun}{'s' if len(names) > 1 else ''} ({listed}{more})")
    return " and ".join(parts)


def _shown(text: str, limit: int, *, is_typed: bool) -> str:
    """Return a text that is whole and harmless; "" for any other."""
    if not text or len(text) > limit or "\n" in text.strip():
        return ""
    return "" if why_suspect(text, is_typed=is_typed, is_assistant=not is_typed) else shown_text(text, limit)
