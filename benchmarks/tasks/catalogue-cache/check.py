"""A file that changes without another size or time must be seen; an unchanged one must not be parsed again."""

import os
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from regal import parser

parse, calls = parser.parse, []


def counting(text):
    calls.append(len(text))
    return parse(text)


parser.parse = counting

from regal.catalogue import load_catalogue  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "catalogue.csv"

    def put(text):
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(1_700_000_000_000_000_000,) * 2)

    put("A1;Lamp;0029.00\n")
    assert load_catalogue(path)["A1"] == ("Lamp", Decimal("29.00"))
    before = len(calls)
    for _ in range(5):
        load_catalogue(path)
    assert len(calls) == before, f"an unchanged file was parsed {len(calls) - before} times again"
    put("A1;Lamp;0031.00\n")
    price = load_catalogue(path)["A1"][1]
    assert price == Decimal("31.00"), f"the price is {price} after it changed to 31.00"
