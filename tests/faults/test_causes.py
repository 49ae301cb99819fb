"""A message names the cause: a full disk, no inodes, a read-only file system, a file of another kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import run_command

needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0,
    reason="only root may mount a small disk in a name space of its own",
)


def engram(home: Path, *arguments: str) -> str:
    """A shell command that runs engram on a memory folder."""
    code = f"from engram.cli.main import main; main({['--home', str(home), *arguments]!r})"
    return f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'"


#: Runs commands on a memory folder, each with its exit code, in one process.
SEVERAL = """
import contextlib, sys
from engram.cli.main import main
home, *lines = sys.argv[1:]
for line in lines:
    with contextlib.suppress(SystemExit):
        main(["--home", home, *line.split()])
"""


def several(home: Path, *lines: str) -> str:
    """A shell command that runs several commands on a memory folder, one after the other."""
    return f"{sys.executable} -c '{SEVERAL}' {home} " + " ".join(f"'{line}'" for line in lines)


def on_small_disk(folder: Path, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a name space where ``folder`` is a separate small disk."""
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o {options} none {folder} && {{ {script}\n}}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@needs_mounts
@pytest.mark.parametrize(
    ("options", "prepare", "cause"),
    [
        ("size=2m", "head -c 3000000 /dev/zero > {0}/fill 2>/dev/null", "is full"),
        ("size=40m,nr_inodes=20", "n=0; while touch {0}/f$n; do n=$((n+1)); done 2>/dev/null", "no inodes left"),
        ("size=20m", "mount -o remount,ro {0}", "read-only"),
    ],
    ids=["full", "no inodes", "read-only"],
)
def test_the_state_of_the_disk_is_named(tmp_path: Path, options: str, prepare: str, cause: str) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    commands = several(home, "save --global The-mast-is-brown", "pause")

    done = on_small_disk(home.parent, options, f"{prepare.format(home.parent)}\n{commands}")

    said = done.stderr.splitlines()
    assert [cause in line for line in said] == [True, True], done.stderr
    assert "bug in Engram" not in done.stderr


@needs_mounts
def test_a_memory_that_cannot_be_written_is_still_read(tmp_path: Path) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    asked = ("timeline", "recall mast", "search mast", "export", "status", "doctor", "pause")
    again = several(home, *asked)
    make = engram(home, "save", "--global", "The mast is brown")

    done = on_small_disk(home.parent, "size=40m", f"{make} && mount -o remount,ro {home.parent}; {again}")

    assert done.stdout.count("The mast is brown") >= 3, done.stdout + done.stderr
    assert "bug in Engram" not in done.stderr
    assert done.stderr.count("Error: ") == 1, done.stderr  # pause alone
    assert "can't be written" in done.stdout
    assert "repairs the file" not in done.stdout


@needs_mounts
@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_on_a_full_disk_where_nothing_runs_the_memory_is_still_read(tmp_path: Path, driver: str) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    option = f"--set sqlite_driver={driver}"
    asked = ("timeline", "recall mast", "search mast", "export", "status", "save x", "up --once")
    again = several(home, *(f"{option} {line}" for line in asked))
    make = engram(home, "save", "--global", "The mast is brown")

    done = on_small_disk(home.parent, "size=4m", f"{make}; head -c 9000000 /dev/zero > {home.parent}/fill; {again}")

    assert done.stdout.count("The mast is brown") >= 3, done.stdout + done.stderr
    assert "bug in Engram" not in done.stderr
    refused = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert ["is full: free up some space" in line for line in refused] == [True, True], done.stderr
    assert "disk             nothing new is read or kept: the disk of" in done.stdout


#: Makes a memory with a backup, fills its disk up to a rest in kB, and forgets the memory.
FORGET_ON_A_FULL_DISK = """
import os, sys
from engram.cli.main import main
from engram.models.open_memory import open_memory
from engram.models.rescue.backup import make_backup
from engram.paths import Home
from pathlib import Path
home, rest = Home(Path(sys.argv[1])), int(sys.argv[2])
def run(*words):
    if os.fork() == 0:
        main(["--home", str(home.root), *words])
    os.wait()
run("save", "--global", "The zebrafinch sings at noon")
with open_memory(home.root / "memory.db", driver="cysqlite", is_made=False) as store:
    with store.transaction() as tx:
        for number in range(300):
            tx.run("INSERT INTO meta (key, value) VALUES (?, ?)", (f"k{number}", "x" * 5000))
    memory_id = store.value("SELECT episode_id FROM episode")
    make_backup(store, home.backups)
    store.checkpoint("TRUNCATE")
disk = os.statvfs(home.root)
fill = home.root.parent / "fill"
fill.write_bytes(bytes(disk.f_bavail * disk.f_frsize - rest * 1000))
run("forget", memory_id, "--yes")
fill.unlink()
run("timeline")
run("consolidate")
run("forget", memory_id, "--yes")
for path in [home.root / "memory.db", *home.backups.glob("*.db")]:
    print(path.name[:6], b"zebrafinch" in path.read_bytes())
"""


@needs_mounts
@pytest.mark.parametrize(("rest_kb", "is_refused"), [(40, True), (1500, True), (9000, False)])
def test_a_forget_without_room_keeps_the_backup_and_is_done_later(
    tmp_path: Path, rest_kb: int, is_refused: bool
) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    (tmp_path / "script.py").write_text(FORGET_ON_A_FULL_DISK)

    done = on_small_disk(home.parent, "size=90m", f"{sys.executable} {tmp_path / 'script.py'} {home} {rest_kb}")

    assert ("full" in done.stderr) is is_refused, done.stderr
    assert ("The zebrafinch sings at noon\n" in done.stdout) is is_refused, done.stdout + done.stderr
    assert done.stdout.count("Forgotten: ") == 1
    assert done.stdout.splitlines()[-2:] == ["memory False", "memory False"]


#: Keeps a memory open for reading, as the page does, while commands run on it in processes of their own.
BESIDE_A_READER = """
import os, sys
from pathlib import Path
from engram.cli.main import main
from engram.models.open_memory import open_memory
home, *lines = sys.argv[1:]
with open_memory(Path(home) / "memory.db", driver="cysqlite", is_made=True) as store:
    store.value("SELECT count(*) FROM episode")
    for line in lines:
        if os.fork() == 0:
            main(["--home", home, *line.split()])
        os.wait()
"""


@needs_mounts
def test_on_a_full_disk_no_other_process_is_blamed(tmp_path: Path) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    make = engram(home, "save", "--global", "The mast is brown")
    fill = f"head -c 9000000 /dev/zero > {home.parent}/fill"

    done = on_small_disk(
        home.parent, "size=4m", f"{make}; {fill}; {sys.executable} -c '{BESIDE_A_READER}' {home} timeline"
    )

    assert "another process" not in done.stderr
    assert "The mast is brown" in done.stdout or "is full: free up some space" in done.stderr, done.stdout + done.stderr


@needs_mounts
def test_a_disk_that_became_full_is_named_by_status_and_doctor(tmp_path: Path) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    # A reader keeps the log and its index, as a running worker does.
    held = (
        "import sqlite3, sys\n"
        "held = sqlite3.connect(sys.argv[1])\n"
        "held.execute('CREATE TABLE held (a)')\n"
        "with open(sys.argv[2], 'wb', buffering=0) as fill:\n"
        "    try:\n"
        "        while fill.write(bytes(4096)):\n"
        "            pass\n"
        "    except OSError:\n"
        "        pass\n"
    )
    make = engram(home, "save", "--global", "The mast is brown")
    fill = f'{sys.executable} -c "{held}import subprocess; subprocess.call(sys.argv[3], shell=True)"'
    asked = several(home, "status", "doctor").replace("'", "'\\''")

    done = on_small_disk(home.parent, "size=40m", f"{make} && {fill} {home}/memory.db {home.parent}/fill '{asked}'")

    lines = [line for line in done.stdout.splitlines() if "nothing new is read or kept: the disk of" in line]
    assert [line.split()[0] for line in lines] == ["disk", "bad"], done.stdout + done.stderr


@needs_mounts
def test_a_disk_that_becomes_read_only_is_named(tmp_path: Path) -> None:
    home = tmp_path / "disk" / "home"
    home.parent.mkdir()
    save, later = (engram(home, "save", "--global", f"The {part} is brown") for part in ("mast", "hull"))

    done = on_small_disk(home.parent, "size=40m", f"{save} && mount -o remount,ro {home.parent}; {later}")

    assert done.stderr.count("\n") == 1, done.stderr
    assert "read-only" in done.stderr


@pytest.mark.parametrize(
    ("suffix", "command"), [("-wal", "recall mast"), ("-wal", "status"), ("-wal", "save x"), ("-shm", "save x")]
)
def test_a_folder_where_sqlite_keeps_its_log_is_named(tmp_path: Path, suffix: str, command: str) -> None:
    home = tmp_path / "home"
    run_command("--home", str(home), "save", "--global", "The mast is brown")
    in_the_way = home / f"memory.db{suffix}"
    in_the_way.mkdir()

    done = run_command("--home", str(home), *command.split())

    assert done.returncode == 1
    assert f"{in_the_way} is not a file: move it away" in done.stderr, done.stderr


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\xff\xfe" * 500, b"\xff\xfe{\0}\0", b"\0" * 20_000_000])
def test_a_binary_file_is_not_an_export(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "program"
    file.write_bytes(content)

    done = run_command("--home", str(tmp_path / "home"), "import", str(file))

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "not an Engram export" in done.stderr or "not JSON" in done.stderr


def test_the_log_of_a_fault_lies_in_the_named_home(tmp_path: Path) -> None:
    home = tmp_path / "named"
    (home / "logs").mkdir(parents=True)
    code = (
        "import engram.cli.status_commands as module\n"
        "from engram.cli.main import main\n"
        "def fail(*_):\n"
        "    raise RuntimeError('a fault')\n"
        "module.take_health = fail\n"
        f"main(['--home', {str(home)!r}, 'status'])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert str(home / "logs" / "cli.log") in done.stderr
    assert "RuntimeError" in (home / "logs" / "cli.log").read_text()
    assert not (tmp_path / "home" / "logs").exists()


@needs_mounts
def test_a_config_file_that_is_mounted_as_a_file_of_its_own_is_named(tmp_path: Path) -> None:
    home, given = tmp_path / "disk" / "home", tmp_path / "given.toml"
    home.mkdir(parents=True)
    given.write_text("bites = 2\n")
    mount = f"mkdir {home} && touch {home}/config.toml && mount --bind {given} {home}/config.toml"

    done = on_small_disk(home.parent, "size=2m", f"{mount} && {engram(home, 'config', 'set', 'bites', '1')}")

    assert "config.toml is mounted as a file of its own" in done.stderr
    assert "Change it where it comes from" in done.stderr
    assert given.read_text() == "bites = 2\n"
