"""Recognise what a shell command does, and what identifies a failing one. Pure functions."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise

from engram.system.lazy_regex import any_case, lazy_regex

# -- Recognise what a shell command does.

_TEST_COMMAND = lazy_regex(
    r"\b(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|ava|playwright|cypress|rspec|phpunit|ctest|go test|"
    r"cargo (?:test|nextest)|(?:npm|pnpm|yarn|bun|deno|make|mvn|gradle|gradlew|dotnet|mix|swift|bazel|just|rake) "
    r"(?:run )?(?:\S+:)?(?:test|check|verify)\w*)\b"
)

#: Programs, and tasks of a task runner, that build or check the code.
_CHECK_COMMAND = lazy_regex(
    r"\b(?:tsc|eslint|biome|ruff|flake8|mypy|pyright|clippy|golangci-lint|shellcheck|go (?:build|vet)|"
    r"cargo (?:build|check)|(?:dotnet|swift|bazel|xcodebuild|docker|docker[ -]compose|mvn|gradle|gradlew) \S*build|"
    r"cmake --build|mvn (?:compile|package|install)|terraform (?:plan|validate)|pre-commit run|"
    r"(?:npm|pnpm|yarn|bun|deno|make|mise|just|rake|task|turbo|nx|mix) (?:run |exec )?"
    r"(?:\S+:)?(?:build|compile|lint|type-?check|tsc|format|ci|test|check|verify)\w*)\b|^\s*make\s*$"
)
#: A command that only prints a program's version or help.
_ASKS_PROGRAM = lazy_regex(r"^\s*\S+(?:\s+[\w:-]+){0,3}\s+(?:--version|--help|-h|-V|version|help)\s*$")


#: What a command contains if it may work in a folder other than the one in which it starts.
_MAY_ENTER = lazy_regex(r"\b(?:cd|pushd)\s|\s-C\s|\s--(?:prefix|cwd|dir|directory|work-tree|project)\b")
_ASSIGNED = lazy_regex(r"[A-Za-z_]\w*=")
_SIGNS = lazy_regex(r"[();<>|&\n]+")
#: A path to a single folder, without anything that the shell would expand.
_KNOWN_PATH = lazy_regex(r"(?!-)[^$`*?\[\]{}<>|&;\n]{1,4096}")
#: Program → options that specify its working folder.
_FOLDER_OPTIONS = {
    **dict.fromkeys(("git", "make", "gmake", "ninja", "go", "just", "meson", "tar"), ("-C",)),
    "git": ("-C", "--work-tree"),
    "npm": ("--prefix", "-C"),
    "pnpm": ("-C", "--dir"),
    "yarn": ("--cwd",),
    "bun": ("--cwd",),
    "uv": ("--directory", "--project"),
    "poetry": ("-C", "--directory", "--project"),
    "cargo": ("-C",),
}
#: Quoted text, an escaped character, or a comment.
_COMMENT = lazy_regex(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|(^|(?<=[\s;&|(]))#[^\n]*", re.MULTILINE | re.DOTALL)


def without_comments(command: str) -> str:
    """Return a shell command without its comments, which don't affect what it does."""
    bare = _COMMENT.sub(lambda found: "" if found[0].startswith("#") else found[0], command)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


def entered_folders(command: str) -> list[str]:
    """Return the folders that a shell command works in, in order: those that it enters or passes as options.

    Examples: ``cd a && make``, ``(cd b; npm test)``, ``git -C a log``, ``npm --prefix=web test``. Relative paths are
    relative to the folder in which the command starts. Folders that come from a variable or another command are left
    out, as is everything after the beginning of a here-document.
    """
    if not _MAY_ENTER.search(command):
        return []
    found: list[str] = []
    here, outer = "", [""]
    for words, end in _simple_commands(command):
        while words and _ASSIGNED.match(words[0]):
            words.pop(0)
        folder = words[1] if len(words) > 1 and words[0] in ("cd", "pushd") else ""
        if folder and _KNOWN_PATH.fullmatch(folder):
            here = os.path.join(here, folder)
            found.append(here)
        found += [os.path.join(here, path) for path in _named_folders(words)]
        for sign in end:
            if sign == "(":
                outer.append(here)
            elif sign == ")" and len(outer) > 1:
                here = outer.pop()
    return found


def _simple_commands(command: str) -> Iterator[tuple[list[str], str]]:
    """Yield each simple command's words and the signs that end it, up to a here-document or an unclosed quotation."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    try:
        for word in lexer:
            if not _SIGNS.fullmatch(word):
                words.append(word)
            elif word.startswith(("<", ">")):
                if "<<" in word:
                    break
                words.append(word)
            else:
                yield words, word
                words = []
    except ValueError:
        # An unclosed quotation: the command was cut off.
        return
    yield words, ""


def git_calls(command: str) -> Iterator[list[str]]:
    """Yield the words of each call of git in a command from its subcommand on, such as ``["reset", "--hard"]``."""
    for words, _ in _simple_commands(command):
        at = words.index("git") + 1 if "git" in words[:2] else len(words)
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in ("-C", "-c") else 1
        if at < len(words):
            yield words[at:]


def _named_folders(words: list[str]) -> Iterator[str]:
    """Yield the folders that a program's options make it work in."""
    options = _FOLDER_OPTIONS.get(words[0], ()) if words else ()
    for number, word in enumerate(words[1:], start=1):
        name, equals, value = word.partition("=")
        path = value if equals else words[number + 1] if number + 1 < len(words) else ""
        if name in options and path and _KNOWN_PATH.fullmatch(path):
            yield path


def is_test_command(command: str) -> bool:
    return bool(_TEST_COMMAND.search(command))


def is_check_command(command: str) -> bool:
    """Return True for a command that tests, builds or checks the code, so that its failure means work to do."""
    is_check = is_test_command(command) or bool(_CHECK_COMMAND.search(command))
    return is_check and not _ASKS_PROGRAM.match(command)


# -- What identifies a failing command: the programs that it runs, and keys of the informative lines of its error.
#
# A key is the hash of a line from which everything that differs between runs has been removed: folders, numbers, dates,
# hexadecimal ids, the branch.

#: Maximum number of informative lines stored per error.
MAX_LINES = 8
#: Maximum length of a line, in characters; the rest is cut off.
MAX_LINE_CHARACTERS = 300
#: Maximum number of lines of one error that are examined, from its beginning and from its end.
MAX_SCANNED_LINES = 400
#: A line identifies an error only if it has at least this many words, not counting general ones.
MIN_WORDS = 2
#: From a line with at least this many such words apart from its quoted names, the names are removed.
MIN_WORDS_WITHOUT_NAMES = 4
#: Maximum number of programs stored per command.
MAX_PROGRAMS = 6

_ANSI = lazy_regex(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Lines that state an error, most informative first.
_TELLING = (
    lazy_regex(r"^(?:E +)?[\w.]*(?:Error|Exception|Panic)\b.*:|^E +\S"),
    any_case(r"\b(?:error|fatal|panic|fail(?:ed|ure)?)\b|×|✗|✘"),
)
#: Words that occur in other lines that state an error.
_TELLING_WORDS = (
    *"cannot can't couldn't denied undefined unexpected unknown unrecognized invalid refused missing conflict".split(),
    *("could not", "not found", "no such", "must ", "has no ", "does not", "are ignored", "not formatted"),
    *("timed out", "unable to"),
)
#: Lines of logs, progress reports, code listings and warnings, which may mention an error without stating it.
_NOISE = lazy_regex(
    r"^(?:Exit code|Traceback |\$ |> |WARN|warning\b|INFO|DEBUG|hint:|note:|time=|[\d\s]*[│|]|\+ |at \S+ ?\()"
    r"|\b(?:INFO|DEBUG|WARN|PASS)\b|^(?:=== |--- PASS|ok\s)",
)
#: ``file:line:column:`` or ``file(line,column):`` at the beginning of a line from a compiler or linter.
_PLACE = lazy_regex(r"^(?:\[[\w:-]+\] )?[\w./\\@~+-]+(?::\d+(?::\d+)?|\(\d+,\d+\)):?\s+(?:-\s+)?")
_URL = lazy_regex(r"\b[a-z][a-z+]*://\S+")
_UUID = any_case(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: The folders of a path, without its last part.
_FOLDERS = lazy_regex(r"(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+(?=[\w.@~+-]|\b)")
_NUMBER = any_case(r"\b(?=\w*\d)(?:0x)?[0-9a-f]{6,}\b|\d+(?:\.\d+)*")
_NAME = lazy_regex(r"`[^`]+`|'[^']+'|\"[^\"]+\"")
_WORD = lazy_regex(r"[^\W\d_][\w-]+")
#: Words that occur in all kinds of errors, so they don't identify any.
_GENERAL_WORDS = frozenset(
    "an and are as at be been build by can cannot check checks code command could did do does emitted end error errors "
    "exit exited expected fail failed failing failure failures fatal file for found from has have in is it job line "
    "lines more not of on one or pre problem problems run running script see set some status step task test tests that "
    "the this to total try validation was were when while with you".split()
)

QUOTED = lazy_regex(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_SEPARATOR = lazy_regex(r"\s*(?:&&|\|\||[;|\n])\s*")
#: A value with a command in it ("$(make test)") is none of these, unless it is quoted.
_ASSIGNMENTS = lazy_regex(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|[^\s\"'`(])*+\s+)+")
_PROGRAM = lazy_regex(r"(?:[\w.@~+-]*/)*([A-Za-z][\w.+-]*)(?![^\s])((?:\s+[a-z][\w:-]*(?!\S)){0,2})")
#: Programs whose second word may only say that something is run; the third word is what is run.
_RUNNERS = frozenset(["bun", "cargo", "deno", "mise", "npm", "pnpm", "poetry", "rtk", "uv", "yarn"])
_RUN_WORDS = frozenset(["bun", "run", "exec", "x", "dlx"])
#: Programs that only inspect or move files. Their failures are not recorded.
READ_ONLY_PROGRAMS = frozenset(
    "cat cd chmod cp cut echo false find grep head jq less ls mkdir mv printf pwd rg rm sed set sleep sort source tail "
    "tee test touch tr true uniq wc which xargs".split()
)


def programs_of(command: str) -> tuple[str, ...]:
    """Return the programs that a command runs, each with its subcommand, such as ``go test`` or ``bun run lint``.

    Only the first line is examined. Programs that only inspect or move files are left out.
    """
    lines = command.strip().splitlines()
    programs: dict[str, None] = {}
    for part in _SEPARATOR.split(QUOTED.sub('""', lines[0]) if lines else ""):
        match = _PROGRAM.match(without_assignments(part))
        if match is None or match[1] in READ_ONLY_PROGRAMS:
            continue
        words = match[2].split()
        count = 2 if match[1] in _RUNNERS and words and words[0] in _RUN_WORDS else 1
        programs[" ".join([match[1], *words[:count]])] = None
    return tuple(programs)[:MAX_PROGRAMS]


def without_assignments(command: str) -> str:
    """Return a command without the variables that are set for it, such as ``CI=1 make``."""
    return _ASSIGNMENTS.sub("", command)


#: Words before a command that don't affect what it does.
_WRAPPERS = lazy_regex(r"^\s*(?:(?:sudo|doas|time|nice|nohup|rtk|command|exec|env)\s+(?!-))+")


def meant_programs(command: str) -> tuple[str, ...]:
    """Return the programs that a command runs, like ``programs_of``, ignoring a prefix such as ``sudo``."""
    return programs_of(_WRAPPERS.sub("", command))


#: Words that may precede a program, and runners that may run it.
_BEFORE = frozenset(
    "sudo doas env time nice nohup xargs timeout exec command builtin if then else elif do while until ! { "
    "npx bunx uvx pipx bun deno mise npm pnpm poetry pdm hatch rtk uv yarn".split()
)
_RUNNER_WORDS = _RUN_WORDS | {"-m"}
#: Maximum length of a command that a list shows in full, in characters.
MAX_TOLD_CHARACTERS = 100
_PYTHON = lazy_regex(r"python[\d.]*")


def runs_program(command: str, tool: str) -> bool:
    """Return True if a command runs a program such as ``ffmpeg`` or ``git rebase``, even via ``sudo`` or ``uv run``.

    If ``tool`` has several words, the others must follow the program, ignoring options and the value of one option.
    """
    return count_runs(command, tool) > 0


def count_runs(command: str, tool: str) -> int:
    """Return how many times a command runs a program, counted as by ``runs_program``."""
    name, *rest = tool.split() or [""]
    return sum(_is_run(words, name, rest) for words, _ in _simple_commands(command))


def told_runs(command: str, tool: str) -> str:
    """Return a command as a list shows it: if it is long, only those of its simple commands that run a program."""
    text = without_heredocs(command).replace("\\\n", " ").strip()
    if len(text) <= MAX_TOLD_CHARACTERS:
        return text
    plain = QUOTED.sub(lambda quoted: "'" * len(quoted[0]), text)
    ends = [(0, 0), *(end.span() for end in _ENDS.finditer(plain)), (len(text), len(text))]
    parts = (_run_by(text[start:stop]).strip() for (_, start), (stop, _) in pairwise(ends))
    return " … ".join(dict.fromkeys(part for part in parts if runs_program(part, tool))) or text


def _is_run(words: list[str], name: str, rest: list[str]) -> bool:
    at = 0
    while at < len(words):
        word = words[at]
        if os.path.basename(word) == name:
            given = [other for other in words[at + 1 :] if not other.startswith("-")]
            has_option = words[at + 1 : at + 2] != given[:1]
            return any(given[start : start + len(rest)] == rest for start in (0, 1)[: 1 + has_option])
        is_option = at > 0 and (word.startswith("-") or word[:1].isdecimal())
        is_before = word in _BEFORE or word in _RUNNER_WORDS or _PYTHON.fullmatch(word) or _ASSIGNED.match(word)
        if not (is_before or is_option):
            return False
        at += 1
    return False


# -- The part of a command whose outcome can be inferred from the exit status.

#: A here-document with the line that introduces it.
_HEREDOC = lazy_regex(r"(?<!<)(<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*)\n(?:.*?^[ \t]*\3[ \t]*$|.*)", re.MULTILINE | re.DOTALL)
#: A command whose output is a here-document, in the result of replacing its content by ``…``.
_HEREDOC_ARGUMENT = lazy_regex(r"\$\(\s*cat\s+<<-?[ \t]*(['\"]?)\w+\1 …\s*(?:\)|\Z)")
#: What ends a simple command.
_ENDS = lazy_regex(r"(?:&&|\|\||(?<!>)\|&?|;+|\n|(?<![<>])&(?![>&])|[()])\s*")
#: Options that give a pipe the status of any command in it that fails, and that end a script at the first failure.
_PIPEFAIL, _ERREXIT = lazy_regex(r"\s-\w*o\s+pipefail\b"), lazy_regex(r"\bset\s+-(?:\w*e\w*\b|o\s+errexit\b)")
#: A word that ends a group of commands, whose status is that of the last command in it.
_CLOSES = lazy_regex(r"(?:\}|done|fi|esac)\b|\}")
#: Words before a command that don't affect its outcome, and words of a statement that doesn't run anything itself.
_GRAMMAR, _LOOPS = lazy_regex(r"^(?:(?:if|then|elif|else|while|until|do|\{)\s+)+"), lazy_regex(r"(?:for|case|select)\s")
#: A command after ``||`` that still reports the failure.
_GIVES_UP = lazy_regex(r"(?:\{\s*)?(?:exit|return|false)\b")
#: Programs that filter another program's output and hardly ever fail.
_FILTERS = lazy_regex(r"(?:awk|cat|column|cut|fold|head|less|nl|sed|sort|tail|tee|tr|uniq|wc)\b")


def part_with_known_status(command: str, *, has_failed: bool = False) -> str:
    """Return those parts of a shell command whose outcome can be inferred from the exit status, joined by ``&&``.

    The status of a pipe is that of its last command, unless ``pipefail`` is set; the status of ``a; b`` is that of
    ``b``.

    Args:
        has_failed: whether the status is a failure. In a pipe that ends with a filter such as ``tail``, a failure is
            attributed to the command before the filter, because filters hardly ever fail: the shell must have
            ``pipefail`` set.
    """
    plain = _blanked(command)
    is_pipefail, is_errexit = bool(_PIPEFAIL.search(plain)), bool(_ERREXIT.search(plain))
    told: list[str] = []
    is_known, is_told, following = True, True, ""
    outer: list[bool] = []
    for text, sign in reversed(_parts(plain)):
        if sign == ")":
            outer.append(is_known)
            is_known = is_told
        elif sign == "(" and outer:
            is_known = outer.pop()
        elif sign in (";", "\n") and _CLOSES.match(following):
            is_known = is_told
        elif sign == "||":
            is_known = is_known and (has_failed or bool(_GIVES_UP.match(following)))
        elif sign not in ("", "(", "&&") and not sign.startswith("|"):
            is_known = is_known and is_errexit and sign != "&"
        if sign.startswith("|") and sign != "||":
            is_told = is_told and (bool(_FILTERS.match(following)) if has_failed else is_pipefail)
        else:
            is_told = is_known
        if is_told:
            told.append(_run_by(text))
        following = text
    return " && ".join(filter(None, reversed(told)))


def hides_status(command: str, *, has_failed: bool = False) -> bool:
    """Return True if a command runs a program whose outcome can't be inferred from the exit status."""
    everything = " && ".join(filter(None, (_run_by(text) for text, _ in _parts(_blanked(command)))))
    return bool(
        set(meant_programs(everything)) - set(meant_programs(part_with_known_status(command, has_failed=has_failed)))
    )


def tells_passing(command: str, failed: str) -> bool:
    """Return True if a command's exit status 0 proves that it passed, given the command ``failed`` that failed earlier.

    If a filter hides the status, success counts only if ``failed`` reported its failure through such a filter.
    """
    return not hides_status(command) or (hides_status(failed) and not hides_status(failed, has_failed=True))


def without_heredocs(command: str) -> str:
    """Return a command without the contents of its here-documents; one that is an argument becomes ``…``.

    Agents write commit messages in this way: ``git commit -m "$(cat <<'EOF' …)"``.
    """
    return _HEREDOC_ARGUMENT.sub("…", _HEREDOC.sub(r"\1 …", command))


def _blanked(command: str) -> str:
    """Return a command without comments and without the contents of quotations and here-documents."""
    plain = _HEREDOC.sub(r"\1", without_comments(command)).replace("\\\n", " ")
    return QUOTED.sub(lambda quoted: quoted[0][0] * 2, plain).rstrip("; \t\n")


def _parts(plain: str) -> list[tuple[str, str]]:
    """Return the simple commands in the result of ``_blanked``, each with the sign that ends it."""
    parts: list[tuple[str, str]] = []
    start = 0
    for end in _ENDS.finditer(plain):
        parts.append((plain[start : end.start()].strip(), end[0].strip() or "\n"))
        start = end.end()
    return [*parts, (plain[start:].strip(), "")]


def _run_by(text: str) -> str:
    """Return a simple command without shell keywords; "" if it doesn't run anything."""
    return "" if _CLOSES.match(text) or _LOOPS.match(text) else _GRAMMAR.sub("", text)


_REDIRECTION = lazy_regex(r"\s*\d?>&\d|\s*\d>/dev/null")
#: A filter of the output, or a line that only reports.
_REPORTING = lazy_regex(r"\s*(?:\|\s*(?:head|tail|grep|sed|awk|less|cat|tee|wc)\b[^|]*|;\s*echo\b[^;]*)")
_CHANGE_FOLDER = lazy_regex(r"^(?:cd\s+\S+\s*(?:&&|;)\s*)+")


def without_redirections(command: str) -> str:
    """Return a command for display, without the redirections of its streams."""
    return _REDIRECTION.sub("", command)


def normal_command(command: str) -> str:
    """Return a command without folder changes, redirections and filters, which differ between runs of the same one."""
    text = _CHANGE_FOLDER.sub("", " ".join(command.split()))
    return _REPORTING.sub("", without_redirections(text)).strip()


def without_colours(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


def telling_lines(text: str) -> tuple[str, ...]:
    """Return the distinct lines of an error message that state what is wrong, most informative first."""
    lines = without_colours(text.replace("\\n", "\n")).splitlines()
    if len(lines) > 2 * MAX_SCANNED_LINES:
        lines = lines[:MAX_SCANNED_LINES] + lines[-MAX_SCANNED_LINES:]
    shown = dict.fromkeys(line.strip()[:MAX_LINE_CHARACTERS] for line in lines)
    lines = [line for line in shown if line and not _NOISE.search(line)]
    telling: dict[str, None] = {}
    tests: list[Callable[[str], object]] = [*(pattern.search for pattern in _TELLING), _has_telling_word]
    for states_error in tests:
        telling |= dict.fromkeys(line for line in lines if states_error(line))
        if len(telling) >= MAX_LINES:
            break
    return tuple(telling)[:MAX_LINES]


def _has_telling_word(line: str) -> bool:
    low = line.lower()
    return any(word in low for word in _TELLING_WORDS)


def error_keys(lines: Iterable[str], hidden: Collection[str] = ()) -> tuple[int, ...]:
    """Return the distinct keys of the lines that identify an error.

    Args:
        lines: from ``telling_lines``.
        hidden: words that differ between runs, such as the branch name.
    """
    normalised = (normal_line(line, hidden) for line in lines)
    return tuple(dict.fromkeys(_key(line) for line in normalised if len(_identifying_words(line)) >= MIN_WORDS))


def normal_line(line: str, hidden: Collection[str] = ()) -> str:
    """Return a line of an error message in lower case, without positions, folders, numbers, ids or hidden words."""
    for word in hidden:
        if len(word) > 2:
            line = line.replace(word, "#")
    line = _PLACE.sub("", line)
    for pattern in (_URL, _UUID):
        line = pattern.sub("#", line)
    line = _NUMBER.sub("#", _FOLDERS.sub("", line))
    without_names = _NAME.sub("#", line)
    if len(_identifying_words(without_names.lower())) >= MIN_WORDS_WITHOUT_NAMES:
        line = without_names
    return " ".join(re.sub(r"[\s#.,:;!?*=~\-—_]+", " ", line.lower()).split())


def _identifying_words(line: str) -> set[str]:
    return {word for word in _WORD.findall(line) if word not in _GENERAL_WORDS}


def _key(line: str) -> int:
    return int.from_bytes(hashlib.sha256(line.encode("utf-8", "replace")).digest()[:7])
