"""A folder as the hub: what is said on one machine is found on the other, whatever a sync program does to the files."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.enums import Actor
from engram.errors import BadRequest, HubRefused, NotFound
from engram.hub.client.connection import Transport
from engram.hub.client.folder_files import MAX_SMALL_FILES, PATIENCE_MS, is_folder
from engram.hub.client.join_folder import join_folder
from engram.hub.client.membership import Keyring, connect, leave_hub, make_code, require_server, rotate_key
from engram.hub.client.rounds import sync_all
from engram.hub.protocol.frames import WrongKey, new_key, open_segment
from engram.hub.protocol.requests import phrase_of
from engram.memories.save import edit_memory
from engram.models.hub.memory_statements import said_of_memory
from engram.models.hub.spaces import folder_notes, list_servers, list_spaces
from engram.redaction import redact
from engram.reports.hub_report import report_hubs
from engram.system.clock import FixedClock
from tests.hub.machines import Machine
from tests.hub_folder.synced import COPIES, FOREIGN

Make = Callable[..., Machine]
Pair = tuple[Machine, Machine]
#: Longer than anything that is missing is waited for, in seconds.
LONG = 3 * PATIENCE_MS / 1000


def files_of(machine: Machine, synced: Path) -> list[Path]:
    """The files that a machine wrote, in their order."""
    return sorted(folder_of(machine, synced).glob("*.seg"))


def folder_of(machine: Machine, synced: Path) -> Path:
    (space,) = list_spaces(machine.store)
    return synced / "spaces" / f"{space.ns_id:016x}" / f"{list_servers(machine.store)[0].device_id:016x}"


def transport(machine: Machine) -> Transport:
    server = list_servers(machine.store)[0]
    return connect(machine.store, Keyring(machine.places.hub_keys), server)


def rows_in(machine: Machine, path: Path) -> list[tuple[str, bool]]:
    """Memory and whether it was forgotten, of each row of a file."""
    (space,) = list_spaces(machine.store)
    keys = Keyring(machine.places.hub_keys).keys(list_servers(machine.store)[0].url, space.ns_id)
    numbers = int(path.name[:8]), int(path.name[9:17])
    segment = open_segment(keys, space.ns_id, int(path.parent.name, 16), numbers, path.read_bytes())
    return [(row.memory_id.hex(), row.is_forgotten) for row in segment.rows]


def rest(*machines: Machine, clock: FixedClock) -> None:
    """Let machines make rounds until what is missing was said again."""
    for _ in range(3):
        for machine in machines:
            machine.sync()
        clock.advance(LONG)
    for machine in machines:
        machine.sync()


# -- two machines


def test_what_is_said_on_one_machine_is_found_on_the_other(pair: Pair) -> None:
    laptop, desktop = pair
    saved = desktop.save("The release branch is called harbour.", is_pinned=True)
    edit_memory(desktop.store, saved.episode_id, redact, actor=Actor.USER, content="It is called pier.")
    desktop.sync()
    laptop.sync()

    assert laptop.find(saved.episode_id).content == "It is called pier."
    assert laptop.find(saved.episode_id).is_pinned
    assert laptop.said() == desktop.said()
    assert laptop.sync().did_something is False


def test_no_machine_changes_or_deletes_what_another_one_wrote(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    before = {path: path.read_bytes() for path in files_of(laptop, tmp_path / "synced")}
    for number in range(MAX_SMALL_FILES + 3):
        desktop.save(f"note {number}")
        desktop.sync()
    desktop.forget(str(laptop.store.value("SELECT episode_id FROM episode ORDER BY id LIMIT 1")))
    desktop.sync()

    assert {path: path.read_bytes() for path in files_of(laptop, tmp_path / "synced")} == before


def test_nothing_of_a_memory_can_be_read_in_the_folder(pair: Pair, tmp_path: Path) -> None:
    laptop, _ = pair
    laptop.save("Canary zeppelin-quartz-92.", is_pinned=True)
    laptop.sync()

    everything = b"".join(path.read_bytes() for path in (tmp_path / "synced").rglob("*") if path.is_file())
    names = " ".join(str(path) for path in (tmp_path / "synced").rglob("*"))
    for word in ("zeppelin", "heron", "laptop", "desktop"):
        assert word.encode() not in everything
        assert word not in names.removeprefix(str(tmp_path))


def test_what_is_forgotten_leaves_every_machine_and_the_folder(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    synced = tmp_path / "synced"
    gone = laptop.save("The old key is under the mat.")
    laptop.save("It stays.")
    laptop.sync()
    desktop.sync()
    memory_id = said_of_memory(laptop.store, gone.episode_id)[0].memory_id.hex()
    desktop.forget(gone.episode_id)
    desktop.sync()
    laptop.sync()

    assert "The old key is under the mat." not in laptop.texts()
    assert "It stays." in laptop.texts()
    said = [said for path in synced.rglob("*.seg") for said in rows_in(laptop, path) if memory_id in said]
    assert said == [(memory_id, True)]


def test_small_files_become_one_and_a_new_machine_reads_it(pair: Pair, make_machine: Make, tmp_path: Path) -> None:
    laptop, desktop = pair
    for number in range(MAX_SMALL_FILES + 2):
        saved = laptop.save(f"note {number}")
        laptop.sync()
    edit_memory(laptop.store, saved.episode_id, redact, actor=Actor.USER, content="the last word")
    laptop.sync()
    desktop.sync()
    tablet = make_machine("tablet")
    tablet.use_folder(tmp_path / "synced", laptop.phrase)
    tablet.sync()

    assert len(files_of(laptop, tmp_path / "synced")) < 6
    assert laptop.said() == desktop.said() == tablet.said()
    assert desktop.find(saved.episode_id).content == "the last word"
    assert folder_notes(desktop.store, 1) == ()


# -- what a sync program does to files


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_that_a_sync_program_made_is_read_where_the_file_is_gone(pair: Pair, tmp_path: Path, copy: str) -> None:
    laptop, desktop = pair
    saved = laptop.save("Twice there.")
    laptop.sync()
    newest = files_of(laptop, tmp_path / "synced")[-1]
    newest.rename(newest.with_name(copy.format(stem=newest.stem)))
    desktop.sync()

    assert desktop.find(saved.episode_id).content == "Twice there."


@pytest.mark.parametrize("kept", [0, 1, 40, 200, -1])
def test_a_file_that_is_cut_waits_and_is_read_when_it_is_whole(pair: Pair, tmp_path: Path, kept: int) -> None:
    laptop, desktop = pair
    saved = laptop.save("It comes in two parts.")
    laptop.sync()
    newest = files_of(laptop, tmp_path / "synced")[-1]
    data = newest.read_bytes()
    newest.write_bytes(data[:kept])
    desktop.sync()
    assert "It comes in two parts." not in desktop.texts()

    newest.write_bytes(data)
    desktop.sync()
    assert desktop.find(saved.episode_id).content == "It comes in two parts."


def test_files_may_come_in_any_order(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    saved = laptop.save("First words.")
    laptop.sync()
    edit_memory(laptop.store, saved.episode_id, redact, actor=Actor.USER, content="Second words.")
    laptop.sync()
    edit_memory(laptop.store, saved.episode_id, redact, actor=Actor.USER, content="Third words.")
    laptop.sync()
    first, second, third = files_of(laptop, tmp_path / "synced")[-3:]
    held = {path: path.read_bytes() for path in (first, second, third)}
    for path in held:
        path.unlink()
    for path, words in ((third, "Third words."), (first, "Third words."), (second, "Third words.")):
        path.write_bytes(held[path])
        desktop.sync()
        assert desktop.find(saved.episode_id).content == words


def test_what_is_missing_for_long_is_named_and_then_said_again_by_its_machine(
    pair: Pair, tmp_path: Path, clock: FixedClock
) -> None:
    laptop, desktop = pair
    saved = laptop.save("Lost on the way.")
    laptop.save("It came.")
    laptop.sync()
    laptop.save("Later.")
    laptop.sync()
    files_of(laptop, tmp_path / "synced")[-2].unlink()
    desktop.sync()
    assert "Lost on the way." not in desktop.texts()
    clock.advance(PATIENCE_MS / 1000)
    desktop.sync()
    assert "files from laptop are missing" in "; ".join(report_hubs(desktop.store)[0].notes)
    rest(laptop, desktop, clock=clock)

    assert desktop.find(saved.episode_id).content == "Lost on the way."
    assert report_hubs(desktop.store)[0].notes == ()


def test_what_only_another_machine_read_of_a_machine_that_is_gone_is_said_again(
    pair: Pair, make_machine: Make, tmp_path: Path, clock: FixedClock
) -> None:
    laptop, desktop = pair
    laptop.save("Only the desktop heard it.")
    laptop.sync()
    desktop.sync()
    shutil.rmtree(folder_of(laptop, tmp_path / "synced"))
    tablet = make_machine("tablet")
    tablet.use_folder(tmp_path / "synced", laptop.phrase)
    tablet.sync()
    assert "Only the desktop heard it." not in tablet.texts()
    rest(desktop, tablet, clock=clock)

    assert tablet.texts() == desktop.texts()
    assert tablet.said() == desktop.said()


@pytest.mark.parametrize("name", [*FOREIGN, f"00000002-00000002-{'0' * 32}.seg", "00000009-00000009-x.seg"])
def test_what_is_foreign_is_left_alone_and_named_where_it_looks_like_a_file_of_ours(
    pair: Pair, tmp_path: Path, clock: FixedClock, name: str
) -> None:
    laptop, desktop = pair
    place = folder_of(laptop, tmp_path / "synced") / name
    place.write_bytes(b"not ours")
    saved = laptop.save("It goes on.")
    laptop.sync()
    desktop.sync()
    clock.advance(LONG)
    desktop.sync()

    assert desktop.find(saved.episode_id).content == "It goes on."
    assert place.read_bytes() == b"not ours"
    assert bool(report_hubs(desktop.store)[0].notes) == ("0" * 32 in name)


def test_a_file_in_another_place_opens_nowhere(pair: Pair, tmp_path: Path, clock: FixedClock) -> None:
    laptop, desktop = pair
    (first,) = files_of(laptop, tmp_path / "synced")
    data = first.read_bytes()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    (folder_of(laptop, tmp_path / "synced") / f"00000007-00000007-{digest}.seg").write_bytes(data)
    stranger = tmp_path / "synced" / "spaces" / first.parent.parent.name / f"{99:016x}"
    stranger.mkdir()
    shutil.copy(first, stranger)
    before = desktop.said()
    desktop.sync()
    clock.advance(LONG)
    desktop.sync()

    assert desktop.said() == before
    assert len([note for note in report_hubs(desktop.store)[0].notes if "changed or moved" in note]) == 2


def test_a_deleted_file_that_is_put_back_is_deleted_again_and_brings_nothing_back(
    pair: Pair, tmp_path: Path, clock: FixedClock
) -> None:
    laptop, desktop = pair
    gone = laptop.save("Away with it.")
    laptop.sync()
    desktop.sync()
    before = {path: path.read_bytes() for path in files_of(laptop, tmp_path / "synced")}
    laptop.forget(gone.episode_id)
    laptop.sync()
    desktop.sync()
    again = {path: data for path, data in before.items() if not path.exists()}
    assert again
    for path, data in again.items():
        path.write_bytes(data)
    desktop.sync()
    assert "Away with it." not in desktop.texts()
    laptop.sync()

    assert not any(path.exists() for path in again)
    assert list_servers(laptop.store)[0].device_id == int(next(iter(before)).parent.name, 16)


def test_a_folder_that_was_put_back_is_healed(pair: Pair, tmp_path: Path, clock: FixedClock) -> None:
    laptop, desktop = pair
    synced = tmp_path / "synced"
    shutil.copytree(synced, tmp_path / "older")
    saved, gone = laptop.save("Said after the copy."), desktop.save("Forgotten after the copy.")
    laptop.sync()
    desktop.sync()
    desktop.forget(gone.episode_id)
    desktop.sync()
    laptop.sync()
    shutil.rmtree(synced)
    shutil.copytree(tmp_path / "older", synced)
    rest(laptop, desktop, clock=clock)
    tablet = Machine.open(tmp_path / "tablet", clock=clock)
    with tablet as fresh:
        fresh.use_folder(synced, laptop.phrase)
        fresh.sync()
        assert fresh.said() == laptop.said() == desktop.said()
        assert fresh.find(saved.episode_id).content == "Said after the copy."
        assert "Forgotten after the copy." not in fresh.texts()


# -- a folder that is not there, or of somebody else


def test_a_share_that_is_not_mounted_is_named_and_nothing_is_taken_for_deleted(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    synced = tmp_path / "synced"
    before = laptop.said()
    synced.rename(tmp_path / "elsewhere")
    for is_empty in (False, True):
        if is_empty:
            synced.mkdir()
        (done,) = sync_all(laptop.store, laptop.places, redact, is_forced=True)
        assert "mount it" in done.error
    synced.rmdir()
    (tmp_path / "elsewhere").rename(synced)
    saved = laptop.save("Back again.")
    laptop.sync()
    desktop.sync()

    assert before.items() <= laptop.said().items()
    assert desktop.find(saved.episode_id).content == "Back again."


def test_a_folder_that_was_emptied_is_used_again_where_a_person_says_so(
    pair: Pair, tmp_path: Path, clock: FixedClock
) -> None:
    laptop, desktop = pair
    shutil.rmtree(tmp_path / "synced")
    laptop.use_folder(tmp_path / "synced")
    laptop.sync()
    tablet = Machine.open(tmp_path / "tablet", clock=clock)
    with tablet as fresh:
        fresh.use_folder(tmp_path / "synced", list_phrase(laptop))
        fresh.sync()
        rest(laptop, desktop, fresh, clock=clock)
        assert fresh.said() == laptop.said() == desktop.said()


def list_phrase(machine: Machine) -> str:
    """The recovery phrase, as `engram hub key --show` prints it."""
    (space,) = list_spaces(machine.store)
    keys = Keyring(machine.places.hub_keys).keys(list_servers(machine.store)[0].url, space.ns_id)
    return phrase_of(list(keys.values())[-1])


def test_a_folder_that_was_moved_continues_in_its_new_place(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    (tmp_path / "synced").rename(tmp_path / "moved")
    (tmp_path / "other").mkdir()
    with pytest.raises(BadRequest, match="move everything"):
        join_folder(laptop.store, laptop.places, tmp_path / "other")
    for machine in pair:
        machine.use_folder(tmp_path / "moved")
    saved = laptop.save("In the new place.")
    laptop.sync()
    desktop.sync()

    assert desktop.find(saved.episode_id).content == "In the new place."
    assert report_hubs(laptop.store)[0].place == str(tmp_path / "moved")


def test_another_phrase_is_refused_before_anything_is_read_or_written(
    pair: Pair, make_machine: Make, tmp_path: Path
) -> None:
    eve = make_machine("eve")
    before = sorted((tmp_path / "synced").rglob("*"))
    for phrase, reason in ((phrase_of(new_key()), "a space other"), ("", "recovery phrase")):
        with pytest.raises(WrongKey, match=reason):
            join_folder(eve.store, eve.places, tmp_path / "synced", phrase=phrase)

    assert list_servers(eve.store) == []
    assert not eve.places.hub_keys.exists()
    assert sorted((tmp_path / "synced").rglob("*")) == before


@pytest.mark.parametrize("place", ["missing", "file", "home", "above"])
def test_a_place_that_can_be_no_folder_is_refused(make_machine: Make, tmp_path: Path, place: str) -> None:
    laptop = make_machine("laptop")
    (tmp_path / "file").write_text("a file")
    folder = {"home": laptop.places.root, "above": laptop.places.root.parent}.get(place, tmp_path / place)
    with pytest.raises(BadRequest):
        join_folder(laptop.store, laptop.places, folder)
    assert list_servers(laptop.store) == []


def test_a_folder_that_cannot_be_written_fails_the_round_and_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    saved = laptop.save("It waits.")
    own = folder_of(laptop, tmp_path / "synced")
    shutil.move(own, tmp_path / "kept")
    own.write_text("a file where the folder was")
    (done,) = sync_all(laptop.store, laptop.places, redact, is_forced=True)
    assert "can't be used" in done.error
    own.unlink()
    shutil.move(tmp_path / "kept", own)
    laptop.sync()
    desktop.sync()

    assert desktop.find(saved.episode_id).content == "It waits."


# -- copies of machines, and machines that go


def test_a_cloned_disk_and_a_backup_that_was_put_back_become_devices_of_their_own(
    pair: Pair, make_machine: Make, tmp_path: Path
) -> None:
    laptop, desktop = pair
    laptop.store.checkpoint("TRUNCATE")
    for name in ("clone", "backup"):
        shutil.copytree(laptop.places.root, tmp_path / name)
    mine = laptop.save("Said by the laptop.")
    laptop.sync()
    clone = make_machine("clone")
    theirs = clone.save("Said by its copy.")
    for _ in range(2):
        for machine in (clone, laptop, desktop):
            machine.sync()
    laptop.store.close()
    shutil.rmtree(laptop.places.root)
    shutil.copytree(tmp_path / "backup", laptop.places.root)
    for _ in range(2):
        for machine in (laptop, clone, desktop):
            machine.sync()

    assert laptop.said() == clone.said() == desktop.said()
    assert {mine.stable_id, theirs.stable_id} <= set(desktop.said())
    devices = {list_servers(machine.store)[0].device_id for machine in (laptop, clone, desktop)}
    assert len(devices) == 3


def test_a_machine_that_is_gone_is_removed_and_what_only_it_said_stays(
    pair: Pair, make_machine: Make, tmp_path: Path
) -> None:
    laptop, desktop = pair
    laptop.save("Only the laptop said it.")
    laptop.sync()
    desktop.sync()
    own = folder_of(laptop, tmp_path / "synced")
    with transport(desktop) as connection:
        listed = connection.ask("devices", {})["devices"]
        assert {item["name"]: item["self"] for item in listed} == {"laptop": False, "desktop": True}
        (device,) = [item["device"] for item in listed if item["name"] == "laptop"]
        connection.ask("devices", {"remove": device})
    assert not own.exists()
    desktop.sync()
    tablet = make_machine("tablet")
    tablet.use_folder(tmp_path / "synced", laptop.phrase)
    tablet.sync()

    assert "Only the laptop said it." in tablet.texts()
    assert tablet.said() == desktop.said()


def test_a_machine_is_not_removed_before_everything_of_it_was_read(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    laptop.save("Not read yet.")
    laptop.sync()
    with transport(desktop) as connection:
        for device, reason in (
            (list_servers(laptop.store)[0].device_id, "not yet read everything"),
            (list_servers(desktop.store)[0].device_id, "this machine"),
            (4_711, "no such machine"),
        ):
            with pytest.raises(HubRefused, match=reason):
                connection.ask("devices", {"remove": device})
    assert files_of(laptop, tmp_path / "synced")


@pytest.mark.parametrize("seconds", [-86_400 * 400, -3_600, 7_000, 86_400 * 3, 86_400 * 365 * 5])
def test_a_clock_that_is_wrong_keeps_nothing_back(
    pair: Pair, make_machine: Make, tmp_path: Path, clock: FixedClock, seconds: int
) -> None:
    laptop, desktop = pair
    wrong = FixedClock(clock.at_ms)
    wrong.advance(seconds)
    tablet = make_machine("tablet", clock=wrong)
    tablet.use_folder(tmp_path / "synced", laptop.phrase)
    saved = tablet.save("The words of the wrong clock.")
    tablet.sync()
    laptop.sync()
    edit_memory(laptop.store, saved.episode_id, redact, actor=Actor.USER, content="The words that came later.")
    laptop.sync()
    for machine in (tablet, desktop):
        machine.sync()

    assert tablet.said() == laptop.said() == desktop.said()
    assert tablet.find(saved.episode_id).content == "The words that came later."


def test_what_a_folder_has_not_is_refused_with_the_way_to_go(pair: Pair) -> None:
    laptop, _ = pair
    server = list_servers(laptop.store)[0]
    assert is_folder(server.url)
    with pytest.raises(BadRequest, match="recovery phrase"):
        make_code(laptop.places, server)
    with pytest.raises(BadRequest, match="one permanent key"):
        rotate_key(laptop.store, laptop.places, "private")
    with pytest.raises(NotFound):
        require_server(laptop.store, is_service=True)
    with transport(laptop) as connection, pytest.raises(HubRefused, match="only a hub server"):
        connection.ask("team-make", {})


def test_a_machine_that_leaves_leaves_its_files_and_may_come_again(pair: Pair, tmp_path: Path) -> None:
    laptop, desktop = pair
    before = files_of(laptop, tmp_path / "synced")
    leave_hub(laptop.store, laptop.places, list_servers(laptop.store)[0])
    assert list_servers(laptop.store) == []
    assert all(path.exists() for path in before)
    laptop.use_folder(tmp_path / "synced", list_phrase(desktop))
    saved = desktop.save("Said meanwhile.")
    for machine in (desktop, laptop, desktop):
        machine.sync()

    assert laptop.find(saved.episode_id).content == "Said meanwhile."
    assert laptop.said() == desktop.said()


def test_a_missing_key_is_an_error_of_the_hub_with_the_way_to_go(pair: Pair) -> None:
    laptop, _ = pair
    server = list_servers(laptop.store)[0]
    (space,) = list_spaces(laptop.store)
    keyring = Keyring(laptop.places.hub_keys)
    keyring.drop_key(server.url, space.ns_id, next(iter(keyring.keys(server.url, space.ns_id).values())))
    (done,) = sync_all(laptop.store, laptop.places, redact, is_forced=True)
    assert "engram hub leave" in done.error
