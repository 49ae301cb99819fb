"""Use a git checkout as a hub's folder: fetch it before a round, commit and push it afterwards.

Each machine commits only the files in its own folder, so that two machines never change the same file. Engram's commits
are rebased onto what others have pushed in the meantime. If that fails, the round stops with git's message; nothing is
lost, because the data stays in the checkout. A person's commits are neither pushed nor rewritten; rounds stop while the
remote lacks any of them. Git never runs a program that the checkout configures (``transcripts/git_commands.py``).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from engram.errors import HubUnreachable
from engram.hub.client.folder_files import DEVICE
from engram.system.atomic import write_atomic
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.git_commands import MAX_GIT_SECONDS, call_git, filter_options, programs_configured
from engram.transcripts.git_files import DETACHED, read_branch

#: Maximum duration of a git call that uses the network, in seconds.
NETWORK_SECONDS = 90.0
#: Maximum number of attempts at a push, because other machines may push first.
MAX_PUSHES = 4
#: File that makes git treat Engram's files as binary, whatever the checkout configures for other files.
ATTRIBUTES = ".gitattributes"
_BYTES = b"* -text -diff -filter -merge -ident\n"
_NAME = lazy_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
#: File in the ``.git`` folder that marks a rebase as being made by Engram.
_OURS = "engram-rebase"
#: Author of Engram's commits; they differ from a person's in their author and in the files that they change.
_EMAIL = "engram@localhost"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Engram",
    "GIT_AUTHOR_EMAIL": _EMAIL,
    "GIT_COMMITTER_NAME": "Engram",
    "GIT_COMMITTER_EMAIL": _EMAIL,
}


class GitFolder:
    """Runs git in one checkout, for one round."""

    def __init__(self, root: Path, branch: str = "") -> None:
        """Prepare to use a folder in a checkout, without running git.

        If ``branch`` is set, any other branch is an error.
        """
        self._root = root
        self._wanted = branch
        self._is_checked = False
        self._options: list[str] = []
        self._folder = root
        self._remote = self._branch = ""

    def check_branch(self) -> None:
        """Raise HubUnreachable if a branch other than the one in use is checked out; git is not run."""
        found = read_branch(str(self._root))
        if self._wanted and found != self._wanted:
            raise HubUnreachable(
                f"{self._root} is on {_named(found)}, but Engram uses branch {self._wanted}: run "
                f"`git checkout {self._wanted}` there, or `engram sync` with the folder to use what is checked out"
            )

    def look(self) -> tuple[str, list[str]]:
        """Return the branch, and the names of the spaces that it has on the remote as far as is known; change nothing.

        Raises:
            HubUnreachable: the folder is not a checkout of a branch, or another operation is in progress in it.
        """
        self._check()
        return self._branch, self._spaces()

    def fetch(self) -> list[str]:
        """Fetch without touching the branch or the files, and return the names of the spaces on the remote.

        Raises:
            HubUnreachable: as for ``look``; also if git failed, or the remote lacks a person's commits.
        """
        self._check()
        self._fetch()
        self._refuse_unpushed()
        return self._spaces()

    def begin(self, own_folder: Path) -> str:
        """Fetch what others pushed, commit what a killed round left behind, and return the branch.

        Raises:
            HubUnreachable: as for ``fetch``.
        """
        self._check(mends=True)
        self.fetch()
        self._commit(own_folder)
        self._catch_up()
        return self._branch

    def finish(self, own_folder: Path) -> None:
        """Commit and push what this machine wrote or deleted. Raises HubUnreachable."""
        self._check()
        self._commit(own_folder)
        for _ in range(MAX_PUSHES):
            ahead = self._refuse_unpushed()
            if not ahead:
                return
            code, told = self._call(
                "push",
                "--porcelain",
                "--no-verify",
                "--recurse-submodules=no",
                "--receive-pack=git-receive-pack",
                self._remote,
                # Push the commit, not the branch, because a person may have committed in the meantime.
                f"{ahead}:refs/heads/{self._branch}",
                with_network=True,
            )
            if not code:
                # A push to a URL that is not a configured remote does not update a remote-tracking branch.
                self._must("update-ref", self._upstream, ahead)
                return
            if "[rejected]" not in told and "fetch first" not in told:
                raise HubUnreachable(f"git could not push: {_last_line(told)}")
            self._fetch()
            self._refuse_unpushed()
            self._catch_up()
        raise HubUnreachable("other machines keep pushing: it will be retried")

    # -- steps

    @property
    def _upstream(self) -> str:
        return f"refs/remotes/{self._remote}/{self._branch}"

    def _check(self, *, mends: bool = False) -> None:
        """Check the checkout once; abort a rebase that Engram left unfinished only if ``mends`` is set."""
        if self._is_checked:
            return
        code, told = self._call("rev-parse", "--show-toplevel", "--absolute-git-dir")
        if code:
            raise HubUnreachable(
                f"{self._root} is not a git checkout ({_last_line(told)}): use it as a plain folder with --no-git"
            )
        self._folder = Path(told.splitlines()[-1])
        filters, programs = filter_options(self._root), programs_configured(self._root)
        if filters is None or programs is None:
            raise HubUnreachable(f"git can't report the configuration of {self._root}")
        if programs:
            raise HubUnreachable(
                f"the configuration of this checkout specifies a program ({programs[0]}): move that to your own "
                "configuration (git config --global)"
            )
        self._options = filters
        if mends:
            self._end_our_rebase()
        going_on = [name for name in ("rebase-merge", "rebase-apply", "MERGE_HEAD") if (self._folder / name).exists()]
        if going_on:
            raise HubUnreachable(f"a merge or rebase is in progress in {self._root}: finish it first")
        code, told = self._call("symbolic-ref", "--short", "HEAD")
        self._branch = told.strip()
        if code or not _NAME.fullmatch(self._branch):
            raise HubUnreachable(f"{self._root} is not on a branch: check one out")
        self.check_branch()
        _, told = self._call("config", "--get", f"branch.{self._branch}.remote")
        _, remotes = self._call("remote")
        known = remotes.split()
        wanted = told.strip() or "origin"
        self._remote = wanted if wanted in known and _NAME.fullmatch(wanted) else ""
        self._is_checked = True

    def _end_our_rebase(self) -> None:
        if (self._folder / _OURS).exists():
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "index.lock").unlink()
            if (self._folder / "rebase-merge").exists():
                self._must("rebase", "--abort")
            (self._folder / _OURS).unlink()

    def _spaces(self) -> list[str]:
        """Return the names of the spaces in the last fetched commit of the branch, if the remote has it."""
        code, told = self._call("ls-tree", "-d", "--name-only", "-z", self._upstream, "spaces/")
        names = [name.rpartition("/")[2] for name in told.split("\0")[:-1]]
        return [] if code or not self._remote else [name for name in names if DEVICE.fullmatch(name)]

    def _refuse_unpushed(self) -> str:
        """Return the last commit if the remote is not known to have it; "" if the remote has every commit.

        Raises:
            HubUnreachable: a person made one of the commits that the remote lacks.
        """
        code, head = self._call("rev-parse", "--verify", "--quiet", "HEAD")
        if not self._remote or code:
            return ""
        has_upstream = self._call("rev-parse", "--verify", "--quiet", self._upstream)[0] == 0
        # A new branch begins with commits that are already on other branches of the remote.
        lacking = [head.strip(), "--not", self._upstream if has_upstream else f"--remotes={self._remote}", "--"]
        shown = ("-z", "--format=%x01%ae %h %s", "--name-only", "--no-renames", "--no-ext-diff", "--no-relative")
        told = self._must("log", *shown, *lacking)
        prefix = self._must("rev-parse", "--show-prefix").removesuffix("\n") + "spaces/"
        commits: list[str] = []
        foreign = set[str]()
        for part in told.split("\0")[:-1]:
            if part.startswith("\1"):
                email, _, commit = part[1:].partition(" ")
                commits.append(commit)
                if email != _EMAIL:
                    foreign.add(commit)
            elif (path := part.removeprefix("\n")) and not path.startswith(prefix):
                foreign.add(commits[-1])
        if foreign:
            latest = next(commit for commit in commits if commit in foreign)
            some = f"{len(foreign)} commits" if foreign - {latest} else "a commit"
            raise HubUnreachable(
                f"{self._branch} has {some} by you that {self._remote} lacks ({latest[:60]}): push what should be "
                f"there with `git push`, or move it to another branch, then run `engram sync` again"
            )
        return head.strip() if commits else ""

    def _commit(self, own_folder: Path) -> None:
        path = str(own_folder)
        if own_folder.is_dir():
            if not (own_folder / ATTRIBUTES).exists():
                write_atomic(own_folder / ATTRIBUTES, _BYTES)
        elif not self._must("ls-files", "--", path):
            return
        self._must("add", "--all", "--force", "--", path)
        code, _ = self._call("diff", "--cached", "--quiet", "--no-ext-diff", "--", path)
        if code:
            self._must("commit", "--quiet", "--no-verify", "--only", "-m", "engram: sync", "--", path)

    def _fetch(self) -> None:
        if not self._remote:
            return
        code, told = self._call(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-auto-maintenance",
            "--recurse-submodules=no",
            "--upload-pack=git-upload-pack",
            self._remote,
            f"+refs/heads/*:refs/remotes/{self._remote}/*",
            with_network=True,
        )
        if code:
            raise HubUnreachable(f"git could not fetch: {_last_line(told)}")

    def _catch_up(self) -> None:
        """Rebase local commits onto what others have pushed."""
        if not self._remote or self._call("rev-parse", "--verify", "--quiet", self._upstream)[0]:
            return
        if self._call("merge-base", "--is-ancestor", self._upstream, "HEAD")[0] == 0:
            return
        has_none = self._call("rev-parse", "--verify", "--quiet", "HEAD")[0] != 0
        is_behind = has_none or self._call("merge-base", "--is-ancestor", "HEAD", self._upstream)[0] == 0
        write_atomic(self._folder / _OURS, b"")
        if is_behind:
            code, told = self._call("merge", "--ff-only", "--quiet", self._upstream)
        else:
            code, told = self._call("rebase", "--quiet", "--no-autostash", "--no-verify", self._upstream)
            if code and (self._folder / "rebase-merge").exists():
                self._must("rebase", "--abort")
        (self._folder / _OURS).unlink()
        if code:
            raise HubUnreachable(f"git could not combine both sides: {_last_line(told)}")

    # -- git

    def _must(self, *arguments: str) -> str:
        code, told = self._call(*arguments)
        if code:
            raise HubUnreachable(f"git {arguments[0]} failed: {_last_line(told)}")
        return told

    def _call(self, *arguments: str, with_network: bool = False) -> tuple[int, str]:
        """Run git, and return its exit code and its output."""
        return call_git(
            self._root,
            *self._options,
            *arguments,
            environment=_IDENTITY,
            with_network=with_network,
            seconds=NETWORK_SECONDS if with_network else 3 * MAX_GIT_SECONDS,
        )


def _named(branch: str) -> str:
    return f"branch {branch}" if branch and branch != DETACHED else "no branch"


def _last_line(told: str) -> str:
    """Return the most informative line of git's output: its first error, otherwise its first line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("fatal:", "error:", "!"))]
    return (said or lines or ["it printed nothing"])[0][:200]
