"""A hub behind the proxy of a company: the request goes through a tunnel, in which only the hub reads it."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from engram.errors import HubUnreachable
from engram.hub.client.connection import Connection, HttpProxy, proxy_of
from engram.hub.protocol.requests import REQUEST_HEADER, to_bytes

HUB = "hub.example.org"


class Hub(BaseHTTPRequestHandler):
    """Answers each request with its own content."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header(REQUEST_HEADER, self.headers[REQUEST_HEADER])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class CompanyProxy:
    """Opens tunnels to one address, whatever host is named, and notes what it was sent before."""

    def __init__(self, port: int) -> None:
        self.heads: list[str] = []
        self.reply = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                with client:
                    self._tunnel(client)
        except OSError:  # closed
            return

    def _tunnel(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.heads.append(head.decode())
        client.sendall(self.reply)
        if b" 200 " not in self.reply:
            return
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=_copy, args=(server, client))
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side is gone
        while chunk := source.recv(65_536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for the hub, signed by itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HUB)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(HUB), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "hub.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + signed.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def proxy(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CompanyProxy]:
    """A proxy in front of a hub that speaks TLS; the environment names neither another proxy nor an exception."""
    server = HTTPServer(("127.0.0.1", 0), Hub)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    proxy = CompanyProxy(server.server_port)
    yield proxy
    proxy.close()
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.parametrize("login", ["", "ada:s%40fe@"])
def test_a_hub_is_reached_through_the_proxy_which_sees_only_its_name(
    proxy: CompanyProxy, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{login}{proxy.address}")

    with Connection(f"https://{HUB}", "the-token") as connection:
        first, second = connection.ask("any", {"a": 1}), connection.ask("any", {"a": 2})

    assert (first, second) == ({"a": 1}, {"a": 2})
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {HUB}:443 ")
    assert "the-token" not in head
    assert (b64encode(b"ada:s@fe").decode() in head) is bool(login)


def test_a_proxy_that_refuses_is_named_as_the_reason(proxy: CompanyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    proxy.reply = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"

    refused = pytest.raises(HubUnreachable, match=rf"through the proxy {proxy.address}: .*407 Proxy Auth")
    with Connection(f"https://{HUB}") as connection, refused:
        connection.send("any", to_bytes({}))


@pytest.mark.parametrize(
    ("url", "environ", "wanted"),
    [
        ("https://hub.example.org", {"HTTPS_PROXY": "http://p:1"}, HttpProxy("p", 1)),
        ("https://hub.example.org", {"HTTPS_PROXY": "p:1"}, HttpProxy("p", 1)),
        ("https://hub.example.org", {"all_proxy": "http://a:b%40@p"}, HttpProxy("p", 80, "a:b@")),
        ("https://hub.example.org", {"ALL_PROXY": "socks5://p:1"}, None),
        ("https://hub.example.org", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://hub.example.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.org"}, None),
        ("https://127.0.0.1:8750", {"HTTPS_PROXY": "http://p:1"}, None),
        ("http://localhost:8750", {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1"}, None),
    ],
)
@pytest.mark.usefixtures("proxy")
def test_which_proxy_leads_to_a_hub(
    monkeypatch: pytest.MonkeyPatch, url: str, environ: dict[str, str], wanted: HttpProxy | None
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert proxy_of(url) == wanted


@pytest.mark.usefixtures("proxy")
def test_a_variable_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://p:port")

    with pytest.raises(HubUnreachable, match="HTTPS_PROXY or ALL_PROXY does not contain"):
        Connection(f"https://{HUB}").send("any", b"")
