"""Packed uuids: shorter than their text, and no two texts share a stored form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.models.engine.statement import pack_uuid, unpack_uuid

UUID = "0123abcd-0123-4567-89ab-0123456789ab"


@given(st.uuids())
def test_every_uuid_takes_16_bytes_and_comes_back(uuid: object) -> None:
    assert len(pack_uuid(str(uuid))) == 16
    assert unpack_uuid(pack_uuid(str(uuid))) == str(uuid)


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=40))
def test_every_other_id_comes_back_as_its_text(text: str) -> None:
    assert unpack_uuid(pack_uuid(text)) == text


def test_a_text_of_16_letters_is_not_taken_for_a_uuid() -> None:
    assert unpack_uuid(pack_uuid("exactly16letters")) == "exactly16letters"
    assert unpack_uuid(pack_uuid(UUID.upper())) == UUID.upper()


def test_no_uuid_is_an_empty_text() -> None:
    assert [unpack_uuid(stored) for stored in (None, b"")] == ["", ""]
