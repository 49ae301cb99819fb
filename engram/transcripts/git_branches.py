"""Find out whether branches were merged, from what the local repository knows. Unknown is said rather than wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.enums import BranchState
from engram.transcripts.git_command import run_git
from engram.transcripts.git_files import DETACHED

#: Names of branches that count as merged in every repository.
MAIN_NAMES = ("main", "master")
#: Maximum duration of a call of git, in seconds.
MAX_SECONDS = 5.0
#: Maximum number of commits and of files of a branch that are compared.
MAX_COMMITS, MAX_FILES = 1_000, 1_000
_HASH = re.compile(r"[0-9a-f]{7,64}")
_FULL_HASH = re.compile(r"[0-9a-f]{40,64}")
#: Entries of a branch's log that say that it was made, and that a commit was made on it.
_CREATED = "branch: Created"
_COMMITTED = ("commit", "cherry-pick", "revert", "am:")


@dataclass(frozen=True, slots=True)
class KnownBranch:
    """What is known of a branch before git is asked."""

    name: str
    #: The last commit that was seen on it; "" for none.
    tip: str = ""
    #: True if a commit was ever seen on it.
    has_commits: bool = False
    #: Commits that a transcript reports on it, the latest last; maybe abbreviated.
    commits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchReading:
    """What git says of a branch."""

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
    #: Name of the default branch; "" if it is not known.
    default: str

    @property
    def main_tips(self) -> tuple[str, ...]:
        """The commits of the default branch, here and at its remote."""
        names = (f"refs/heads/{self.default}", f"refs/remotes/origin/{self.default}")
        return tuple(dict.fromkeys(self.tips[name] for name in names if name in self.tips)) if self.default else ()

    def tip_of(self, branch: str) -> str:
        """Return the commit of a branch, here or else at a remote; "" for a branch that is gone."""
        local = self.tips.get(f"refs/heads/{branch}")
        if local:
            return local
        is_remote = re.compile(rf"refs/remotes/[^/]+/{re.escape(branch)}").fullmatch
        return next((tip for name, tip in self.tips.items() if is_remote(name)), "")

    def has_lost_upstream(self, branch: str) -> bool:
        """True if the branch had a branch at a remote that is gone: it was probably merged there."""
        upstream = self.upstreams.get(f"refs/heads/{branch}", "")
        return bool(upstream) and upstream not in self.tips


def read_refs(root: Path) -> Refs | None:
    """Return the branches of a repository; None if git is missing, slow or fails."""
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
    """True for the default branch, for a detached head, and outside a repository."""
    return name in ("", DETACHED, default, *MAIN_NAMES)


def read_branch_state(root: Path, refs: Refs, known: KnownBranch) -> BranchReading:
    """Return what git says of a branch."""
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
    """Return the state of a branch whose last commit is in the default branch: merged, or no commit made yet."""
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
    """Compare the files of a branch with what the default branch made of them since they parted.

    A branch that was squashed or rebased into the default branch left all its files there, as they are at its tip, at
    one moment. If not, and the default branch never took over a version of a file, and never changed some of the files
    at all, the branch is not merged. Anything else is unknown.
    """
    changed = _changes(root, base, tip, only_ends=True)
    ours = _changes(root, base, tip)
    theirs = _changes(root, base, main)
    if not changed or ours is None or theirs is None:
        return BranchState.UNKNOWN
    wanted = dict(changed[0])
    if len(wanted) > MAX_FILES:
        return BranchState.UNKNOWN
    versions = {change for commit in ours for change in commit}
    left, is_partly_there, touched = dict(wanted), False, set[str]()
    for commit in theirs:
        for path, content in commit:
            if path not in wanted:
                continue
            touched.add(path)
            is_partly_there |= (path, content) in versions
            if wanted[path] == content:
                left.pop(path, None)
            else:
                left[path] = wanted[path]
        if not left:
            return BranchState.MERGED
    is_complete = len(theirs) < MAX_COMMITS and len(ours) < MAX_COMMITS
    return BranchState.OPEN if is_complete and not is_partly_there and touched != set(wanted) else BranchState.UNKNOWN


def _changes(root: Path, base: str, tip: str, *, only_ends: bool = False) -> list[list[tuple[str, str]]] | None:
    """Return file and content of what each commit from ``base`` to ``tip`` changed, the oldest commit first.

    ``only_ends`` compares the two commits as if there was one between them.
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
    """Return the full hash of the latest of these commits that the repository still has; "" for none."""
    for commit in reversed(commits[-3:]):
        if _HASH.fullmatch(commit):
            full = run_git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", seconds=MAX_SECONDS)
            if full and _FULL_HASH.fullmatch(full.strip()):
                return full.strip()
    return ""
