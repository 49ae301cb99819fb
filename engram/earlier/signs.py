"""What tells the earlier Engram from every other program: the commands it runs, and what its scripts say.

It was a checkout of TypeScript files, run by Bun or Node, with any name at any path. So a command counts by the script
that it runs, and a script by its text. Nothing here writes or runs anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from engram.atomic import read_regular

#: Bytes of a script that are read.
MAX_SCRIPT_BYTES = 1_000_000

#: Names that only the earlier program has.
_ITS_NAMES = re.compile(r"pretooluse-recollection|engram-start\.sh|engram\.std(?:out|err)\.log")
#: What this program's own commands contain.
_OUR_NAMES = re.compile(r"engram_hooks|engram_mcp|engram\.cli|\bhuey_consumer\b|-m\s+engram\b")
_SCRIPT = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s"';&|()]+))""")
_SUFFIXES = (".ts", ".tsx", ".js", ".mjs", ".cjs", ".mts")
#: Folders of its checkout that hold scripts, and where a build puts them.
_FOLDERS = ("hooks", "processor", "mcp", "scripts", "statusline")
_BUILDS = ("dist", "build", "src", "out")
_STARTS = ("processor/index", "hooks/pretooluse-recollection", "mcp/server")
#: The folder and the socket that its scripts name.
_ITS_FOLDER = ".claude-memory"
_ITS_SOCKET = "engram.sock"
#: The key that grants a tool call. Spelled so that no source file of this program contains the word.
_GRANT = "permission" + "Decision"
_RUNS_SCRIPT = re.compile(r"\b(?:bun|node|deno|tsx|npx)\b")


def is_earlier_command(command: str, user_home: Path) -> bool:
    """Return True if a command line runs a script of the earlier Engram."""
    if _OUR_NAMES.search(command):
        return False
    if _ITS_NAMES.search(command):
        return True
    roots = [root for script in scripts_in(command, user_home) if (root := checkout_of(script)) is not None]
    if _ITS_FOLDER in command and roots and _RUNS_SCRIPT.search(command):
        return True
    return any(map(is_checkout, roots))


def is_earlier_process(words: Sequence[str], user_home: Path) -> bool:
    """Return True if a process, by its words, runs a script of the earlier Engram.

    The first argument that is no option decides: an editor that shows such a script, or an agent that was asked about
    one, is no such process.
    """
    if not words:
        return False
    program = Path(words[0]).name
    arguments = [word for word in words[1:] if not word.startswith("-") and word != "run"]
    if not arguments:
        return False
    if program in ("bash", "sh", "zsh"):
        return "-c" not in words and Path(arguments[0]).name == "engram-start.sh"
    return program in ("bun", "node", "deno", "tsx") and is_earlier_command(arguments[0], user_home)


def is_earlier_script(path: Path) -> bool:
    """Return True if a shell script starts the earlier Engram."""
    text = _text_of(path)
    if not text or _OUR_NAMES.search(text):
        return False
    is_start = "processor/index" in text or _ITS_NAMES.search(text) is not None
    return is_start and (_ITS_FOLDER in text or _RUNS_SCRIPT.search(text) is not None)


def scripts_in(command: str, user_home: Path) -> list[Path]:
    """Return the scripts (TypeScript or JavaScript) that a command line names by an absolute path."""
    paths = []
    for groups in _SCRIPT.findall(command):
        word = next(part for part in groups if part)
        for variable in ("${HOME}", "$HOME", "~"):
            if word.startswith(f"{variable}/"):
                word = str(user_home) + word[len(variable) :]
        if word.endswith(_SUFFIXES) and os.path.isabs(word):
            paths.append(Path(os.path.normpath(word)))
    return paths


def checkout_of(script: Path) -> Path | None:
    """Return the checkout that a script would belong to, by its place; None if it is no place of the earlier Engram."""
    for folder in script.parents:
        if folder.name in _FOLDERS:
            return folder.parent.parent if folder.parent.name in _BUILDS else folder.parent
    return None


def is_checkout(root: Path) -> bool:
    """Return True if a folder is a checkout of the earlier Engram: by its scripts, or by its name if it is gone."""
    if not root.is_dir():
        return "claude-memory" in root.name
    for build in ("", *_BUILDS):
        for start in _STARTS:
            for suffix in (".ts", ".js", ".mjs"):
                text = _text_of(root / build / f"{start}{suffix}")
                if _ITS_FOLDER in text or _ITS_SOCKET in text:
                    return True
    return "claude-memory" in root.name and any((root / folder).is_dir() for folder in _FOLDERS)


def approves_tools(command: str, user_home: Path) -> bool:
    """Return True if a hook's script grants permission in its answer, which approves every tool call."""
    if "pretooluse-recollection" in command:
        return True
    texts = [_text_of(script) for script in scripts_in(command, user_home)]
    return any(_GRANT in text and "allow" in text for text in texts)


def _text_of(path: Path) -> str:
    return (read_regular(path, MAX_SCRIPT_BYTES) or b"").decode("utf-8", "replace")
