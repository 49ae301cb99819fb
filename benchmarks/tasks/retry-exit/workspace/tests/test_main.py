import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tidelog.__main__ import main


class MainTest(unittest.TestCase):
    def test_readings_are_sent(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "today.txt")
            file.write_text("pier 2026-11-02T06:00 141\nlock 2026-11-02T06:00 88\n")
            with mock.patch("tidelog.upload.send") as send, contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(main([str(file)]), 0)
        send.assert_called_once_with([("pier", "2026-11-02T06:00", 141), ("lock", "2026-11-02T06:00", 88)])
        self.assertEqual(out.getvalue(), "sent 2 readings\n")
