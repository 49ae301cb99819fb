"""What a hub is promised to hold and not to hold, and what time, versions and refusals do to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engram.enums import Actor
from engram.hub.client.connection import Connection
from engram.hub.client.membership import give_key, rotate_key
from engram.hub.protocol import statements
from engram.memories.save import edit_memory, pin_memory
from engram.models.hub.spaces import list_set_aside, list_spaces
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.hub.machines import Hub, HubCopy, Machine
from tests.hub.postgres import Postgres, running_postgres, system_folder, wheel_folder
from tests.hub.test_service import Device

Make = Callable[..., Machine]
#: The documented clean-up of a hub after an erase, as its operator types it.
CLEAN_UP = ["VACUUM FULL hub.statement", *["SELECT pg_switch_wal()", "CHECKPOINT"] * 4]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every byte of the bodies of requests and answers, as machines send and receive them."""
    bodies: list[bytes] = []
    send = Connection.send

    def recorded(self: Connection, what: str, body: bytes, **options: Any) -> bytes:
        answer = send(self, what, body, **options)
        bodies.extend((body, answer))
        return answer

    monkeypatch.setattr(Connection, "send", recorded)
    return bodies


def test_a_month_offline_sends_each_row_once(postgres: Postgres, make_machine: Make) -> None:
    clocks = [FixedClock() for _ in range(3)]
    with Hub.running(postgres.make_database(), clocks[0]) as hub:
        laptop, desktop = make_machine("laptop", clock=clocks[1]), make_machine("desktop", clock=clocks[2])
        laptop.join(hub, hub.invite("Ada"))
        known = [laptop.save(f"Known before the journey, {number}.") for number in range(5)]
        laptop.sync()
        desktop.join(hub, laptop.code())
        desktop.sync()
        for day in range(30):
            for clock in clocks:
                clock.advance(86_400)
            for machine in (laptop, desktop):
                machine.save(f"Said on day {day} on {machine.places.root.name}.")
            edit_memory(laptop.store, known[day % 5].episode_id, redact, actor=Actor.USER, content=f"Edit {day}.")
            laptop.sync()

        back, laptop_after = desktop.sync(), laptop.sync()
        assert (back.pulled, back.pushed) == (35, 30)
        assert (laptop_after.pulled, laptop_after.pushed) == (30, 0)
        assert not desktop.sync().did_something
        assert not laptop.sync().did_something
        assert laptop.said() == desktop.said()


def test_nothing_readable_is_in_a_dump_or_on_the_wire_and_nothing_is_sent_without_a_hub(
    hub: Hub, make_machine: Make, sent: list[bytes]
) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.save("The alone-canary is said where no hub was joined.")
    assert sent == []
    laptop.join(hub, hub.invite("Ada"))
    memory = laptop.save("The quixotic-canary is called heron.")
    laptop.sync()
    desktop.join(hub, laptop.code())
    edit_memory(laptop.store, memory.episode_id, redact, actor=Actor.USER, content="The second-canary is an otter.")
    for machine in (laptop, desktop):
        machine.sync()
    assert "The second-canary is an otter." in desktop.texts()

    dump = "".join(str(row) for table in _tables(hub) for row in hub.rows(f"SELECT t::text AS row FROM hub.{table} t"))
    raw = b"".join(bytes(row.body) for row in hub.rows("SELECT body FROM hub.statement"))
    for place in (b"".join(sent), raw, dump.encode()):
        assert len(place) > 500
        assert b"canary" not in place
        assert b"canary".hex().encode() not in place


def _tables(hub: Hub) -> list[str]:
    rows = hub.rows("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'hub'")
    return [str(row.name) for row in rows]


@pytest.mark.parametrize("programs", [wheel_folder(), system_folder()], ids=["wheel", "debian"])
def test_an_erase_and_its_documented_clean_up_leave_no_byte_on_the_hub(programs: Path | None) -> None:
    if programs is None:
        pytest.skip("no such PostgreSQL is installed")
    page = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")
    assert all(command in page for command in set(CLEAN_UP))
    with running_postgres(programs) as server, Hub.running(dsn := server.make_database()) as hub:
        ada = Device(hub, hub.invite("ada"))
        ada.push(*(ada.row(f"m{number}", body=b"erased-canary" * 30) for number in range(40)))
        assert _bytes_found(server, b"erased-canary") > 0
        ada.push(*(ada.row(f"m{number}", 2, is_forgotten=True, body=b"") for number in range(40)))
        admin = dsn.replace(f"user={dsn.split('user=')[1].split()[0]}", "user=postgres")
        with psycopg.connect(admin, autocommit=True) as connection:
            for command in CLEAN_UP:
                connection.execute(command.encode())
        assert _bytes_found(server, b"erased-canary") == 0
        assert len(hub.rows("SELECT 1 FROM hub.statement WHERE is_forgotten")) == 40


def _bytes_found(server: Postgres, canary: bytes) -> int:
    files = [path for path in (server.folder / "data").rglob("*") if path.is_file()]
    return sum(path.read_bytes().count(canary) for path in files)


def test_an_older_program_loses_no_field_and_reads_it_after_its_update(
    hub: Hub, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old, third = make_machine("new"), make_machine("old"), make_machine("third")
    new.join(hub, hub.invite("Ada"))
    memory = new.save("The build runs on otter.")
    new.sync()
    old.join(hub, new.code())
    old.sync()
    pin_memory(new.store, memory.episode_id, actor=Actor.USER)
    new.sync()

    with monkeypatch.context() as older:
        older.setattr(statements, "FIELDS", tuple(name for name in statements.FIELDS if name != "pinned"))
        old.sync()
        assert not old.find(memory.episode_id).is_pinned
        assert [row.reason for row in list_set_aside(old.store)] == ["has fields of a newer version"]
        edit_memory(old.store, memory.episode_id, redact, actor=Actor.USER, content="The build runs on badger.")
        old.sync()
    new.sync()
    third.join(hub, new.code())
    third.sync()
    for machine in (new, third):
        seen = machine.find(memory.episode_id)
        assert (seen.is_pinned, seen.content) == (True, "The build runs on badger.")

    with monkeypatch.context() as newest:
        newest.setattr(statements, "FORMAT", 2)
        later = new.save("Written in a format to come.")
        new.sync()
    assert old.sync().changed == 1
    assert old.find(memory.episode_id).is_pinned
    assert later.content not in old.texts()
    assert ["newer version" in row.reason for row in list_set_aside(old.store)] == [True]
    with monkeypatch.context() as updated:
        updated.setattr(statements, "FORMAT", 2)
        old.sync()
    assert later.content in old.texts()
    assert list_set_aside(old.store) == []
    assert old.said() == new.said()


def test_a_row_that_the_database_refuses_is_found_among_the_others(hub: Hub, make_machine: Make) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    memories = [laptop.save(f"One of nine, {number}.") for number in range(9)]
    refused = bytes.fromhex(memories[4].stable_id)
    with hub.database.service() as connection:
        connection.execute(f"ALTER TABLE hub.statement ADD CHECK (memory_id <> '\\x{refused.hex()}')".encode())
    done = laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()

    assert (done.pushed, done.refused) == (8, 1)
    assert desktop.texts() == {memory.content for memory in memories if memory is not memories[4]}
    assert [row.reason for row in list_set_aside(laptop.store)] == ["the database refuses that"]
    assert not laptop.sync().did_something


def test_a_new_key_seals_everything_anew_and_shuts_out_whoever_lacks_it(hub: Hub, make_machine: Make) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.save("Sealed with the first key.")
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    own = desktop.save("Said on the desktop.")
    desktop.sync()
    laptop.sync()
    before = {bytes(row.body)[1:9] for row in hub.rows("SELECT body FROM hub.statement")}
    phrase = rotate_key(laptop.store, laptop.places, "private")
    laptop.sync()
    late = desktop.save("Said before the desktop had the new key.")
    desktop.sync()

    assert "its key was changed" in list_spaces(desktop.store)[0].last_error
    assert late.content not in laptop.texts()
    give_key(desktop.store, desktop.places, "private", phrase)
    for machine in (desktop, laptop, desktop):
        machine.sync()
    assert laptop.said() == desktop.said()
    assert {own.content, late.content} <= laptop.texts()
    after = {
        bytes(row.body)[1:9]
        for row in hub.rows(
            "SELECT DISTINCT ON (memory_id) body FROM hub.statement ORDER BY memory_id, hlc DESC, seq DESC"
        )
    }
    assert not before & after


@pytest.mark.soak
def test_a_copy_of_the_hub_that_is_put_back_twenty_times_heals(hub: Hub, make_machine: Make) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    kept, gone = set(), set()
    for number in range(20):
        copy = HubCopy.take(hub)
        first, second = laptop.save(f"Kept {number}."), desktop.save(f"Forgotten {number}.")
        for machine in (laptop, desktop, laptop):
            machine.sync()
        laptop.forget(second.episode_id)
        edit_memory(desktop.store, first.episode_id, redact, actor=Actor.USER, content=f"Edited {number}.")
        for machine in (laptop, desktop, laptop):
            machine.sync()
        kept.add(f"Edited {number}.")
        gone.add(second.content)
        copy.put_back(hub)
        for machine in (laptop, desktop, laptop):
            machine.sync()
        assert laptop.texts() == desktop.texts() == kept
    third = make_machine("third")
    third.join(hub, laptop.code())
    third.sync()
    assert third.texts() == kept
    assert third.said() == laptop.said() == desktop.said()


def test_a_machine_that_was_away_until_the_hub_dropped_its_mark_brings_nothing_back(
    hub: Hub, make_machine: Make
) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    kept, gone, pinned = (laptop.save(text) for text in ("Kept.", "Forgotten.", "Forgotten, too."))
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    desktop.edit(gone.episode_id, "Edited while away.")
    pin_memory(desktop.store, pinned.episode_id, actor=Actor.USER)
    desktop.save("Said while away.")
    for memory in (gone, pinned):
        laptop.forget(memory.episode_id)
    laptop.edit(kept.episode_id, "Kept, and edited.")
    laptop.sync()
    with hub.database.service() as connection:
        connection.execute(b"DELETE FROM hub.mark WHERE seq < (SELECT max(seq) FROM hub.mark)")

    for machine in (desktop, laptop, desktop):
        machine.sync()

    assert laptop.said() == desktop.said()
    assert laptop.texts() == {"Kept, and edited.", "Said while away."}
    assert len(hub.rows("SELECT 1 FROM hub.device")) == 2


def test_what_another_machine_sealed_with_the_former_key_reaches_a_machine_that_has_only_the_new_one(
    hub: Hub, make_machine: Make
) -> None:
    laptop, desktop, third = (make_machine(name) for name in ("laptop", "desktop", "third"))
    laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    desktop.join(hub, laptop.code())
    memory = desktop.save("Said on the desktop, and not pulled by the laptop.")
    desktop.sync()
    phrase = rotate_key(laptop.store, laptop.places, "private")
    laptop.sync()
    third.join(hub, hub.invite("Ada"), phrase=phrase)
    third.sync()
    assert [row.reason for row in list_set_aside(third.store)] == ["sealed with a key that this machine does not have"]
    give_key(desktop.store, desktop.places, "private", phrase)
    desktop.sync()
    third.sync()

    assert third.texts() == {memory.content}
    assert list_set_aside(third.store) == []
