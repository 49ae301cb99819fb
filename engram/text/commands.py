"""Recognize what a shell command does."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

_TEST_COMMAND = re.compile(
    r"\b(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|ava|playwright|cypress|rspec|phpunit|ctest|go test|"
    r"cargo (?:test|nextest)|(?:npm|pnpm|yarn|bun|deno|make|mvn|gradle|gradlew|dotnet|mix|swift|bazel|just|rake) "
    r"(?:run )?(?:\S+:)?(?:test|check|verify)\w*)\b"
)


#: What a command that works in another folder than its own holds.
_MAY_ENTER = re.compile(r"\b(?:cd|pushd)\s|\s-C\s|\s--(?:prefix|cwd|dir|directory|work-tree|project)\b")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_SIGNS = re.compile(r"[();<>|&\n]+")
#: A path that names one folder, whatever the shell would make of it.
_KNOWN_PATH = re.compile(r"(?!-)[^$`*?\[\]{}<>|&;\n]{1,4096}")
#: Program → options that name the folder that it works in.
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
#: A quoted text, an escaped character, or a comment with what stands before it.
_COMMENT = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|(^|(?<=[\s;&|(]))#[^\n]*", re.MULTILINE | re.DOTALL)


def without_comments(command: str) -> str:
    """Return a shell command without its comments, which say nothing of what it does."""
    bare = _COMMENT.sub(lambda found: "" if found[0].startswith("#") else found[0], command)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


def entered_folders(command: str) -> list[str]:
    """Return the folders that a shell command works in, in order: those it goes to, and those it names as the folder.

    ``cd a && make``, ``(cd b; npm test)``, ``git -C a log``, ``npm --prefix=web test``. A relative path is relative to
    the folder that the command begins in. What a variable or another command gives is not known and left out, and
    nothing behind the beginning of a here-document is read.
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
    """Yield the words of each simple command with the signs that end it; stops where the shell's grammar is needed."""
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
        # A quotation that does not end: the command was cut.
        return
    yield words, ""


def _named_folders(words: list[str]) -> Iterator[str]:
    """Yield the folders that a program is told to work in."""
    options = _FOLDER_OPTIONS.get(words[0], ()) if words else ()
    for number, word in enumerate(words[1:], start=1):
        name, equals, value = word.partition("=")
        path = value if equals else words[number + 1] if number + 1 < len(words) else ""
        if name in options and path and _KNOWN_PATH.fullmatch(path):
            yield path


def is_test_command(command: str) -> bool:
    """Return True for a command that runs tests or checks."""
    return bool(_TEST_COMMAND.search(command))
