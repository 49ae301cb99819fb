"""What is public by its form or by what stands beside it: public keys, fingerprints, digests, ids, encrypted values."""

from __future__ import annotations

from engram.redaction.values import is_public_form
from engram.system.lazy_regex import lazy_regex

#: What precedes a run that is a fingerprint, and how many base64 characters a fingerprint has.
_FINGERPRINT = lazy_regex(r"(?i)\b(?:sha-?(?:1|224|256|384|512)|md5):$")
_FINGERPRINT_SIZES = frozenset({22, 27, 38, 43, 64, 86})
#: The other side's key, DNS records that hold keys and hashes, ids of documents.
_PUBLIC_LABEL = lazy_regex(
    r"\bpeer:?[ \t]{1,4}$|\b(?:TLSA|SMIMEA|SSHFP|C?DS|C?DNSKEY)(?:[ \t]{1,4}\d{1,5}){2,4}[ \t]{1,4}\(?\s{0,4}$|"
    r"\$oid[\"']?\s{0,3}:\s{0,3}[\"']$|\bObjectI[dD]\([\"']$"
)
#: The public members of a JSON web key, and what every such key has besides them.
_WEB_KEY_MEMBER = lazy_regex(r"\b(?:n|x|y|e|kid|x5t|x5t#S256)[\"']?\s{0,2}:\s{0,4}[\"']$")
_WEB_KEY = lazy_regex(r"\bkty[\"']?\s{0,2}:")
#: How many characters around a member are searched for that.
_WEB_KEY_CHARACTERS = 1_024
#: A public key in a DNS record for signing mail: what precedes it, and the key cut into strings.
_MAIL_KEY = lazy_regex(r"\b(?:v=DKIM1|k=(?:rsa|ed25519))\b[^\n]{0,60}[\s;\"]p=$")
_MAIL_KEY_PARTS = lazy_regex(r"[A-Za-z0-9+/=\"\s()]*")
_MAIL_KEY_CHARACTERS = 1_200
#: What a digest on a blockchain is called, possibly followed by other digests of the same list.
_ON_CHAIN = lazy_regex(
    r"(?i)\b(?:topics?\d?|tx\w{0,6}|transaction\w{0,5}|\w{0,16}hash(?:es)?|\w{0,16}root|keccak\d{0,3}|merkle|digest|"
    r"commitment|block|slot|bytes32)(?:[ \t](?:of|it|is|was|the)){0,3}[\s\"':=,(\[]{1,8}"
    r"(?:0x[0-9a-f]{64}[\s\"',]{1,8}){0,4}$"
)
_CHAIN_DIGEST = lazy_regex(r"0x[0-9a-fA-F]{64}")
_CHAIN_CHARACTERS = 360
_PUBLIC_NAME = lazy_regex(
    r"(?i)(?:public|publishable|(?<![a-z])pub|verify(?:ing)?|peer)[ _-]?key(?![^\n]{0,30}(?:private|secret))"
)
_PUBLIC_BLOCK = lazy_regex(
    r"-----BEGIN (?:[A-Z0-9]{1,20}+ ){0,4}(?:PUBLIC KEY|CERTIFICATE|CERTIFICATE REQUEST|"
    r"X509 CRL|SIGNATURE)(?: BLOCK)?-----"
)
#: How many characters above a line of a public block are searched for the block's first line.
_BLOCK_CHARACTERS = 16_384
#: What says, right before a hash, what it is the hash of, even if secrets were mentioned earlier.
_DIGEST_OF = lazy_regex(
    r"(?i)(?:\b(?:sha-?(?:1|224|256|384|512)|md5|blake[23][bs]?|h1)(?:[ :-]|sum: )|"
    r"\b(?:commit|revision|rev|checkout|cherry-pick|parent|tree|blob|head|integrity|checksum|shasum|digest|resolved)\b"
    r"[\"']?[ :=]{1,4}[\"']?(?:sha\d{1,3}[:-])?|"
    r"\.(?:tgz|tar\.\w{2,3}|zip|git|whl|conda)#|github[^\s\"']{0,40}[#@]|git\+[^\s\"']{1,48}[#@]|"
    r"(?:^|[\s\"'=])[\w.-]{1,32}/[\w./-]{1,40}@(?:sha256:)?|"
    r"/(?:commit|tree|blob|archive|tarball|zipball|tar\.gz|zip|raw|compare)s?/|"
    r"\b(?:sha\d{0,3}|md5)[ \t]?\([^()\n]{1,40}\) = )$"
)
#: What says, after a hash, what it is the hash of: a reference or a file, as in lists of hashes.
_HASH_OF = lazy_regex(
    r"[ \t]{1,4}(?:refs/|HEAD\b|[\w.-]{1,40}/[\w./-]{1,64}\s|\*?[\w./-]{0,64}\.[a-z][a-z0-9]{1,4}\s|[\w./-]{1,64} \()"
)
_HASH_SIZES = frozenset({32, 40, 56, 64, 96, 128})
_HEX_RUN = lazy_regex(r"(?:[0-9a-f]+|[0-9A-F]+)")
#: How far before a token its context is read, in characters.
_CONTEXT = 56


def is_public(text: str, first: int, last: int) -> bool:
    """Return whether the token is a public key or part of a certificate, by its format, its name or the block around
    it.
    """
    if is_public_form(text[first:last]) or _PUBLIC_NAME.search(text[max(0, first - 40) : min(first + 6, last)]):
        return True
    begin = text.rfind("-----BEGIN ", max(0, first - _BLOCK_CHARACTERS), first)
    return begin >= 0 and bool(_PUBLIC_BLOCK.match(text, begin)) and text.find("-----END ", begin, first) < 0


def is_labelled_public(text: str, start: int, end: int) -> bool:
    """Return whether a whole run is public, judging by its form or by what stands right before it: a fingerprint, a
    peer's key, a member of a JSON web key, a DNS record, a digest on a blockchain, the id of a document.
    """
    body = text[start:end]
    before = text[max(0, start - _CONTEXT) : start]
    key = body[2:] if body.startswith("p=") else body
    if is_public_form(key) or _PUBLIC_LABEL.search(before):
        return True
    if _FINGERPRINT.search(before) and len(body.rstrip("=.")) in _FINGERPRINT_SIZES:
        return True
    if _CHAIN_DIGEST.fullmatch(body):
        return bool(_ON_CHAIN.search(text[max(0, start - _CHAIN_CHARACTERS) : start]))
    if _WEB_KEY_MEMBER.search(before):
        first, last = max(0, start - _WEB_KEY_CHARACTERS), end + _WEB_KEY_CHARACTERS
        return bool(_WEB_KEY.search(text, first, last))
    return _is_mail_key(text, start, key is not body)


def _is_mail_key(text: str, start: int, is_begun: bool) -> bool:
    """Return whether a run is (part of) the public key in a DNS record for signing mail."""
    floor = max(0, start - _MAIL_KEY_CHARACTERS)
    if is_begun:
        at = start + 2
    else:
        at = text.rfind("p=", floor, start) + 2
        if at < 2 or not _MAIL_KEY_PARTS.fullmatch(text, at, start):
            return False
    return bool(_MAIL_KEY.search(text[max(0, at - 120) : at]))


def is_digest(text: str, first: int, last: int) -> bool:
    """Return whether the words around a hash say what it is the hash of."""
    token = text[first:last]
    if text[first - 1 : first] != "-" and "-" in token:
        first += token.rfind("-") + 1
    elif ":" in token:
        first += token.rfind(":") + 1
    elif "/" in token and _HEX_RUN.fullmatch(token.rpartition("/")[2]):
        first += token.rfind("/") + 1
    is_hash = last - first in _HASH_SIZES and bool(_HEX_RUN.fullmatch(text, first, last))
    if _DIGEST_OF.search(text[max(0, first - _CONTEXT) : first]):
        return is_hash or (text[last - 1] == "=" and (last - first) % 4 == 0)
    if not is_hash or not _HASH_OF.match(text[last : last + 80] + "\n"):
        return False
    before = text[max(0, first - 4) : first]
    return not before.rpartition("\n")[2].strip(" \t+-^*#|") and (
        first <= 4 or "\n" in before or len(before.strip()) == 0
    )
