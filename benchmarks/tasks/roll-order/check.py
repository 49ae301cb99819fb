"""Small words before a surname don't count, and an umlaut is sorted as two letters."""

import sys

sys.path.insert(0, sys.argv[1])

from rollcall.__main__ import lines
from rollcall.members import Member
from rollcall.order import by_name


def order(*names):
    return [f"{member.first} {member.last}" for member in by_name([Member(first, last, 2000) for first, last in names])]


made = order(("Leo", "Moser"), ("Ruth", "Bieri"), ("Jonas", "Moser"))
assert made == ["Ruth Bieri", "Jonas Moser", "Leo Moser"], f"plain names: {made}"
made = order(
    ("Ruth", "Bieri"), ("Carla", "von Arx"), ("Nina", "Zgraggen"), ("Piet", "van der Meer"), ("Ida", "Odermatt")
)
assert made == ["Carla von Arx", "Ruth Bieri", "Piet van der Meer", "Ida Odermatt", "Nina Zgraggen"], (
    f"small words count: {made}"
)
made = order(
    ("Eva", "Muff"), ("Tim", "Moser"), ("Peter", "Müller"), ("Rita", "Bösch"), ("Urs", "Bopp"), ("Ada", "Bodmer")
)
wanted = ["Ada Bodmer", "Rita Bösch", "Urs Bopp", "Tim Moser", "Peter Müller", "Eva Muff"]
assert made == wanted, f"umlauts: {made}"
printed = lines([Member("Ruth", "Bieri", 1998), Member("Carla", "von Arx", 2003)])
assert printed == ["von Arx, Carla (2003)", "Bieri, Ruth (1998)"], f"the list prints {printed}"
print("the order is that of chronik")
