"""Print results in human-readable form: a line with title, day, project and id, the text, and what resumes a session.

Every command that shows memories, sessions or passages prints them through this module. On a terminal, lines are
wrapped to its width, with colour and bold text unless NO_COLOR is set; a pipe gets plain text.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from engram.cli.output import columns_of, is_terminal, one_line, paragraph_width, safe, say, say_lines, when, wrapped
from engram.cli.workspace import Workspace, advise
from engram.enums import Scope
from engram.models.engine.transaction import Reader
from engram.models.memories.memory_records import EVERY_PROJECT, Memory
from engram.models.projects.projects import name_of_scope, project_by_id
from engram.models.work.work import FOREVER_MS, current_pauses
from engram.paths import current_folder
from engram.search.hit_lines import GLOBAL, NOT_RESUMABLE, pull_request_of, remarks_of
from engram.search.hits import NAMED_SPEAKER, SPEAKERS, PublicHit, in_folder, makes_folder
from engram.search.passages.wanted import Wanted, telling_part, without_bare_marker
from engram.system.clock import day_of
from engram.text.markdown import LineKind, paragraphs_of, readable_lines
from engram.text.splitting import is_lead_in, sentences
from engram.text.titles import in_words, with_short_question
from engram.transcripts.turns import Role
from engram.trust.display import capitalised, number_of, visible

#: Maximum number of results printed unless ``--limit`` or ``-v`` says otherwise.
MAX_RESULTS = 5
#: Maximum number of lines of text for the first result, and for each of the others.
MAX_FIRST_LINES, MAX_OTHER_LINES = 9, 4
#: The same for hits of a question, of which the best must be read at a glance.
LINES_OF_ANSWER = (7, 2)
#: Minimum width of a title, in columns, for it to share a line with the day and the project.
_MIN_TITLE_WIDTH = 24
#: The same for the title of a result, which is left out if even less is free.
_MIN_DIM_WIDTH = 8
#: Maximum number of pieces of evidence printed with ``-v``.
_MAX_EVIDENCE = 3
_INDENT = "   "
_BETWEEN = " · "
#: Precedes how the turn of a passage ended.
OUTCOME_MARK = "→ "
#: Remark on a prompt from Claude Code's prompt history.
_ONLY_PROMPT = "only this prompt is known; its transcript with the answer is gone"
#: Who said a passage, in words.
_SPEAKERS = {
    "user": "you",
    "chosen": "you chose",
    "assistant": "Claude",
    "proposed": "Claude's plan",
    "program": "a program",
    "context": "not typed",
}
#: The words for speakers in stored lines → the role.
_ROLES = {words: role for role, words in SPEAKERS.items()}


@dataclass(frozen=True, slots=True)
class Result:
    """The parts of a result that are printed. Any part may be ""; none has been made safe for a terminal yet."""

    #: Its title for display, in bold, and truncated if the line is full. A title that is also the text is never
    #: truncated.
    title: str
    #: Day, project, kind and anything else that shows where it belongs.
    about: Sequence[str] = ()
    #: What a reader must know before believing the result.
    remarks: Sequence[str] = ()
    text: str = ""
    #: Its outcome, printed below the text.
    outcome: str = ""
    #: Its id, printed with the title.
    id: str = ""
    #: The file and line that it is in, if it has no id.
    place: str = ""
    #: The command that resumes its session.
    resume: str = ""
    #: Printed with ``-v`` only.
    details: Sequence[str] = ()
    #: Who contradicted it later, printed above its outcome.
    followed: str = ""
    #: Returns the part of a text that best answers the question, for a function that returns True for a text that fits;
    #: None to cut a long text at its end.
    cut: Callable[[str, Callable[[str], bool]], str] | None = None


def print_results(
    results: Sequence[Result],
    *,
    is_verbose: bool = False,
    most_lines: Sequence[int] = (MAX_FIRST_LINES, MAX_OTHER_LINES),
) -> None:
    """Print results, best first, then the command that resumes the session of the best one whose folder exists.

    Args:
        is_verbose: print whole texts, the details, and every command.
        most_lines: maximum number of lines of text of each result; the last number is for all that follow.
    """
    for number, result in enumerate(results, 1):
        max_lines = None if is_verbose else most_lines[min(number, len(most_lines)) - 1]
        if number > 1 and is_verbose:
            click.echo()
        _print_result(f"{number}. ", result, max_lines, is_first=number == 1)
    resumes = (result.resume for result in results if result.resume and not makes_folder(result.resume))
    if not is_verbose and (resume := next(resumes, "")):
        say_lines(_plain(resume), dim=True)


def print_excerpt(result: Result) -> None:
    """Print a result in a few lines, without its number and its id."""
    _print_result(_INDENT, replace(result, id="", place=""), MAX_OTHER_LINES, is_first=False)


def print_lines(text: str, *, indent: str = "", max_lines: int | None = None, **style: Any) -> int:
    """Print a stored text wrapped to the terminal, with its lists preserved; return the number of lines.

    Args:
        indent: the prefix of every line.
        max_lines: lines beyond this number are replaced by "…"; None prints all.
        style: as for ``click.style``.
    """
    width = paragraph_width() - len(indent)
    lines = list(_wrapped(text, width))
    if max_lines is not None and len(lines) > max_lines:
        # Lines are not filled to the end.
        lines = list(_wrapped(with_short_question(text, max_lines * width * 9 // 10), width))
    kept = lines if max_lines is None else lines[:max_lines]
    if len(kept) < len(lines):
        while len(kept) > 1 and is_lead_in(kept[-1]):
            # A line that introduces what is left out says nothing.
            kept = kept[:-1]
        if not kept[-1].endswith("…"):
            kept[-1] = _cut(f"{kept[-1]} …", width)
    for line in kept:
        click.secho(indent + line if line else "", **style)
    return len(kept)


def print_head(title: str, about: Iterable[str] = (), *, begin: str = "", name: str = "", is_dim: bool = False) -> None:
    """Print the first line of a result: its title in bold, then where it belongs, then its id, which is never cut.

    Args:
        name: the id.
        is_dim: print all of it dim and on one line, because the text below says more than the title.
    """
    width = paragraph_width() - columns_of(begin)
    name = f" [{_plain(name)}]" if name else ""
    told = _BETWEEN.join(_plain(part) for part in about if part)
    told = _cut(told, max(width - columns_of(name), 1)) + name
    room = width - columns_of(told) - len(_BETWEEN)
    title, style = _plain(title), {"dim": True} if is_dim else {"bold": True}
    if not title or (is_dim and told and room < min(_MIN_DIM_WIDTH, columns_of(title))):
        click.echo(begin + click.style(told.lstrip(), **style))
    elif is_dim or not told or room >= min(_MIN_TITLE_WIDTH, columns_of(title)):
        named = click.style(_cut(title, room if told else width), **style)
        between = "" if told == name else _BETWEEN
        click.echo(begin + named + (click.style(between + told, dim=True) if told else ""))
    else:
        click.echo(begin + click.style(_cut(title, width), **style))
        click.secho(" " * len(begin) + told.lstrip(), dim=True)


def memory_about(memory: Memory) -> list[str]:
    """Return where a memory belongs: its day, project, kind, and anything unusual about it."""
    flags = [name for name, is_set in (("pinned", memory.is_pinned), ("judged wrong", memory.is_lowered)) if is_set]
    status = "" if memory.status.is_current else memory.status.told
    return [day_of(memory.created_at_ms), memory.place, memory.kind.value, status, *flags]


def named_memory(memory: Memory, text: str = "") -> str:
    """Return a memory's words in quotes, or ``text`` instead, then its id, project and day."""
    about = ", ".join((memory.episode_id, memory.place, day_of(memory.created_at_ms)))
    return f"“{text or one_line(memory.summary)}” ({about})"


def hit_result(hit: PublicHit, here: str = "", *, asked: Wanted | None = None, with_parts: bool = False) -> Result:
    """Return the parts of a search result that are printed.

    Args:
        asked: what the question asks for; a long text is cut around the sentence that answers it.
        here: the folder in which this command runs; to resume a session elsewhere, the printed command changes folders.
        with_parts: also print the parts of the score.
    """
    day = day_of(hit.created_at_ms) if hit.created_at_ms else ""
    kind = "" if hit.kind in ("turn", "commits") else hit.kind
    is_everywhere = not hit.project and hit.memory is not None and hit.memory.scope == Scope.GLOBAL
    place = EVERY_PROJECT if is_everywhere else hit.project
    about = [day, place, speaker_of(hit.role, hit.origin.assistant) or kind]
    title, text = _title_and_text(hit, about)
    cut = None
    if asked is not None and text.strip() and title != text:
        cut = partial(_cut_around, hit, asked)
    if hit.kind == "note":
        # The headings of a daily log name the day and the project.
        about = [part for part in about if not part or part not in title]
    resume = in_folder(hit.origin.resume, hit.origin.folder, here)
    said = [remark for remark in remarks_of(hit) if remark != GLOBAL or not is_everywhere]
    remarks = [*said, *(_ONLY_PROMPT for _ in range(_is_only_prompt(hit)))]
    commit = f"commit {hit.origin.commit}" if hit.origin.commit else ""
    has_id = hit.kind not in ("commits", "session", "note")
    return Result(
        title=title,
        about=about,
        remarks=remarks,
        text=text,
        outcome=hit.outcome,
        followed=f"(then {hit.followed})" if hit.followed else "",
        id=hit.id if has_id else "",
        place=_place_of_note(hit) if hit.kind == "note" else "",
        cut=cut,
        resume=resume,
        details=[
            f"“{' '.join(hit.quote.split())}”" if hit.quote else "",
            f"score {hit.score:.3f}" if has_id else f"{hit.id}  score {hit.score:.3f}",
            _score_in_words(hit.parts) if with_parts else "",
            *(f"{place.text}  {place.uuid}" for place in hit.evidence[:_MAX_EVIDENCE] if place.path),
            _BETWEEN.join(part for part in (commit, pull_request_of(hit) and hit.origin.pull_request) if part),
        ],
    )


#: Part of a score → what adds to it, or takes from it, in words.
PARTS_IN_WORDS: Mapping[str, str] = {
    "text": "its words",
    "vector": "its meaning",
    "neighbours": "what was said next to it",
    "turn": "the rest of its turn",
    "source": "the turn that it was made from",
    "session": "its session",
    "time": "its time",
    "names": "names in it",
    "speaker": "who said it",
    "form": "the form of its sentences",
    "latest": "how late it was said",
    "validity": "no longer valid",
    "branch": "another branch",
    "priority": "pinned or important",
    "ties": "its age and use",
}


def _score_in_words(parts: Mapping[str, float]) -> str:
    """Return what a score consists of, the largest part first; parts too small to show are left out."""
    shown = [(name, value) for name, value in parts.items() if round(value, 2)]
    ranked = sorted(shown, key=lambda part: -abs(part[1]))
    return ", ".join(f"{PARTS_IN_WORDS.get(name, name)} {value:+.2f}" for name, value in ranked)


def print_titles(results: Sequence[Result], *, empty: str) -> None:
    """Print results as a list: a line with the title in bold and what follows it, where it belongs, and its id.

    A line is cut at the terminal's width; a pipe gets all of it. ``empty`` is printed if there are no results.
    """
    for result in results:
        title, line = _plain(result.title), _plain(result.title + result.text)
        if is_terminal() or not result.text:
            line = _cut(line, paragraph_width())
        click.echo(click.style(line[: len(title)], bold=True) + line[len(title) :])
        about, name = _BETWEEN.join(_plain(part) for part in result.about if part), _plain(result.id)
        told = _BETWEEN.join(part for part in (about, name) if part)
        is_short = not is_terminal() or columns_of(told) <= paragraph_width() - len(_INDENT)
        for line in [told] if is_short else filter(None, (about, name)):
            say_lines(line, indent=_INDENT, dim=True)
    if not results:
        advise(empty)


def print_rest(total: int, shown: int) -> None:
    """Print how many of ``total`` rows a list leaves out, and how to see them."""
    if total > shown:
        click.secho(f"\n{total - shown} more; add -n {total} to see all", dim=True)


def print_remarks(remarks: Iterable[str]) -> None:
    """Print what a reader must know before believing what follows, if anything."""
    told = ", ".join(remark for remark in remarks if remark)
    if told:
        print_lines(f"! {told}", indent="  ", fg="yellow")


def print_last(*parts: str) -> None:
    """Print the last line of a result: its id and the command that resumes its session."""
    told = " ".join(_plain(part) for part in parts if part)
    if told:
        click.secho(f"  {told}", dim=True)


def speaker_of(role: str, assistant: str) -> str:
    """Return who speaks in a role, in a session in which the assistant has this name."""
    return _SPEAKERS.get(role, role).replace("Claude", assistant)


def pauses_in_words(store: Reader, pauses: Mapping[str, int]) -> list[str]:
    """Describe the pauses that ``current_pauses`` returns, each with its end."""
    found = []
    for scope, until_ms in pauses.items():
        name = name_of_scope(store, scope)
        found.append(f"{name} until {when(until_ms)}" if until_ms < FOREVER_MS else name)
    return found


def pause_note(store: Reader, project_id: int | None, what: str) -> str:
    """Return a sentence saying that a project, or everything, is paused, followed by ``what``; "" if it is not."""
    paused = current_pauses(store)
    project = None if project_id is None else project_by_id(store, project_id)
    if "" in paused:
        name, off = "Engram", "engram pause --off"
    elif project is not None and project.identity in paused:
        name, off = project.name, f"engram pause --off --project {shlex.quote(project.name)}"
    else:
        return ""
    return f"{name} is paused: {what}; `{off}` ends the pause."


def say_masked(workspace: Workspace, *texts: str) -> None:
    """Print which placeholders replace the secrets in text that was just typed; print nothing if there are none."""
    from engram.redaction.values import MARK  # commands that only read don't need it

    redact, before = workspace.redactor(), Counter(mark for text in texts for mark in MARK.findall(text))
    masked = Counter(mark for text in texts for mark in MARK.findall(redact(text))) - before
    if masked:
        verb = "was" if masked.total() == 1 else "were"
        say(f"{number_of(masked.total(), 'secret')} {verb} masked: {', '.join(masked)}.")


def readable_content(memory: Memory) -> str:
    """Return a memory's content with its labels in words and without the sentences of its summary and its facts."""
    said = " ".join([*memory.summary.split(), *" ".join(memory.facts).split()])

    def unsaid(part: str) -> str:
        paragraphs = paragraphs_of(part.splitlines())
        left = (_unsaid(lines, said) if kind is LineKind.PROSE else lines for lines, kind in paragraphs)
        return "\n".join(line for lines in left for line in lines)

    return in_words(memory.content, unsaid)


def _unsaid(lines: Sequence[str], said: str) -> Sequence[str]:
    """Return a paragraph without the sentences that ``said`` contains; unchanged if there are none."""
    parts = sentences(" ".join(" ".join(lines).split()))
    left = [part for part in parts if part not in said]
    return lines if len(left) == len(parts) else [" ".join(left)] if left else []


def resuming(resume: str, folder: str) -> str:
    """Return the command that resumes a session from the current folder, or why none does."""
    return in_folder(resume, folder, current_folder()) or NOT_RESUMABLE


def folders_of(store: Reader, session_ids: Iterable[str]) -> dict[str, str]:
    """Return the folder in which each session began."""
    from engram.models.sessions.sessions import sessions_of  # most commands that ask the worker don't need it

    return {name: session.cwd for name, session in sessions_of(store, set(session_ids)).items()}


def _place_of_note(hit: PublicHit) -> str:
    """Return the file and line of a note, which has no id."""
    return next((f"{place.path}, line {place.line}" for place in hit.evidence if place.path), "")


def _is_only_prompt(hit: PublicHit) -> bool:
    """Return True for a prompt whose transcript is gone."""
    from engram.transcripts.claude_code.history import PREFIX  # loads a reader of transcripts; few hits need it

    return hit.role == Role.USER and hit.session_id.startswith(PREFIX)


def _title_and_text(hit: PublicHit, about: Sequence[str]) -> tuple[str, str]:
    """Return the title of a hit, and its text without what the title already says."""
    text = hit.text.strip()
    if hit.kind == "note":
        heading, _, rest = text.partition("\n")
        return (heading.lstrip("# ") or hit.id, rest or heading) if rest.strip() else (hit.id, text)
    if hit.kind == "commits":
        return "Committed that day", text
    if hit.memory is None:
        return hit.title, _with_speakers(hit, without_bare_marker(text))
    if hit.written_title:
        return hit.written_title, text
    if "\n" not in text and _fits("10. ", Result(text, about, id=hit.id)):
        return text, text
    return hit.origin.session_title or hit.title, text


def _with_speakers(hit: PublicHit, text: str) -> str:
    """Return a run of a hit's text with its speakers as a person calls them."""
    if not hit.names_speakers:
        return text
    assistant = hit.origin.assistant
    return NAMED_SPEAKER.sub(lambda found: f"{capitalised(speaker_of(_ROLES[found[1]], assistant))}: ", text)


def _cut_around(hit: PublicHit, asked: Wanted, text: str, fits: Callable[[str], bool]) -> str:
    """Return the part of a hit's text, or of its outcome, around the sentence that best answers the question.

    The whole text is returned if it fits.
    """
    if fits(text):
        return text
    if text.startswith(OUTCOME_MARK):
        # Its statements are on one line, with semicolons between the points of a list.
        points = text.removeprefix(OUTCOME_MARK).replace("; ", ";\n")
        told = telling_part(points, asked, lambda run: fits(OUTCOME_MARK + " ".join(run.split())))
        return OUTCOME_MARK + " ".join(told.split())
    if not hit.names_speakers:
        return telling_part(text, asked, fits)
    return _with_speakers(hit, telling_part(hit.text.strip(), asked, lambda run: fits(_with_speakers(hit, run))))


def _print_result(begin: str, result: Result, max_lines: int | None, *, is_first: bool) -> None:
    """Print a result: all of it, with its details and what resumes its session, if ``max_lines`` is None."""
    if result.title == result.text and not _fits(begin, result):
        result = replace(result, title="")
    is_text = result.title == result.text
    print_head(result.title, result.about, begin=begin, name=result.id, is_dim=not is_text)
    if is_text:
        result = replace(result, text="", cut=None)
    if result.remarks:
        print_lines(f"! {', '.join(result.remarks)}", indent=_INDENT, fg="yellow")
    outcome = f"{OUTCOME_MARK}{result.outcome}" if result.outcome and (is_first or max_lines is None) else ""
    _print_texts(result, [text for text in (result.followed, outcome) if text], max_lines)
    last = [result.place] if max_lines else [result.place, result.resume, *result.details]
    for line in filter(None, last):
        say_lines(_plain(line), indent=_INDENT, dim=True)


def _print_texts(result: Result, texts: Sequence[str], max_lines: int | None) -> None:
    """Print the text of a result, then others.

    Each of the others gets a third of the lines, and those that are left.
    """
    width = paragraph_width() - len(_INDENT)
    third, left = -(-(max_lines or 0) // 3), max_lines
    sizes = [len(list(_wrapped(text, width))) for text in texts]
    for place, text in enumerate((result.text.strip("\n"), *texts)):
        room = None if left is None else left - sum(min(size, third) for size in sizes[place:])
        if room is not None and result.cut is not None and text != result.followed:
            text = result.cut(text, partial(_fits_in, width, room))
        if text.strip():
            printed = print_lines(text, indent=_INDENT, max_lines=room)
            left = None if left is None else left - printed


def _fits_in(width: int, max_lines: int, text: str) -> bool:
    return len(list(_wrapped(text, width))) <= max_lines


def _fits(begin: str, result: Result) -> bool:
    """Return True if the full title of a result fits on the line with its day, project and id."""
    head = _BETWEEN.join(map(_plain, [result.title, *filter(None, result.about)]))
    return columns_of(f"{begin}{head} [{result.id}]") <= paragraph_width()


def _wrapped(text: str, width: int) -> Iterable[str]:
    """Yield the lines of a Markdown text for a terminal."""
    for line, rest in readable_lines(safe(text).strip("\n")):
        yield from wrapped(line, max(width, 1), rest=rest)


def _plain(text: str) -> str:
    return " ".join(visible(text).split())


def _cut(text: str, width: int) -> str:
    """Return a line of at most ``width`` columns, truncated at a word boundary if one is near."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[:-1]
    word_end = text.rfind(" ")
    return (text[:word_end] if word_end > len(text) * 2 // 3 else text).rstrip(" ·…") + "…"


def all_memories(number: int, retired: int) -> str:
    """Return a number of memories in words, and how many of them other counts leave out: those no longer current."""
    aside = f" ({retired:,} of them replaced or archived)" if retired else ""
    return f"{number_of(number, 'memory')}{aside}"


def memories_in_words(memories: Sequence[Memory]) -> str:
    return all_memories(len(memories), sum(not memory.is_current for memory in memories))
