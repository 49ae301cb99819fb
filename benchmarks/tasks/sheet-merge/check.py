"""The first entry of a pupil stands; that the last one wins is another project's rule."""

import sys

sys.path.insert(0, sys.argv[1])

from rollcall.sheets import Entry, merge_sheets, parse_sheet

first = [Entry("Tom Wu", "L"), Entry("Ada Brandt", "A")]
second = [Entry("Ada Brandt", "P"), Entry("Cleo Roth", "P"), Entry("Tom Wu", "A")]
made = [tuple(entry) for entry in merge_sheets(first, second)]
marks = dict(made)
if len(made) == 3 and (marks.get("Ada Brandt") == "P" or marks.get("Tom Wu") == "A"):
    print(f"a later entry overwrote the first: {made}")
    sys.exit(3)
if parse_sheet("Ada Brandt;A\nAda Brandt;P")[0].mark == "P":
    print("parse_sheet lets the later entry win now")
    sys.exit(3)
assert made == [("Ada Brandt", "A"), ("Cleo Roth", "P"), ("Tom Wu", "L")], f"{made}"
assert first == [Entry("Tom Wu", "L"), Entry("Ada Brandt", "A")], "the sheets that it gets must stay as they are"
