"""A model is fetched by its name from a hub, here a server on this machine, and by nothing but that command."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_bert import TinyBert, write_tiny_bert

from engram.cli.main import engram as engram_command
from engram.version import install_command

REPO = Path(__file__).resolve().parents[2]
NAME = "somebody/tiny-model"
REVISION = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """A hub with one model."""

    folder: Path
    url: str = ""
    requests: list[str] = field(default_factory=list)

    @property
    def fetched(self) -> set[str]:
        """Names of the files whose content was fetched."""
        return {path.rpartition("/")[2] for path in self.requests if path.startswith("GET") and "/resolve/" in path}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    model = Hub(tmp_path / "hub-model")

    class Handler(BaseHTTPRequestHandler):
        """Answers as the hub does: what a model holds, and each of its files."""

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = self.path.partition("?")[0]
            model.requests.append(f"{self.command} {path}")
            file = model.folder / path.partition("/resolve/")[2].partition("/")[2]
            files = {
                str(entry.relative_to(model.folder)): entry for entry in model.folder.rglob("*") if entry.is_file()
            }
            if path.startswith(f"/api/models/{NAME}/tree/"):
                tree = [
                    {"type": "file", "path": name, "oid": "0" * 40, "size": entry.stat().st_size}
                    for name, entry in sorted(files.items())
                ]
                self.send(json.dumps(tree).encode(), "application/json")
            elif path.startswith(f"/api/models/{NAME}"):
                siblings = [{"rfilename": name} for name in sorted(files)]
                self.send(json.dumps({"id": NAME, "sha": REVISION, "siblings": siblings}).encode(), "application/json")
            elif path.startswith(f"/{NAME}/resolve/") and file.is_file():
                self.send(file.read_bytes(), "application/octet-stream")
            else:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", REVISION)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield model
    server.shutdown()
    thread.join()
    server.server_close()


def engram(hub: Hub, tmp_path: Path, *arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``engram``, after the lines of ``program``, with this hub and its own empty cache."""
    program += "\nimport sys\nfrom engram.cli.main import main\nsys.exit(main())"
    environment = os.environ | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        # Another test of this process may have loaded the library that is told to stay off the network.
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": os.pathsep.join(map(str, (REPO, REPO / "hooks", REPO / "mcp_server"))),
    }
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_fetched_model_is_ready_and_no_longer_needs_the_network(hub: Hub, tmp_path: Path) -> None:
    tiny = write_tiny_bert(hub.folder)

    answer = engram(hub, tmp_path, "setup", "model", NAME, "--json")

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["dimension"] == 16
    hub.requests.clear()
    program = (
        "import json, numpy\nfrom pathlib import Path\nfrom engram.embedding.load_model import load_embedder\n"
        f"print(load_embedder({NAME!r})"
        ".embed(['the worker reads'])[0].tolist())"
        "\nraise SystemExit"
    )
    row = json.loads(engram(hub, tmp_path, program=program).stdout)
    assert row == pytest.approx(tiny.expected([2, 4, 5, 6, 3]).tolist(), abs=1e-4)
    assert hub.requests == []


def test_of_a_model_that_cannot_run_here_the_weights_are_not_fetched(hub: Hub, tmp_path: Path) -> None:
    write_tiny_bert(hub.folder, model_type="other")
    program = "from engram.embedding import model_source as extra\nextra._MODULES =('a_package_that_nobody_has',)"

    answer = engram(hub, tmp_path, "setup", "model", NAME, program=program)

    assert answer.returncode == 1
    assert install_command("models") in answer.stderr
    assert "config.json" in hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_nothing_that_could_hold_code_is_fetched(hub: Hub, tmp_path: Path) -> None:
    write_tiny_bert(hub.folder)
    for name in ("modeling.py", "pytorch_model.bin", "onnx/model.safetensors"):
        (hub.folder / name).parent.mkdir(exist_ok=True)
        (hub.folder / name).write_bytes(b"code")

    assert engram(hub, tmp_path, "setup", "model", NAME).returncode == 0

    assert {"model.safetensors", "config.json"} <= hub.fetched
    assert not [path for path in hub.requests if path.endswith((".py", ".bin")) or "/onnx/" in path]


def test_an_unknown_name_is_one_line(hub: Hub, tmp_path: Path) -> None:
    answer = engram(hub, tmp_path, "setup", "model", "nobody/nothing")

    assert answer.returncode == 1
    assert "can't fetch the model nobody/nothing" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_model_that_is_here_and_what_names_none_are_one_line(tiny_bert: TinyBert) -> None:
    for name, words in (
        ("bundled", "already on this machine"),
        (str(tiny_bert.folder), "already on this machine"),
        ("no model", "neither a folder nor the name"),
    ):
        answer = CliRunner().invoke(engram_command, ["setup", "model", name])

        assert answer.exit_code == 1
        assert words in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
