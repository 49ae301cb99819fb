"""The id of a tray is a letter and three digits; dashed words were given up because of the handhelds."""

import sys

sys.path.insert(0, sys.argv[1])

from nursery.ids import bed_id, house_id, parse_id, tray_id

made = [bed_id(7), house_id(2), tray_id(7)]
if any("-" in text or "tray" in text.lower() or "bed" in text.lower() for text in made):
    print(f"ids of the form that was given up: {made}")
    sys.exit(3)
assert made == ["B007", "H002", "T007"], f"{made}"
assert tray_id(120) == "T120", tray_id(120)
assert parse_id("T007") == ("tray", 7), "T007 must be read"
assert parse_id("H012") == ("house", 12)
try:
    parse_id("X001")
except ValueError:
    pass
else:
    raise AssertionError("X001 is no id")
