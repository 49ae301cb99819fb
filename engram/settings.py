"""The settings, read from flags, the environment, config.toml and defaults."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
import stat
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engram.errors import HomeError, SettingsError
from engram.paths import (
    Home,
    absolute_path,
    default_claude_folder,
    default_codex_folder,
    default_gemini_folder,
    default_home,
    is_text,
    named_home,
)
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

#: Maximum size of config.toml, in bytes.
_CONFIG_LIMIT_BYTES = 1_000_000

#: Default of ``limit_rss_mb``, which is raised for a large memory, unlike a value that the user sets.
DEFAULT_LIMIT_RSS_MB = 512


#: Values of the ``extractor`` setting that use a language model.
MODEL_EXTRACTORS = ("claude", "openai")
#: All values of the ``extractor`` setting.
EXTRACTORS = ("local", *MODEL_EXTRACTORS, "off")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Each has a flag, a variable ``ENGRAM_<NAME>`` and a key in config.toml.

    Commands, the page and the reference show the comments: ``#:`` explains the next setting, and ``# Title: sentence``
    begins a group of settings.
    """

    # Folders: where the memory and your agents' sessions are. Relative paths in config.toml begin at your home folder.
    #: The memory folder.
    home: Path = field(default_factory=default_home)
    #: Claude Code's configuration folder; its ``projects`` folder contains the transcripts.
    claude_folder: Path = field(default_factory=default_claude_folder)
    #: Further configuration folders of Claude Code, such as those of other accounts.
    claude_folders: tuple[str, ...] = ()
    #: Codex's folder; its ``sessions`` folder contains the transcripts.
    codex_folder: Path = field(default_factory=default_codex_folder)
    #: Gemini CLI's folder; its ``tmp`` folder contains the chats of each project.
    gemini_folder: Path = field(default_factory=default_gemini_folder)

    # What is read: which sessions become part of the memory, and which are left out.
    #: Read transcripts.
    capture: bool = True
    #: Also read the prompts that Claude Code keeps in history.jsonl when it deletes their transcripts.
    prompt_history: bool = True
    #: Also read subagents' transcripts.
    subagents: bool = False
    #: Globs for working folders whose sessions are never read or stored, and in which Claude is shown nothing.
    exclude: tuple[str, ...] = ()
    #: Folders with Markdown notes, in addition to the memory folder's own.
    note_folders: tuple[str, ...] = ()
    #: Folders that contain your projects. What is said in a session that was started in such a folder itself applies to
    #: all projects.
    project_roots: tuple[str, ...] = ()
    #: Treat a worktree as part of its repository. If false, each worktree is a separate project.
    join_worktrees: bool = True
    #: Seconds between two checks of all transcripts for new lines.
    sweep_seconds: int = 60
    #: Maximum length of a line, in bytes. Longer lines are counted and skipped.
    line_limit_bytes: int = 64_000_000

    # When memories are made: by whom, how soon after something was said, and how many.
    #: Who makes memories: local, claude (the user's own Claude Code), openai (or a compatible server) or off.
    extractor: str = "local"
    #: Number of messages after which memories are made from a session for the first time.
    extract_first_messages: int = 5
    #: Number of further messages after which memories are made from it again, or 1 % of its messages if that is more.
    extract_every_messages: int = 15
    #: Seconds without a new message after which memories are made from the rest of a session.
    extract_idle_seconds: int = 1200
    #: Seconds without a new message after which `engram sessions` calls a session idle.
    idle_seconds: int = 300
    #: Seconds without a new message after which a session is over, and what was chosen for its prompts is deleted.
    live_seconds: int = 604_800
    #: Maximum number of memories made from one session.
    session_memories: int = 60
    #: Maximum number of memories made in one hour.
    hourly_memories: int = 400

    # Search: how many hits it returns, and the model with which it compares texts by meaning.
    #: Default number of results of `engram search`, and of memories that `engram recall` finds.
    recall_limit: int = 5
    #: The model that compares texts by meaning: bundled, hashed (no model), a model's name or its folder.
    embedding_model: str = "bundled"
    #: Text that such a model gets before each stored text, if it needs one.
    document_prompt: str = ""
    #: Text that such a model gets before each question, if it needs one.
    query_prompt: str = ""
    #: Threads of that model; 0 means two while the machine is idle and one otherwise.
    embedding_threads: int = 0

    # What Claude is shown: whether memories are added to your prompts, how many, and how long that may take.
    #: Show Claude memories, through its hooks.
    inject: bool = True
    #: Maximum time that a prompt waits while the worker looks for its memories, in seconds, at most 1.5. It waits only
    #: 0.2 seconds if the worker is dead or hangs, or after two waits without an answer.
    prompt_wait_seconds: float = 1.5
    #: Maximum number of bites for one prompt, including those at its tool calls. A bite is a reminder of one memory.
    bites: int = 3
    #: Quote earlier sessions if no memory matches a prompt. Answers to questions quote them in any case.
    quotations: bool = True
    #: Maximum number of tokens (characters / 4) for all bites of a prompt.
    bite_tokens: int = 120
    #: Maximum number of tokens of the briefing at the start of a session.
    briefing_tokens: int = 200
    #: What was chosen for a prompt is no longer shown after this time, in seconds.
    stale_seconds: int = 300
    #: Number of days for which the outcome of each prompt is kept (`engram why`): ids and figures, no text. 0 keeps
    #: none.
    outcome_days: int = 180

    # The page: what you see with `engram ui`.
    #: Use single letters as keyboard shortcuts on the page, such as e for edit; / and ? always work.
    page_letters: bool = True

    # How memories age: when they are compared, merged, compressed and archived.
    #: Seconds between two consolidations.
    consolidate_seconds: int = 14_400
    #: Maximum duration of one consolidation, in seconds.
    consolidate_budget_seconds: int = 120
    #: Maximum number of memories that one consolidation adds to notes/MEMORY.md.
    graduate_limit: int = 10
    #: Days after which the full content of a memory is compressed.
    compress_days: int = 30
    #: Days without access after which a memory is archived, unless it is pinned or important.
    archive_days: int = 180

    # The language model: which one makes memories, and what it may cost. Only used if `extractor` names one.
    #: The command that starts Claude Code: a name on PATH or a path.
    claude_command: str = "claude"
    #: The model if `extractor` is claude, as accepted by `claude --model`.
    claude_model: str = "haiku"
    #: Maximum duration of one call of Claude Code, in seconds.
    claude_timeout_seconds: float = 180.0
    #: The model if `extractor` is openai.
    llm_model: str = "gpt-4.1-nano"
    #: Address of a server that is compatible with OpenAI's; "" means OpenAI.
    llm_base_url: str = ""
    #: Spending cap for a day, in dollars.
    llm_dollars_per_day: float = 1.0
    #: Spending cap for an hour, in dollars.
    llm_dollars_per_hour: float = 0.5
    #: Spending cap for a day and project, in dollars.
    llm_dollars_per_project: float = 1.0
    #: Maximum cost of one call of Claude Code at list price, in dollars. Each call counts as that much until it ends.
    llm_dollars_per_call: float = 0.2
    #: Cap on tokens for a day, input and output together.
    llm_tokens_per_day: int = 2_000_000
    #: Cap on calls for an hour.
    llm_calls_per_hour: int = 60
    #: Prices if `extractor` is openai, in dollars per million tokens: ``model=input/output``.
    llm_prices: tuple[str, ...] = (
        "gpt-4.1-nano=0.10/0.40",
        "gpt-4.1-mini=0.40/1.60",
        "gpt-4o-mini=0.15/0.60",
        "gpt-5-nano=0.05/0.40",
        "gpt-5-mini=0.25/2.00",
    )
    #: Seconds without data after which a call to OpenAI or a compatible server is given up; an answer is sent whole.
    llm_timeout_seconds: float = 180.0

    # Other machines: how changes arrive from the machines that share this memory.
    #: Keep a request open at each joined hub, so that changes on other machines arrive at once. If false, the worker
    #: polls every three seconds.
    hub_wait: bool = True

    # Background processes: how the watcher and the worker start, how much memory they may use, and what they log.
    #: Start the watcher and the worker with a Claude Code session if they are not running. For machines without launchd
    #: or systemd.
    start_with_session: bool = False
    #: How the database is read: cysqlite, or sqlite3 (the standard library's); auto uses cysqlite if it is installed.
    sqlite_driver: str = "auto"
    #: Warn when the worker uses more memory than this, in MB.
    warn_rss_mb: int = 400
    #: Restart the worker, after its running tasks, when it uses more memory than this, in MB. For a large memory, the
    #: default is raised to the size of the vectors plus 400 MB; a model that runs with torch is added.
    limit_rss_mb: int = DEFAULT_LIMIT_RSS_MB
    #: Seconds that a worker waits for its running tasks before it exits.
    drain_seconds: int = 10
    #: How much is logged: debug, info, warning or error.
    log_level: str = "info"

    @property
    def places(self) -> Home:
        """The files and folders in the memory folder, by name."""
        return Home(self.home)

    @property
    def all_claude_folders(self) -> tuple[Path, ...]:
        """Every configuration folder of Claude Code, ``claude_folder`` first; links to the same folder count once."""
        folders: dict[str, Path] = {}
        for folder in (self.claude_folder, *map(absolute_path, self.claude_folders)):
            folders.setdefault(os.path.realpath(folder), folder)
        return tuple(folders.values())

    @property
    def projects_folder(self) -> Path:
        return self.claude_folder / "projects"

    def __post_init__(self) -> None:
        """Reject invalid values, with the value in the message."""
        for known in dataclasses.fields(self):
            if fault := _fault_of(known.name, getattr(self, known.name)):
                raise SettingsError(fault)


#: Settings of earlier versions, which a config.toml may still contain. They have no effect.
WITHDRAWN = ("ranking", "topic_threshold")
#: Settings that are lists of folders.
FOLDER_LISTS = ("claude_folders", "note_folders", "project_roots")
#: Name of a setting → all values that it may have.
CHOICES = {
    "extractor": EXTRACTORS,
    "sqlite_driver": ("auto", "cysqlite", "sqlite3"),
    "log_level": ("debug", "info", "warning", "error"),
}
#: Word in a setting's name → the largest allowed value; the first word that the name contains decides. The limits keep
#: computed values in range for SQLite, sockets, timers and dates.
_LARGEST = {
    **dict.fromkeys(("timeout", "wait", "drain", "budget", "sweep"), 1_000_000),
    "bytes": 1_000_000_000,
    "seconds": 3_153_600_000,
    "days": 1_000_000,
    "mb": 1_000_000,
    "dollars": 1_000_000,
    "tokens": 1_000_000_000_000,
    "threads": 1024,
    "recall": 1000,
}
#: The largest value of a number without a unit: hits, memories, bites, messages or calls.
_LARGEST_COUNT = 1_000_000_000


#: Setting → its smallest value, where nothing at all makes no sense.
_SMALLEST = {"recall_limit": 1}


def _largest_of(name: str) -> int:
    """Return the largest value that a setting may have if it is a number."""
    return next((largest for unit, largest in _LARGEST.items() if unit in name.split("_")), _LARGEST_COUNT)


def _fault_of(name: str, value: Any) -> str:
    """Return why a value of the right type is invalid for a setting; "" if it is valid."""
    if value not in CHOICES.get(name, (value,)):
        return f"the setting {name} = {_as_written(value)} must be one of {', '.join(CHOICES[name])}"
    if any("\0" in str(part) for part in (value if isinstance(value, tuple) else (value,))):
        return f"the setting {name} contains a NUL character"
    if isinstance(value, int | float) and value < 0:
        return f"the setting {name} = {_as_written(value)} must not be negative"
    if isinstance(value, int | float) and value < (smallest := _SMALLEST.get(name, 0)):
        return f"the setting {name} = {_as_written(value)} must be at least {smallest}"
    return ""


#: An address of a server: scheme, perhaps a name and password, host, and a port of at most five digits.
_ADDRESS = lazy_regex(
    r"https?://([^\s/?#@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/:?#@\[\]]+)(:(?P<port>\d{1,5}))?([/?#]\S*)?", re.IGNORECASE
)
_PRICE = lazy_regex(r"\s*[^\s=]+\s*=\s*\d*\.?\d+\s*/\s*\d*\.?\d+\s*")


def fault_of_format(name: str, value: Any) -> str:
    """Return why a value that is newly set does not have the form of its setting; "" if it does.

    A value that an earlier version stored may have another form: that stops only what uses the setting.
    """
    if name == "llm_base_url" and value:
        found = _ADDRESS.fullmatch(value)
        if found is None or int(found["port"] or 0) > 65_535:
            return f"the setting {name} = {_as_written(value)} must begin with http:// or https:// and name a server"
    if name == "llm_prices" and (wrong := next((price for price in value if not _PRICE.fullmatch(price)), None)):
        return f"{name} has {wrong!r}; write model=input/output, in dollars per million tokens"
    if name == "exclude" and (wrong := next((path for path in value if not _is_whole_path(path)), None)):
        return f"{name} has {wrong!r}, which covers no folder; write a whole path, such as ~/diary, or */diary for any"
    return ""


def _is_whole_path(pattern: str) -> bool:
    """Return True if a pattern of folders can cover one: a session's folder is always a path from the root."""
    return re.match(r"[/\\*?\[]|[a-zA-Z]:", os.path.expanduser(pattern)) is not None


class _TooLargeError(SettingsError):
    """A number is larger than the largest possible one of its setting."""

    def __init__(self, name: str, value: int | float, largest: int | float) -> None:
        super().__init__(f"the setting {name} = {_as_written(value)} is too large: it may be at most {largest:,.0f}")
        self.largest = largest


#: Maximum number of characters of a value in a message.
_SHOWN_CHARS = 80


def _as_written(value: Any) -> str:
    """Return a value for a message, approximately as it is written in config.toml."""
    if isinstance(value, bool):
        shown = str(value).lower()
    elif isinstance(value, list | tuple):
        shown = f"[{', '.join(_as_written(part) for part in value)}]"
    elif isinstance(value, str | Path):
        shown = repr(str(value))
    elif isinstance(value, dict):
        shown = "{…}"
    elif isinstance(value, int) and value.bit_length() > _SHOWN_CHARS:
        shown = hex(value)  # Python prints no number of thousands of decimal digits
    else:
        shown = str(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[: _SHOWN_CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    #: Name of a setting → flag, environment, config.toml or default.
    sources: Mapping[str, str]


class ConfigFault(NamedTuple):
    #: The setting; "" for the whole file.
    name: str
    text: str
    #: True if no process starts until it is corrected.
    stops: bool = True


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    faults: list[ConfigFault] | None = None,
) -> Loaded:
    """Combine the settings: flag > ``ENGRAM_<NAME>`` > config.toml > default.

    Args:
        flags: values by name; None means that the flag was not given.
        environ: the environment; the process's own by default.
        faults: collects the faults in config.toml, which are then ignored instead of raising an error.

    Raises:
        SettingsError: a value is invalid, or config.toml can't be read.
        HomeError: the path of the memory folder can't be resolved.
    """
    environ = os.environ if environ is None else environ
    names = _types()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def lay(name: str, value: Any, source: str) -> None:
        if name in sources:
            return
        is_stored = source == "config.toml"
        try:
            values[name] = parse_value(name, _from_user_home(name, value) if is_stored else value)
        except SettingsError as error:
            if is_stored and isinstance(error, _TooLargeError):
                # Earlier versions accepted it, and the largest number means the same to the user.
                values[name] = error.largest
                if faults is not None:
                    faults.append(ConfigFault(name, f"{error}, which is used", stops=False))
            elif is_stored and faults is not None:
                faults.append(ConfigFault(name, str(error)))
                return
            else:
                raise SettingsError(f"{error}{_set_by(name, source)}") from error
        sources[name] = source

    for name, value in (flags or {}).items():
        if value is not None:
            lay(name, value, "flag")
    for name in names:
        if text := environ.get(f"ENGRAM_{name.upper()}"):
            lay(name, named_home(text) if name == "home" else text, "environment")
    if text := environ.get("CLAUDE_MEMORY_PROJECT_ROOTS"):
        lay("project_roots", text, "environment")
    home = values.get("home") or default_home()
    if not is_text(str(home)):
        raise HomeError(f"the name of the memory folder {home} is not UTF-8: choose another one with ENGRAM_HOME")
    try:
        stored = read_config(Home(home).config_file)
    except SettingsError as error:
        if faults is None:
            raise
        stored = {}
        faults.append(ConfigFault("", str(error)))
    for name, value in stored.items():
        if name in WITHDRAWN:
            if faults is not None:
                faults.append(ConfigFault(name, f"the setting {name} no longer has any effect", stops=False))
        elif name != "home":
            lay(name, value, "config.toml")
    for name in names:
        sources.setdefault(name, "default")
    return Loaded(Settings(**values), sources)


@functools.cache
def _types() -> dict[str, Any]:
    return typing.get_type_hints(Settings)


def _from_user_home(name: str, value: Any) -> Any:
    """Return a value of config.toml with its relative folders below the user's home folder.

    Each process has its own current folder, in which they would mean a different folder.
    """
    if name in FOLDER_LISTS and isinstance(value, str | list):
        return [_below_home(folder) for folder in _as_list(value)]
    is_folder = _types().get(name) is Path
    return _below_home(value) if is_folder and isinstance(value, str) else value


def _below_home(folder: str) -> str:
    folder = re.sub(r"^\$(HOME|\{HOME\})(?=/|$)", "~", folder.strip())
    return folder if not folder or folder.startswith(("/", "~")) else f"~/{folder}"


def _set_by(name: str, source: str) -> str:
    """Return the end of a message about a setting's value: where it is set; "" if the user just typed it."""
    if source == "config.toml":
        return f" (set in config.toml; to remove it: engram config unset {name})"
    return f" (set by ENGRAM_{name.upper()})" if source == "environment" else ""


def config_state(path: Path) -> str:
    """Return a text that changes whenever config.toml does, even if the clock is wrong; "" if there is no such file."""
    try:
        facts = os.stat(path)
    except OSError:
        return ""
    return f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of config.toml; {} if there is none. Raises SettingsError if it can't be read.

    It may be a link to another file of the user's, such as one in a repository of dotfiles.
    """
    data = read_regular(path, _CONFIG_LIMIT_BYTES + 1, may_be_link=True)
    if data is None and os.path.lexists(path):
        # Another process may have just written the first one.
        data = read_regular(path, _CONFIG_LIMIT_BYTES + 1, may_be_link=True)
    if data is None:
        if os.path.lexists(path):
            # Ignoring it would silently drop exclusions and caps.
            raise SettingsError(f"{path} can't be read: it must be a file that you may read, or a link to one")
        return {}
    # Anyone who can write it could choose the server to which text is sent, or disable exclusions.
    facts = os.stat(path)
    if facts.st_uid != os.geteuid():
        # Nobody is told to take over files in another user's folder.
        is_in_own_folder = os.stat(path.parent).st_uid == os.geteuid()
        advice = (
            "Make it your own with chown, or delete it" if is_in_own_folder else "Set ENGRAM_HOME to your own folder"
        )
        raise SettingsError(f"{path} belongs to another user (uid {facts.st_uid}), so it isn't read. {advice}")
    if path.is_symlink() and facts.st_mode & stat.S_IWOTH:
        raise SettingsError(f"every user may write {path.resolve()}, so it isn't read. Run: chmod o-w {path.resolve()}")
    if len(data) > _CONFIG_LIMIT_BYTES:
        raise SettingsError(f"{path} is larger than {_CONFIG_LIMIT_BYTES} bytes")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise SettingsError(f"{path} contains a NUL character (at line {line}). Remove it in an editor")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except RecursionError as error:
        raise SettingsError(f"{path} is not valid: its lists are nested too deeply. Correct it in an editor") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path} is not in UTF-8 (at line {line}). Save it as UTF-8 in an editor") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}. Correct it in an editor") from error
    except ValueError as error:  # Python parses no number of thousands of digits
        raise SettingsError(f"{path} contains a number that is too long. Correct it in an editor") from error


def parse_value(name: str, value: Any) -> Any:
    """Return the value of a setting, given as text or parsed from config.toml. Raises SettingsError if invalid."""
    wanted = _types().get(name)
    if wanted is None:
        raise SettingsError(f"unknown setting {name!r}")
    parsed = _as_type(name, value, wanted)
    if fault := _fault_of(name, parsed):
        raise SettingsError(fault)
    if wanted in (int, float) and parsed > (largest := wanted(_largest_of(name))):
        raise _TooLargeError(name, parsed, largest)
    return parsed


def _as_type(name: str, value: Any, wanted: Any) -> Any:
    try:
        if wanted is bool:
            return _as_bool(value)
        if wanted is Path:
            if not isinstance(value, str | Path):
                raise ValueError("it must be a string")
            if value == "":
                raise ValueError("it must name a folder")
            return absolute_path(str(value))
        if wanted in (int, float):
            return _as_number(value, wanted)
        if wanted is str:
            if not isinstance(value, str):
                raise ValueError("it must be a string")
            return value
        parts = _as_list(value)
        if name in FOLDER_LISTS:
            return tuple(part if part.startswith("~") else str(absolute_path(part)) for part in parts)
        return parts
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"the setting {name} = {_as_written(value)} is invalid: {error}") from error


def _as_number(value: Any, wanted: type[int] | type[float]) -> int | float:
    if isinstance(value, bool):
        raise ValueError("it must be a number")
    try:
        number = wanted(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"it must be a {'whole ' if wanted is int else ''}number") from None
    if not isinstance(number, int | float) or (isinstance(number, float) and not math.isfinite(number)):
        # A cap of NaN or infinity would never be reached.
        raise ValueError("it must be a number")
    if wanted is int and number != int(number):
        raise ValueError("it must be a whole number")
    return wanted(number)


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(value).strip().lower() not in words:
        raise ValueError("it must be true or false")
    return words[str(value).strip().lower()]


def _as_list(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str | list | tuple):
        raise ValueError("it must be a list")
    if not all(isinstance(part, str | Path) for part in value):
        # An exclusion in a list of its own would match nothing.
        raise ValueError("it must be a list of strings")
    parts = value.replace("\n", ",").split(",") if isinstance(value, str) else value
    return tuple(str(part).strip() for part in parts if str(part).strip())
