"""The default is 24, which replaced 50."""

import sys

sys.path.insert(0, sys.argv[1])

from katalog.pages import page

items = list(range(200))
assert page(items, 2, 10) == list(range(10, 20)), f"{page(items, 2, 10)}"
size = len(page(items, 1))
if size == 50:
    print("50 was given up for 24")
    sys.exit(3)
assert size == 24, f"the size of a page is {size}"
