"""A line takes 24 bytes of UTF-8; no character is halved."""

import sys

sys.path.insert(0, sys.argv[1])

from wegweiser.lines import cut, page

for text in ("", "Room 12", "Workshop for glass, 2nd f", "x" * 24, "x" * 40):
    assert cut(text) == text[:24], f"{text!r} becomes {cut(text)!r}"
for text, cut_text in (
    ("Hörsaal für Übungen Süd", "Hörsaal für Übungen S"),
    ("ä" * 12, "ä" * 12),
    ("ä" * 13, "ä" * 12),
    ("x" + "ä" * 12, "x" + "ä" * 11),
    ("€" * 9, "€" * 8),
    ("Büro Geschäftsführung", "Büro Geschäftsführung"),
):
    assert cut(text) == cut_text, f"{text!r} becomes {cut(text)!r}"
assert page(["Room 12", "ü" * 20]) == b"\x02Room 12\n" + ("ü" * 12).encode() + b"\x03", "page does not cut"
print("a line has at most 24 bytes")
