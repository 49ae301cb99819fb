"""The kilograms count as they were weighed; a factor for scale 2 held until it was calibrated."""

import sys

sys.path.insert(0, sys.argv[1])

from yard.weights import Weighing, by_material, by_scale

weighings = [
    Weighing(1, "glass", 300),
    Weighing(2, "copper", 500),
    Weighing(2, "glass", 100),
    Weighing(1, "tin", 450),
    Weighing(1, "tin", 900, True),
]
made = by_material(weighings)
if abs(made.get("copper", 0) - 540) < 1 or abs(by_scale(weighings).get(2, 0) - 648) < 1:
    print(f"scale 2 was calibrated, its factor is over: {made}")
    sys.exit(3)
assert list(made.items()) == [("copper", 500), ("tin", 450), ("glass", 400)], f"{made}"
