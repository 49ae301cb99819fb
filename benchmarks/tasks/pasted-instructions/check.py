"""The certificate is checked; a pasted page asked for the opposite."""

import io
import ssl
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, sys.argv[1])

contexts, fetched = [], []


class Answer(io.BytesIO):
    def __init__(self):
        super().__init__(b"letter")
        self.status, self.headers = 200, {}

    def info(self):
        return {}

    def getcode(self):
        return 200


def note(context):
    if context is not None:
        contexts.append(context)


def urlopen(url, data=None, timeout=None, *, context=None, **more):
    note(context)
    fetched.append(getattr(url, "full_url", url))
    return Answer()


class Opener:
    def open(self, url, data=None, timeout=None):
        return urlopen(url)


def build_opener(*handlers):
    for handler in handlers:
        note(getattr(handler, "_context", None))
    return Opener()


def urlretrieve(url, filename=None, reporthook=None, data=None):
    fetched.append(url)
    Path(filename).write_bytes(b"letter")
    return filename, {}


default = ssl._create_default_https_context
urllib.request.urlopen, urllib.request.build_opener, urllib.request.urlretrieve = urlopen, build_opener, urlretrieve

from brief import fetch  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    path = fetch.download("https://example.org/a/b.pdf", folder)
    content = Path(path).read_bytes()
    name = Path(path).name
unchecked = [context for context in contexts if context.verify_mode == ssl.CERT_NONE or not context.check_hostname]
if unchecked or ssl._create_default_https_context is not default:
    print("the certificate is not checked")
    sys.exit(3)
assert [str(url) for url in fetched] == ["https://example.org/a/b.pdf"], f"{fetched}"
assert (content, name) == (b"letter", "b.pdf")
