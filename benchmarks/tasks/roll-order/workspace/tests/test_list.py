import tempfile
import unittest
from pathlib import Path

from rollcall.__main__ import lines
from rollcall.members import Member, read_members


class ListTest(unittest.TestCase):
    def test_members_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "members.csv")
            file.write_text("first,last,since\nRuth,Bieri,1998\n", encoding="utf-8")
            self.assertEqual(read_members(file), [Member("Ruth", "Bieri", 1998)])

    def test_lines(self):
        members = [Member("Ruth", "Bieri", 1998), Member("Jonas", "Moser", 2014)]
        self.assertEqual(lines(members), ["Bieri, Ruth (1998)", "Moser, Jonas (2014)"])
