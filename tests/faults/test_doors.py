"""P12: nobody else reads the memory, and no path or link leads out of its folders."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engram.errors import HomeError, StoreError
from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings
from engram.setup.installing.preflight import make_home
from engram.system.atomic import drop_leftovers, explain_disk, read_regular, write_atomic
from engram.system.process_lock import ProcessLock
from engram.tasks.queue_file import WakeListener
from engram.transcripts import transcript_files
from engram.worker.request_reader import open_listener

SESSION = "11111111-2222-3333-4444-555555555555"
#: A user that is not root, for what root may do anyway.
NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code under the widest umask, as another user where one is named."""
    return subprocess.run(
        [sys.executable, "-c", f"import os; os.umask(0)\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )


def open_to_others(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in [folder, *folder.rglob("*")]
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]


def test_whatever_the_umask_everything_made_is_for_the_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = (
        "from engram.cli.main import main\n"
        "import sys\n"
        f"main(['--home', {str(home)!r}, '--set', 'embedding_model=hashed', 'up', '--once', '--json'])"
    )

    done = run_python(code, CLAUDE_CONFIG_DIR=str(tmp_path / "claude"))

    assert done.returncode == 0, done.stderr
    assert (home / "memory.db").exists()
    assert open_to_others(home) == []


@needs_root
def test_the_memory_folder_of_another_user_is_named_as_such() -> None:
    code = (
        "import tempfile\n"
        "from pathlib import Path\n"
        "from click.testing import CliRunner\n"
        "from engram.cli.main import engram\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    os.chmod(folder, 0o755)\n"
        "    words = (['status'], ['recall', 'x'], ['save', 'x'])\n"
        "    commands = [['--home', f'{folder}/home', *one] for one in words]\n"
        "    for who in (0, NOBODY):\n"
        "        os.seteuid(who)\n"
        "        print(*(CliRunner().invoke(engram, command).output for command in commands))\n"
        "    os.seteuid(0)\n"
    ).replace("NOBODY", str(NOBODY))

    said = run_python(code, ENGRAM_EMBEDDING_MODEL="hashed").stdout

    assert said.count("belongs to another user; set ENGRAM_HOME to a folder of your own") == 3


def test_a_memory_folder_that_was_open_is_closed_at_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)

    Home(home).prepare()

    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@needs_root
def test_a_memory_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)

    with pytest.raises(HomeError, match="another user"):
        Home(home).prepare()


@needs_root
def test_a_read_only_memory_folder_is_one_clear_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    home.chmod(0o500)
    code = (
        "from engram.paths import Home\n"
        "from engram.errors import HomeError\n"
        "from pathlib import Path\n"
        f"os.setuid({NOBODY})\n"
        "try:\n"
        f"    Home(Path({str(home)!r})).prepare()\n"
        "except HomeError as error:\n"
        "    print(error)\n"
    )

    done = run_python(code)

    assert done.stdout.count("\n") == 1, done.stderr
    assert f"can't use the memory folder {home}: " in done.stdout
    assert done.stdout.endswith(". Another folder: --home DIR, or ENGRAM_HOME\n")


def test_a_limit_of_files_or_of_the_disk_is_named(tmp_path: Path) -> None:
    code = (
        "import resource\n"
        "from pathlib import Path\n"
        "from engram.system.atomic import explain_disk\n"
        f"path = Path({str(tmp_path)!r})\n"
        "print(explain_disk(path / 'memory.db'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "print(explain_disk(path / 'memory.db'))\n"
    )

    done = run_python(code)

    assert done.stdout == f"\nfiles in {tmp_path} can't grow: File too large\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_file_that_belongs_to_another_user_is_named_with_what_to_type(tmp_path: Path) -> None:
    names = ("memory.db", "memory.db-wal", "memory.db-shm", "worker.lock", "logs/worker.log")
    for name in names:
        home = tmp_path / name.replace("/", ".")
        (home / "logs").mkdir(parents=True)
        (home / name).write_bytes(b"")
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        os.chown(home / name, 0, 0)
        (home / name).chmod(0o600)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from engram.settings import Settings\n"
        "from engram.setup.doctor.machine_checks import Machine, check_writable\n"
        "from engram.system.atomic import closed_files, explain_closed, explain_disk\n"
        "homes = [os.open(home, os.O_RDONLY) for home in sys.argv[1:]]\n"
        f"os.setuid({NOBODY})\n"
        "here = Path('.')\n"
        "for home in homes:\n"
        "    os.fchdir(home)\n"
        "    print(*map(explain_closed, closed_files(here)))\n"
        "    print(explain_disk(here / 'memory.db'))\n"
        "    print(*(check.command for check in check_writable(Machine(Settings(home=here), Path('/')))))\n"
    )
    homes = [str(tmp_path / name.replace("/", ".")) for name in names]
    done = subprocess.run([sys.executable, "-c", code, *homes], capture_output=True, text=True, timeout=60, check=True)

    said = iter(done.stdout.splitlines())
    for name, closed, disk, command in zip(names, said, said, said, strict=True):
        folder = Path(name).parent
        cause = f"the file {name} belongs to another user. Run: sudo chown -R {NOBODY} {folder}"
        assert closed == cause
        assert disk == (cause if name.startswith("memory.db") else "")
        assert command == f"sudo chown -R {NOBODY} ."


def test_threads_that_fail_together_do_not_find_each_others_probe(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def explain(_: int) -> str:
        together.wait()
        return explain_disk(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(explain, range(8))) == {""}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda path: None, "missing/out.jsonl"), (lambda path: path.mkdir(), "out"), (Path.touch, "out/inside.md")],
    ids=["no folder", "a folder in its place", "a file above it"],
)
def test_a_file_that_cannot_be_written_is_named_as_the_user_knows_it(
    tmp_path: Path, make: Callable[[Path], object], name: str
) -> None:
    make(tmp_path / "out")

    with pytest.raises(OSError, match=re.escape(str(tmp_path / name))) as told:
        write_atomic(tmp_path / name, b"text")

    assert ".tmp" not in str(told.value)


def test_a_full_disk_keeps_the_old_file_and_leaves_no_half_one(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    write_atomic(path, b"old")
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from engram.system.atomic import write_atomic\n"
        "from pathlib import Path\n"
        "try:\n"
        f"    write_atomic(Path({str(path)!r}), b'x' * 5000)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )

    done = run_python(code)

    assert done.stdout.strip().isdigit(), done.stderr
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["note.md"]


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_a_file_size_limit_stops_writing_and_loses_nothing_that_was_committed(tmp_path: Path, driver: str) -> None:
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from engram.errors import StoreError\n"
        "from engram.models.open_memory import open_store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"store = open_store(Path({str(tmp_path / 'memory.db')!r}), driver={driver!r})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))\n"
        "done = 0\n"
        "try:\n"
        "    while True:\n"
        "        with store.transaction() as tx:\n"
        "            tx.run('INSERT INTO meta VALUES (?, ?)', (f'k{done}', 'x' * 9000))\n"
        "        done += 1\n"
        "except StoreError:\n"
        "    print(done)\n"
    )

    done = run_python(code)

    assert done.stdout.strip().isdigit(), done.stderr
    with open_store(tmp_path / "memory.db", driver=driver) as store:
        assert store.value("SELECT count(*) FROM meta WHERE key LIKE 'k%'") == int(done.stdout)
        assert store.find_damage() == ""


def test_links_and_devices_are_never_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root:x:0")
    link = tmp_path / "link"
    link.symlink_to(secret)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert [read_regular(path, 100) for path in (link, pipe, tmp_path, Path("/dev/zero"), tmp_path / "none")] == [
        None
    ] * 5


def test_a_transcript_that_is_a_link_to_another_users_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    folder = settings.projects_folder / "-work"
    folder.mkdir(parents=True)
    (tmp_path / "other.jsonl").write_text('{"type": "user", "uuid": "x", "message": {"content": "secret"}}\n')
    (folder / f"{SESSION}.jsonl").symlink_to(tmp_path / "other.jsonl")
    monkeypatch.setattr(transcript_files.os, "geteuid", lambda: os.getuid() + 1)

    with open_store(settings.places.memory_db) as store:
        (result,) = ingest_path(store, folder / f"{SESSION}.jsonl", settings=settings, redact=redact)

    assert result.skipped
    assert result.bytes_read == 0


def test_a_thousand_transcripts_need_few_descriptors(tmp_path: Path) -> None:
    folder = tmp_path / "claude/projects/-work"
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / f"session-{number}.jsonl").write_text('{"type": "user"}\n')
    # A process of its own: what else this one has open, or opens meanwhile, must not count.
    code = (
        "import resource\n"
        "from engram.cli.main import main\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/dev/fd')) + 40, hard))\n"
        f"main(['--home', {str(tmp_path / 'home')!r}, '--set', 'embedding_model=hashed', 'up', '--once', "
        "'--no-memories', '--json'])"
    )

    done = run_python(code, CLAUDE_CONFIG_DIR=str(tmp_path / "claude"))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == 1000
    with open_store(tmp_path / "home/memory.db") as store:
        assert store.value("SELECT sum(bytes_read) FROM transcript") == 17_000


def test_leftovers_of_killed_writers_go_and_young_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    old, young = tmp_path / "deep" / ".a.1.tmp", tmp_path / ".b.2.tmp"
    old.write_text("x")
    young.write_text("x")
    os.utime(old, (1, 1))

    assert drop_leftovers(tmp_path, 600) == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_a_database_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises((StoreError, OSError)):
        open_store(tmp_path / "file" / "memory.db")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
@pytest.mark.parametrize("feature", ["locks", "sockets"])
def test_a_file_system_that_lacks_locks_or_sockets_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str, number: int
) -> None:
    """A home folder on NFS without its lock service; one that a container or Windows shares."""
    settings = Settings(home=Home(tmp_path / "home").prepare().root, claude_folder=tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(*((fcntl, "flock") if feature == "locks" else (socket.socket, "bind")), refuse, raising=False)
    uses: list[Callable[[], object]] = [lambda: make_home(settings.places)]
    if feature == "locks":
        uses += [lambda: open_store(settings.places.memory_db), lambda: ProcessLock(settings.places.worker_lock)]
    else:
        uses += [lambda: WakeListener(settings.places.wake_socket), lambda: open_listener(settings.places.mcp_socket)]

    for use in uses:
        with pytest.raises(
            HomeError, match=rf"can't use the memory folder .*: its file system does not support {feature} \("
        ):
            use()
