"""Query git about an untrusted repository, within a time limit and without running programs configured in it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.enums import BranchState
from engram.system.lazy_regex import any_case, lazy_regex
from engram.transcripts.git_files import (
    DETACHED,
    begun_at_ms,
    git_folder,
    has_commit,
    has_remote,
    normal_address,
    read_first_commit,
    read_remote,
)

# -- Run git in an untrusted repository. Programs that the user has configured are not run either.

#: Maximum duration of a git call, in seconds.
MAX_GIT_SECONDS = 10.0
#: Maximum size of git's output that is used, in bytes.
MAX_OUTPUT_BYTES = 20_000_000
#: Maximum number of configured filters that can be disabled; if there are more, git is not run.
MAX_FILTERS = 50
#: The only environment variables passed to git, because ``GIT_*`` variables could point it to another repository or
#: program.
_PASSED_ON = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR")
#: No prompts, no network, no replaced objects, English messages.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
#: No hooks, monitors, pagers, signature programs or locks. For filters, see ``filter_options``.
_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "protocol.allow=never",
)


#: Additional variables for git when it uses the network: they identify the user to remotes.
_PASSED_ON_TO_REMOTES = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
#: Protocols that git may use to reach a remote if the user allows it; none of them runs a program that the repository
#: names.
_REMOTES = ("ssh", "https", "file")
#: Repository settings that name programs which git would run on a fetch, commit or push regardless of its options.
_PROGRAMS = any_case(r"credential\.(.*\.)?helper|merge\..*\.driver|core\.gitproxy")


def run_git(root: str | Path, *arguments: str, seconds: float = MAX_GIT_SECONDS) -> str | None:
    """Return git's output; None if git is missing, fails or takes too long.

    Args:
        arguments: a read-only command, preceded by ``filter_options`` if it compares files with the index.
    """
    done = _run(root, [*_OPTIONS, *arguments], _environment(), seconds)
    return None if done is None or done.returncode else done.stdout[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")


def read_log(root: str | Path, *arguments: str, seconds: float) -> Iterator[tuple[int, str]]:
    """Yield the commit time, in milliseconds since 1970, and the output of ``git log`` for each file.

    Merges are left out. Yield nothing if git is missing, fails or takes too long.
    """
    options = ("--format=@%ct", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-merges")
    at_ms = 0
    for line in (run_git(root, "log", *options, *arguments, seconds=seconds) or "").splitlines():
        if line.startswith("@") and line[1:].isdigit():
            at_ms = int(line[1:]) * 1000
        elif line:
            yield at_ms, line


def call_git(
    root: str | Path,
    *arguments: str,
    environment: Mapping[str, str],
    with_network: bool = False,
    seconds: float = MAX_GIT_SECONDS,
) -> tuple[int, str]:
    """Run a git command that may write, in a repository chosen by the user, without running what it configures.

    Args:
        arguments: ``filter_options`` and the command.
        environment: additional variables, such as the author's name.
        with_network: True if the command may contact a remote, by ssh, https or a path.

    Returns:
        The exit code, and git's output and errors; 127 if git is missing or took too long.
    """
    variables = _environment() | dict(environment)
    options = list(_OPTIONS)
    if with_network:
        variables |= {name: os.environ[name] for name in _PASSED_ON_TO_REMOTES if name in os.environ}
        del variables["GIT_ALLOW_PROTOCOL"]
        for name in _REMOTES:
            options += ["-c", f"protocol.{name}.allow=always"]
        command = run_git(root, "config", "--global", "--get", "core.sshCommand") or "ssh"
        variables |= {"GIT_SSH_COMMAND": f"{command.strip()} -oBatchMode=yes", "GIT_ASKPASS": "false"}
    variables |= {"GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "1"}
    for setting in ("commit.gpgSign=false", "push.gpgSign=false", "gc.auto=0", "maintenance.auto=false"):
        options += ["-c", setting]
    for setting in ("core.autocrlf=false", "rerere.enabled=false", "merge.renames=false", "core.safecrlf=false"):
        options += ["-c", setting]
    done = _run(root, [*options, *arguments], variables, seconds)
    if done is None:
        return 127, f"git is missing, or took longer than {seconds:.0f} s"
    return done.returncode, (done.stdout + done.stderr)[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ENVIRONMENT


def _run(
    root: str | Path, arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=dict(environment),
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def programs_configured(root: str | Path) -> list[str] | None:
    """Return the repository's own settings that run programs and can't be disabled by an option; None if git fails."""
    listed = run_git(root, "config", "--list", "--includes", "--show-scope", "--name-only", "-z")
    if listed is None:
        return None
    fields = listed.rstrip("\0").split("\0")
    settings = zip(fields[::2], fields[1::2], strict=False)
    return [name for scope, name in settings if scope in ("local", "worktree") and _PROGRAMS.fullmatch(name)]


def filter_options(root: str | Path, *, seconds: float = MAX_GIT_SECONDS) -> list[str] | None:
    """Return the options that disable every configured filter; None if that is not possible.

    A filter is a program that git runs on a file's content, even if only to find out whether the file has changed. The
    repository's configuration may specify any program.
    """
    # All names are listed, because --get-regexp fails if nothing matches.
    names = run_git(root, "config", "--list", "--name-only", "-z", seconds=seconds)
    if names is None:
        return None
    drivers = _filters(names.split("\0"))
    if len(drivers) > MAX_FILTERS or any("\n" in driver or "=" in driver for driver in drivers):
        return None
    options: list[str] = []
    for driver in drivers:
        for key in ("clean", "smudge", "process"):
            options += ["-c", f"filter.{driver}.{key}="]
        options += ["-c", f"filter.{driver}.required=false"]
    return options


def _filters(names: Iterable[str]) -> list[str]:
    """Return the names of the filters that these settings configure, without duplicates."""
    keys = [name for name in names if name.lower().startswith("filter.") and name.count(".") >= 2]
    return list(dict.fromkeys(key.partition(".")[2].rpartition(".")[0] for key in keys))


# -- Find out whether branches were merged, using only the local repository. "Unknown" is better than a wrong guess.

#: Names of branches that count as merged in every repository.
MAIN_NAMES = ("main", "master")
#: Maximum duration of a git call, in seconds.
MAX_SECONDS = 5.0
#: Maximum number of a branch's commits, and of its files, to compare.
MAX_COMMITS, MAX_FILES = 1_000, 1_000
_HASH = lazy_regex(r"[0-9a-f]{7,64}")
#: Beginnings of reflog entries that record the creation of a branch, and a commit on it.
_CREATED = "branch: Created"
_COMMITTED = ("commit", "cherry-pick", "revert", "am:")


@dataclass(frozen=True, slots=True)
class KnownBranch:
    """What is known about a branch before git is queried."""

    name: str
    #: The last commit that was seen on it; "" if none was.
    tip: str = ""
    #: True if a commit was ever seen on it.
    has_commits: bool = False
    #: Commits on it that transcripts report, latest last; their hashes may be abbreviated.
    commits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchReading:
    state: BranchState
    tip: str = ""
    has_commits: bool = False


@dataclass(frozen=True, slots=True)
class Refs:
    """The branches of a repository and its remotes."""

    #: Full name of a ref → its commit.
    tips: Mapping[str, str]
    #: Full name of a local branch → full name of its upstream branch.
    upstreams: Mapping[str, str]
    #: Name of the default branch; "" if unknown.
    default: str

    @property
    def main_tips(self) -> tuple[str, ...]:
        """The commits of the default branch, local and on its remote."""
        names = (f"refs/heads/{self.default}", f"refs/remotes/origin/{self.default}")
        return tuple(dict.fromkeys(self.tips[name] for name in names if name in self.tips)) if self.default else ()

    def tip_of(self, branch: str) -> str:
        """Return the commit of a local branch, otherwise of the remote branch of that name; "" if there is neither."""
        local = self.tips.get(f"refs/heads/{branch}")
        if local:
            return local
        is_remote = lazy_regex(rf"refs/remotes/[^/]+/{re.escape(branch)}").fullmatch
        return next((tip for name, tip in self.tips.items() if is_remote(name)), "")

    def has_lost_upstream(self, branch: str) -> bool:
        """Return True if the branch's upstream no longer exists, which means that it was probably merged there."""
        upstream = self.upstreams.get(f"refs/heads/{branch}", "")
        return bool(upstream) and upstream not in self.tips


def read_refs(root: Path) -> Refs | None:
    """Return the branches of a repository; None if git is missing, fails or takes too long."""
    printed = run_git(
        root,
        "for-each-ref",
        "--format=%(refname)%09%(objectname)%09%(symref)%09%(upstream)",
        "refs/heads",
        "refs/remotes",
        seconds=MAX_SECONDS,
    )
    if printed is None:
        return None
    tips, upstreams, default = {}, {}, ""
    for line in printed.splitlines():
        name, tip, target, upstream = (line.split("\t") + [""] * 4)[:4]
        if target:
            if name == "refs/remotes/origin/HEAD":
                default = target.removeprefix("refs/remotes/origin/")
            continue
        tips[name] = tip
        if upstream:
            upstreams[name] = upstream
    if not default:
        default = next((name for name in MAIN_NAMES if f"refs/heads/{name}" in tips), "")
    return Refs(tips, upstreams, default)


def counts_as_merged(name: str, default: str = "") -> bool:
    """Return True for the default branch, for a detached head, and outside a repository."""
    return name in ("", DETACHED, default, *MAIN_NAMES)


def read_branch_state(root: Path, refs: Refs, known: KnownBranch) -> BranchReading:
    if counts_as_merged(known.name, refs.default):
        return BranchReading(BranchState.MERGED, refs.tip_of(known.name))
    present = refs.tip_of(known.name)
    tip = present or known.tip or _resolve(root, known.commits)
    has_commits = known.has_commits or bool(known.commits)
    if not tip or not refs.main_tips:
        return BranchReading(BranchState.UNKNOWN, tip, has_commits)
    bases = [(main, base) for main in refs.main_tips if (base := _merge_base(root, tip, main))]
    if any(base == tip for _, base in bases):
        return _contained(root, known.name, tip, has_commits, is_present=bool(present))
    states = {_compare(root, base, tip, main) for main, base in bases}
    if BranchState.MERGED in states:
        return BranchReading(BranchState.MERGED, tip, True)
    is_doubtful = not present or refs.has_lost_upstream(known.name) or states != {BranchState.OPEN}
    return BranchReading(BranchState.UNKNOWN if is_doubtful else BranchState.OPEN, tip, True)


def _contained(root: Path, name: str, tip: str, has_commits: bool, *, is_present: bool) -> BranchReading:
    """Return the state of a branch if its last commit is in the default branch: merged, or without commits so far."""
    if has_commits:
        return BranchReading(BranchState.MERGED, tip, True)
    log = run_git(
        root, "log", "-g", "--format=%gs", f"--max-count={MAX_COMMITS}", f"refs/heads/{name}", "--", seconds=MAX_SECONDS
    )
    entries = log.splitlines() if log else []
    if any(entry.startswith(_COMMITTED) for entry in entries):
        return BranchReading(BranchState.MERGED, tip, True)
    is_new = is_present and bool(entries) and all(entry.startswith(_CREATED) for entry in entries)
    return BranchReading(BranchState.OPEN if is_new else BranchState.UNKNOWN, tip)


def _compare(root: Path, base: str, tip: str, main: str) -> BranchState:
    """Compare the files of a branch with their versions on the default branch since the two diverged.

    If a branch was squashed or rebased into the default branch, then the default branch contained, at some point, the
    same versions of all these files as the tip of the branch. If the default branch never adopted any version of a file
    and never changed some of the files at all, the branch is not merged. In all other cases, the state is unknown.
    """
    changed = _changes(root, base, tip, only_ends=True)
    ours = _changes(root, base, tip)
    theirs = _changes(root, base, main)
    if not changed or ours is None or theirs is None:
        return BranchState.UNKNOWN
    at_tip = dict(changed[0])
    if len(at_tip) > MAX_FILES:
        return BranchState.UNKNOWN
    versions = {change for commit in ours for change in commit}
    unmerged, is_partly_there, touched = dict(at_tip), False, set[str]()
    for commit in theirs:
        for path, content in commit:
            if path not in at_tip:
                continue
            touched.add(path)
            is_partly_there |= (path, content) in versions
            if at_tip[path] == content:
                unmerged.pop(path, None)
            else:
                unmerged[path] = at_tip[path]
        if not unmerged:
            return BranchState.MERGED
    is_complete = len(theirs) < MAX_COMMITS and len(ours) < MAX_COMMITS
    return BranchState.OPEN if is_complete and not is_partly_there and touched != set(at_tip) else BranchState.UNKNOWN


def _changes(root: Path, base: str, tip: str, *, only_ends: bool = False) -> list[list[tuple[str, str]]] | None:
    """Return the file and content of every change from ``base`` to ``tip``, by commit, oldest first.

    With ``only_ends``, the two commits are compared directly, as if all changes had been made in one commit.
    """
    shape = ("--raw", "--no-abbrev", "--no-renames", "-z", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    if only_ends:
        printed = run_git(root, "diff-tree", "-r", *shape, base, tip, "--", seconds=MAX_SECONDS)
        printed = None if printed is None else f"@\0{printed}"
    else:
        order = ("--reverse", "--first-parent", "-m", f"--max-count={MAX_COMMITS}", "--format=tformat:@")
        printed = run_git(root, "log", *order, *shape, f"{base}..{tip}", "--", seconds=MAX_SECONDS)
    return None if printed is None else parse_changes(printed)


def parse_changes(printed: str) -> list[list[tuple[str, str]]]:
    """Parse the output of ``git log --format=tformat:@ --raw --no-abbrev --no-renames -z``."""
    commits: list[list[tuple[str, str]]] = []
    fields = iter(printed.split("\0"))
    for field in fields:
        field = field.strip("\n")
        if field == "@":
            commits.append([])
        elif field.startswith(":") and commits:
            content = field.split(" ")[3]
            commits[-1].append((next(fields, ""), content if content.strip("0") else ""))
    return [commit for commit in commits if commit]


def _merge_base(root: Path, first: str, second: str) -> str:
    return (run_git(root, "merge-base", first, second, seconds=MAX_SECONDS) or "").strip().partition("\n")[0]


def _resolve(root: Path, commits: Sequence[str]) -> str:
    """Return the full hash of the latest of these commits that the repository still has; "" if it has none."""
    for commit in reversed(commits[-3:]):
        if _HASH.fullmatch(commit):
            full = run_git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", seconds=MAX_SECONDS)
            if full and _COMMIT.fullmatch(full.strip()):
                return full.strip()
    return ""


# -- Read uncommitted changes in a working tree, within a time limit and without running the repository's programs.

#: Maximum duration while a person waits, in seconds.
MAX_STATUS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkTree:
    #: ``DETACHED`` for a detached head.
    branch: str
    #: Files with uncommitted changes, relative to the repository.
    changed: tuple[str, ...] = ()
    #: Untracked files and folders.
    untracked: tuple[str, ...] = ()
    #: Number of commits that the upstream branch lacks; 0 if there is no upstream.
    unpushed: int = 0

    @property
    def is_clean(self) -> bool:
        """True if everything is committed."""
        return not (self.changed or self.untracked)


def read_work_tree(folder: str, *, seconds: float = MAX_STATUS_SECONDS) -> WorkTree | None:
    """Return the state of the working tree that contains a folder; None if there is none, or git is missing or slow."""
    until = time.monotonic() + seconds
    options = filter_options(folder, seconds=seconds)
    left = until - time.monotonic()
    if options is None or left <= 0:
        return None
    printed = run_git(
        folder,
        *options,
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        seconds=left,
    )
    return None if printed is None else parse_status(printed)


def parse_status(printed: str) -> WorkTree:
    """Parse the output of ``git status --porcelain=v2 --branch -z --no-renames``."""
    branch, changed, untracked, unpushed = "", [], [], 0
    for record in printed.split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                branch = DETACHED if value == "(detached)" else value
            elif name == "branch.ab":
                unpushed = int(value.split(" ")[0].lstrip("+") or 0)
        elif kind in ("1", "u"):
            # "1 XY sub mH mI mW hH hI path", "u XY sub m1 m2 m3 mW h1 h2 h3 path"
            changed.append(rest.split(" ", 7 if kind == "1" else 9)[-1])
        elif kind == "?":
            untracked.append(rest)
    return WorkTree(branch=branch, changed=tuple(changed), untracked=tuple(untracked), unpushed=unpushed)


# -- Identify a repository by more than its folder: by the URL of its remote and by its first commit.
#
# Both are only hints, never a key, because anyone can write a remote's URL into a forged repository.

#: Maximum duration of each git call, in seconds. If reading the history takes longer, the first commit is unknown.
GIT_SECONDS = 5.0
_COMMIT = lazy_regex(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True)
class GitHints:
    """Hints about the identity of a repository."""

    #: Normalised URL without credentials; "" if there is none.
    remote: str = ""
    #: Hash of the oldest root commit; "" if unknown, such as in a shallow clone.
    first_commit: str = ""


def read_git_hints(root: Path) -> GitHints:
    """Return hints about the repository at ``root``, within a time limit; empty if there is no repository or no git."""
    folder = git_folder(root)
    if folder is None or not os.path.exists(folder):
        return GitHints(read_remote(root))
    root = root if os.path.exists(root / ".git") else folder
    remote = normal_address(_git(root, "config", "--local", "--get", "remote.origin.url"))
    is_whole = _git(root, "rev-parse", "--is-shallow-repository") == "false"
    grafts = _git(root, "rev-parse", "--git-path", "info/grafts")
    if not is_whole or os.path.exists(root / grafts):
        return GitHints(remote)
    roots = _git(root, "rev-list", "--max-parents=0", "HEAD").split()
    return GitHints(remote, roots[-1] if roots and _COMMIT.fullmatch(roots[-1]) else "")


def is_other_repository(root: Path, remote: str, first_commit: str, since_ms: int | None = None) -> bool:
    """Return True if the repository at ``root`` is not the one with this remote and first commit. Git is not run.

    It is the same one if it has the same remote, under any name, or if it contains that first commit. It is another one
    if it lacks that first commit or has a different remote; also if only one of the two had a remote, and it is a
    shallow clone, or the place of a repository that is elsewhere. With no remote any more, it is another one only if
    its own first commit was made here earlier, because that would be known. A folder that no longer contains a
    repository counts as a different one.

    Args:
        root: main folder, which must exist.
        remote: the normalised URL; "" if there was none.
        first_commit: its first commit; "" if unknown.
        since_ms: when it was first worked in, in milliseconds since 1970; None if that is unknown.
    """
    if not (remote or first_commit):
        return False
    folder = git_folder(root)
    if folder is None:
        return not os.path.isdir(root / ".jj")
    if remote and has_remote(root, remote):
        return False
    found = has_commit(root, first_commit) if first_commit else None
    if found or (found is False and not os.path.exists(folder / "shallow")):
        return not found
    if first_commit or read_remote(root):
        return bool(remote or read_remote(root))
    begun_ms = begun_at_ms(root) if read_first_commit(root) else None
    return begun_ms is not None and since_ms is not None and begun_ms < since_ms


def token_of(root: Path) -> str:
    """Return a short string that distinguishes successive repositories at one path. Git is not run."""
    hints = f"{read_remote(root)}\n{read_first_commit(root)}"
    return hashlib.sha256(hints.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _git(root: Path, *arguments: str) -> str:
    """Return git's output; "" if git fails or takes too long."""
    return (run_git(root, *arguments, seconds=GIT_SECONDS) or "").strip()
