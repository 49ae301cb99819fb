"""Recognise public values by their form or context: public keys, fingerprints, digests, ids, encrypted values."""

from __future__ import annotations

from engram.redaction.values import HEX_RUN, is_public_form
from engram.system.lazy_regex import lazy_regex

#: Text before a fingerprint, and the number of base64 characters in a fingerprint.
_FINGERPRINT = lazy_regex(r"(?i)\b(?:sha-?(?:1|224|256|384|512)|md5):$")
#: A pinned key: its method, and its digest in base64.
_PINNED = lazy_regex(r"sha(?:1|256|384|512)//?[A-Za-z0-9+/]{27,88}={0,2}")
_FINGERPRINT_SIZES = frozenset({22, 27, 38, 43, 64, 86})
#: Labels of a peer's key, of DNS records that contain keys and hashes, and of ids of documents.
_PUBLIC_LABEL = lazy_regex(
    r"\bpeer:?[ \t]{1,4}$|\b(?:TLSA|SMIMEA|SSHFP|C?DS|C?DNSKEY)(?:[ \t]{1,4}\d{1,5}){2,4}[ \t]{1,4}\(?\s{0,4}$|"
    r"\$oid[\"']?\s{0,3}:\s{0,3}[\"']$|\bObjectI[dD]\([\"']$|"
    r"(?i:\bcode_challenge|\bserial(?: ?n(?:umber|o\.?))?|\bserien?nummer|\bn[uú]m[eé]ro de s[eé]rie|"
    r"\bnumero di serie|\bnumer seryjny|\bсерийный номер)[\"']?[ \t]{0,2}[:=][ \t]{0,2}[\"']?$"
)
#: Names that are followed by an id, not by a secret; and HTTP headers that number requests.
_ID_LABEL = lazy_regex(
    r"(?i)(?:(?:user|account|org(?:ani[sz]ation)?|zone|tenant|project|team|workspace|customer|order|invoice|event|"
    r"message|msg|req(?:uest)?|trace|span|parent|correlation|transaction|tx|job|build|deploy(?:ment)?|release|image|"
    r"container|object|document|doc|file|page|database|db|cluster|node|instance|subscription|resource|group|channel|"
    r"thread|conversation|chat|post|comment|product|item|payment|task|execution|invocation|batch|queue|dataset|record|"
    r"row|entity|asset|folder|issue|ticket|incident|role|member|client|apigw|version|cf)[ _-]?ids?|amz-id-2|"
    r"cf-ray|traceparent|(?<![a-z])b3|uploadid|azure-ref|eagleid|sentry-(?:event|trace)|trace-context|content-md5)"
    r"\\?[\"']?[ \t]{0,2}(?:[:=]|=>)[ \t]{0,2}\\?[\"']?$"
)
_ID = lazy_regex(r"[A-Za-z0-9_-]{8,80}+={0,2}")
#: The beginning of a link to a document or a network report, up to its id.
_DOCUMENT = lazy_regex(
    r"(?:(?:docs|drive|sheets)\.google\.com|figma\.com|notion\.(?:so|site)|miro\.com|nel\.cloudflare\.com)"
    r"\\?/[^\s\"']{0,160}$"
)
#: Ids and fingerprints of OpenPGP keys, and text before them.
_KEY_ID = lazy_regex(r"(?:0x)?(?:[0-9A-F]{40}|[0-9A-F]{16}|[0-9a-f]{40}|[0-9a-f]{16})")
_KEY_ID_LABEL = lazy_regex(
    r"(?i)(?:signingkey|default-key|(?:trusted|recv|edit|send|export|delete|local)(?:-[a-z]{1,10}){0,3}-?keys?|"
    r"signed[-_ ]by\]?|pgpkeys|(?:rsa|dsa|ed|cv|nistp)\d{3,5}/|using [a-z0-9]{3,8} key|key ?id)[\s=:\"'(]{0,6}(?:0x)?$|"
    r"(?:^|\n)(?:pub|sub|sec|ssb)[ #>][^\n]{0,80}\n[ \t]{1,12}$|"
    r"(?:^|\n)(?:fpr|fp2|grp|pub|sub|sec|ssb|sig|rev)(?::[\w-]{0,12}){3,9}:$|"
    r"\bkey fingerprint[ \t]{0,2}[:=][ \t]{1,2}$|\b(?:gpg2?|pgp)\b(?:(?!pass)[^\n]){0,80}[\s=:\"'\[]$|"
    r"\bpgp[\"']?:[\s,0-9A-F'\"|>+\[-]{0,160}$"
)
_KEY_ID_CHARACTERS = 180
#: Names before a key in lower case that are also used for other keys.
_ISSUED_LABEL = lazy_regex(r"(?i)signing|default|trusted|key")
#: The beginnings of encrypted values, and the number of characters before a part in which to look for them.
_VAULT = "$ANSIBLE_VAULT;"
_VAULT_BODY = lazy_regex(r"[\w.;-]{1,60}(?:\\n|[0-9a-f\s]){0,4096}")
_SEALED = lazy_regex(r"Ag[A-D][A-Za-z0-9+/=]{160}")
_SECURED = lazy_regex(r"\bsecure:[ \t]{0,2}[\"']?$")
_ENCRYPTED_CHARACTERS = 4_096
#: The public members of a JSON web key, and a part that every such key also has.
_WEB_KEY_MEMBER = lazy_regex(r"\b(?:n|x|y|e|kid|x5t|x5t#S256)[\"']?\s{0,2}:\s{0,4}[\"']$")
_WEB_KEY = lazy_regex(r"\bkty[\"']?\s{0,2}:")
#: Number of characters around a member in which to look for that part.
_WEB_KEY_CHARACTERS = 1_024
#: A public key in a DNS record for signing mail: the text before it, and the key split into strings.
_MAIL_KEY = lazy_regex(r"\b(?:v=DKIM1|k=(?:rsa|ed25519))\b[^\n]{0,60}[\s;\"]p=$")
_MAIL_KEY_PARTS = lazy_regex(r"[A-Za-z0-9+/=\"\s()]*")
_MAIL_KEY_CHARACTERS = 1_200
#: Names of a digest on a blockchain, possibly followed by other digests of the same list.
_ON_CHAIN = lazy_regex(
    r"(?i)\b(?:topics?\d?|tx\w{0,6}|transaction\w{0,5}|\w{0,16}hash(?:es)?|\w{0,16}root|keccak\d{0,3}|merkle|digest|"
    r"commitment|block|slot|bytes32)(?:[ \t](?:of|it|is|was|the)){0,3}[\s\"':=,(\[]{1,8}"
    r"(?:0x[0-9a-f]{64}[\s\"',]{1,8}){0,4}$"
)
_CHAIN_DIGEST = lazy_regex(r"0x[0-9a-fA-F]{64}")
_CHAIN_CHARACTERS = 360
_PUBLIC_NAME = lazy_regex(
    r"(?i)(?:public|publishable|(?<![a-z])pub|verify(?:ing)?|peer|site)[ _-]?key(?![^\n]{0,30}(?:private|secret))"
)
_PUBLIC_BLOCK = lazy_regex(
    r"-----BEGIN (?:[A-Z0-9]{1,20}+ ){0,4}(?:PUBLIC KEY|CERTIFICATE|CERTIFICATE REQUEST|"
    r"X509 CRL|SIGNATURE)(?: BLOCK)?-----"
)
#: Number of characters before a line of a public block in which to look for the first line of the block.
_BLOCK_CHARACTERS = 16_384
#: Text right before a hash that says what was hashed, even if secrets were mentioned earlier.
_DIGEST_OF = lazy_regex(
    r"(?i)(?:\b(?:sha-?(?:1|224|256|384|512)|md5|blake[23][bs]?|b2|h1|zh)(?:sums?)?(?:: |[ :=-]\(?[\"']?)|"
    r"\b(?:commit|revision|rev|checkout|cherry-pick|parent|tree|blob|head|integrity|checksum|shasum|digest|"
    r"resolved|reference)\b"
    r"[\"']?[ :=]{1,4}[\"']?(?:sha\d{1,3}[:-])?|"
    r"\.(?:tgz|tar\.\w{2,3}|zip|git|whl|conda|gem|jar|deb|rpm|iso|exe|bin)(?:#|: )|"
    r"github[^\s\"']{0,40}[#@]|git\+[^\s\"']{1,48}[#@]|"
    r"(?:^|[\s\"'=])[\w.-]{1,32}/[\w./-]{1,40}@(?:sha256:)?|"
    r"/(?:commit|tree|blob|archive|tarball|zipball|tar\.gz|zip|raw|compare)s?/|"
    r"\b(?:sha\d{0,3}|md5)[ \t]?\([^()\n]{1,40}\) = )$"
)
#: Text after a hash that says what was hashed: a reference or a file, as in lists of hashes.
_HASH_OF = lazy_regex(
    r"[ \t]{1,4}(?:refs/|HEAD\b|[\w.-]{1,40}/[\w./-]{1,64}\s|\*?[\w./-]{0,64}\.[a-z][a-z0-9]{1,4}\s|[\w./-]{1,64} \()"
)
#: Lists of digests, as found in packages and lock files, and the beginnings of such lists.
_LISTS = ("sums=(", "sums_", ":hex, :", "CHECKSUMS:")
_LIST = lazy_regex(
    r"sums(?:_\w{1,12})?=\([\s\"'0-9a-fSKIP]{0,4096}|:hex, :[^\n]{0,400}|"
    r"CHECKSUMS:\n(?:  [\w+/.:-]{1,80}: [0-9a-f]{40}\n){0,100}  [\w+/.:-]{1,80}: "
)
_LIST_CHARACTERS = 4_096
_HASH_SIZES = frozenset({32, 40, 56, 64, 96, 128})
#: Number of characters of context to read before a token.
_CONTEXT = 56


def is_public(text: str, first: int, last: int) -> bool:
    """Return True if a token is a public key or part of a certificate, by its format, name or surrounding block."""
    if is_public_form(text[first:last]) or _PUBLIC_NAME.search(text[max(0, first - 40) : min(first + 6, last)]):
        return True
    begin = text.rfind("-----BEGIN ", max(0, first - _BLOCK_CHARACTERS), first)
    return begin >= 0 and bool(_PUBLIC_BLOCK.match(text, begin)) and text.find("-----END ", begin, first) < 0


def is_labelled_public(text: str, start: int, end: int) -> bool:
    """Return True if a whole run is public, judging by its form or by the text right before it.

    Public runs are fingerprints, a peer's key, members of a JSON web key, DNS records, digests on a blockchain, and ids
    of documents.
    """
    body = text[start:end]
    before = text[max(0, start - _CONTEXT) : start]
    key = body[2:] if body.startswith("p=") else body
    if is_public_form(key.rpartition("/")[2]) or _PINNED.fullmatch(body) or _is_id(text, start, end):
        return True
    if (
        is_key_id(text, start, end)
        or is_encrypted(text, start, end)
        or is_public_form(key)
        or _PUBLIC_LABEL.search(before)
    ):
        return True
    if _FINGERPRINT.search(before) and len(body.rstrip("=.")) in _FINGERPRINT_SIZES:
        return True
    if _CHAIN_DIGEST.fullmatch(body):
        return bool(_ON_CHAIN.search(text[max(0, start - _CHAIN_CHARACTERS) : start]))
    if _WEB_KEY_MEMBER.search(before):
        first, last = max(0, start - _WEB_KEY_CHARACTERS), end + _WEB_KEY_CHARACTERS
        return bool(_WEB_KEY.search(text, first, last))
    return _is_mail_key(text, start, key is not body)


def _is_id(text: str, start: int, end: int) -> bool:
    """Return True if a run is the id of something that is not a secret, judging by the name before it or inside it."""
    sign = text.find("=", start, end)
    if 0 < sign < end - 8:
        start = sign + 1
    before = text[max(0, start - _CONTEXT) : start]
    if _PUBLIC_LABEL.search(before):
        return True
    if _ID_LABEL.search(before):
        return bool(_ID.fullmatch(text, start, end)) or "amz-id-2" in before or "md5" in before
    return bool(_DOCUMENT.search(text[max(0, start - _KEY_ID_CHARACTERS) : end - 16]))


def is_key_id(text: str, start: int, end: int) -> bool:
    """Return True if a value is the id or the fingerprint of an OpenPGP key, judging by the text before it."""
    token = text[start:end]
    if len(token) > 42 or not _KEY_ID.fullmatch(token):
        return False
    label = _KEY_ID_LABEL.search(text[max(0, start - _KEY_ID_CHARACTERS) : start])
    return label is not None and (token.upper().replace("0X", "0x") == token or not _ISSUED_LABEL.match(label.group()))


def is_encrypted(text: str, start: int, end: int) -> bool:
    """Return True if a value is encrypted, as in files that anyone may read.

    Recognised are sops, eyaml, Ansible, Travis, and sealed secrets for Kubernetes.
    """
    floor = max(0, start - _ENCRYPTED_CHARACTERS)
    begin = text.rfind("ENC[", floor, start + 4)
    if begin >= 0 and text.find("]", begin, start) < 0:
        return True
    begin = text.rfind(_VAULT, floor, start)
    if begin >= 0:
        return bool(_VAULT_BODY.fullmatch(text, begin + len(_VAULT), start))
    if end - start < 160:
        return False
    if _SEALED.match(text, start):
        return "encryptedData" in text[floor:start]
    return bool(_SECURED.search(text[max(0, start - _CONTEXT) : start]))


def _is_listed(text: str, first: int) -> bool:
    """Return True if a hash is in a list of digests."""
    floor = max(0, first - _LIST_CHARACTERS)
    begins = (text.rfind(sign, floor, first) for sign in _LISTS)
    return any(at >= 0 and _LIST.fullmatch(text, at, first) for at in begins)


def _is_mail_key(text: str, start: int, is_begun: bool) -> bool:
    """Return True if a run is part or all of the public key in a DNS record for signing mail."""
    floor = max(0, start - _MAIL_KEY_CHARACTERS)
    if is_begun:
        at = start + 2
    else:
        at = text.rfind("p=", floor, start) + 2
        if at < 2 or not _MAIL_KEY_PARTS.fullmatch(text, at, start):
            return False
    return bool(_MAIL_KEY.search(text[max(0, at - 120) : at]))


def is_digest(text: str, first: int, last: int) -> bool:
    """Return True if the words around a hash say what was hashed."""
    token = text[first:last]
    if text[first - 1 : first] != "-" and "-" in token:
        first += token.rfind("-") + 1
    elif ":" in token or "=" in token[:-2]:
        first += max(token.rfind(":"), token.rfind("=", 0, -2)) + 1
    elif "/" in token and HEX_RUN.fullmatch(token.rpartition("/")[2]):
        first += token.rfind("/") + 1
    is_hash = last - first in _HASH_SIZES and bool(HEX_RUN.fullmatch(text, first, last))
    if _DIGEST_OF.search(text[max(0, first - _CONTEXT) : first]):
        return is_hash or (text[last - 1] == "=" and (last - first) % 4 == 0)
    if is_hash and _is_listed(text, first):
        return True
    if not is_hash or not _HASH_OF.match(text[last : last + 80] + "\n"):
        return False
    before = text[max(0, first - 4) : first]
    return not before.rpartition("\n")[2].strip(" \t+-^*#|") and (
        first <= 4 or "\n" in before or len(before.strip()) == 0
    )
