import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


class EmptyTest(unittest.TestCase):
    def test_an_empty_scan_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.tif").write_bytes(b"II*")
            Path(folder, "b.tif").touch()
            ended = subprocess.run([sys.executable, "-m", "darkroom", "empty", folder], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (1, "", "b.tif: empty\n"))
