"""Basel writes Mac Roman; the others write UTF-8."""

import sys

sys.path.insert(0, sys.argv[1])

from umsatz.reading import read_rows

rows = read_rows(b"Mu\x96oz;1200\nK\x8anzig;50\nH\x9afliger;7\n", "Basel")
assert rows == [("Muñoz", 1200), ("Känzig", 50), ("Höfliger", 7)], f"Basel: {rows}"
assert read_rows("Jürg;5\n".encode(), "Bern") == [("Jürg", 5)]
