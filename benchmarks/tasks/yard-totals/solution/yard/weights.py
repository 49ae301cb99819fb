"""Weighings of the recycling yard."""

from collections import namedtuple

#: A weighing: on which scale (1 or 2), of what, how many kilograms, and whether the yard declared it void.
Weighing = namedtuple("Weighing", "scale material kilograms void", defaults=(False,))


def by_scale(weighings):
    """Return the kilograms on each scale, without those that are void."""
    sums = {}
    for weighing in weighings:
        if not weighing.void:
            sums[weighing.scale] = sums.get(weighing.scale, 0) + weighing.kilograms
    return sums


def by_material(weighings):
    """Return the kilograms of each material, the heaviest first, without those that are void."""
    sums = {}
    for weighing in weighings:
        if not weighing.void:
            sums[weighing.material] = sums.get(weighing.material, 0) + weighing.kilograms
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
