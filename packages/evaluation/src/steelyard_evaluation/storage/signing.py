"""Signed URLs: the holder of one may do one thing with one object until it expires, without further credentials.

The API signs for uploads and downloads and answers them itself, whatever the store behind it is. The signature is an
HMAC over method, key, expiry and the headers that the request has to carry, so that a URL for one content or one
object is good for no other.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote, urlencode

from steelyard_evaluation.storage.store import BadLocation, SignedURL, check_key

WRITABLE = "staging/"
"""Prefix of uploads. Nothing outside is ever signed for writing: final files stay as they were verified."""


class BadSignature(Exception):
    """The URL was not signed by us, or not for this request, or has expired; the message says which."""


@dataclass(frozen=True)
class Signer:
    """Signs and verifies with one secret; `base_url` is where the API answers signed requests."""

    secret: bytes
    base_url: str

    def sign(
        self,
        method: str,
        key: str,
        expires: datetime,
        headers: Mapping[str, str] | None = None,
        *,
        token: str = "",
    ) -> SignedURL:
        """Return a URL for `method` of the object `key`. Raises BadLocation for an invalid key and for one that must
        not change.

        `token` is the id of the token that asked for it: the URL is used in its name.
        """
        check_signable(method, key)
        required = {name.lower(): value for name, value in sorted((headers or {}).items())}
        until = str(int(expires.timestamp()))
        query = {"expires": until, "headers": ",".join(required)} if required else {"expires": until}
        if token:
            query["token"] = token
        query["signature"] = self._signature(method, key, until, required, token)
        return SignedURL(f"{self.base_url}/{quote(key)}?{urlencode(query)}", method, required)

    def verify(self, method: str, path: str, query: str, headers: Mapping[str, str], now: datetime) -> str:
        """The key that this request may act on. `path` is what followed `base_url/`; names of `headers` are in lower
        case. Raises BadSignature."""
        parameters = dict(parse_qsl(query))
        key, until = unquote(path), parameters.get("expires", "")
        names = [name for name in parameters.get("headers", "").split(",") if name]
        signed = {name: headers.get(name, "") for name in names}
        expected = self._signature(method, key, until, signed, parameters.get("token", ""))
        if not hmac.compare_digest(expected.encode(), parameters.get("signature", "").encode()):
            also = f", with the headers {', '.join(names)} that it was signed with" if names else ""
            raise BadSignature(f"signature: is not one for {method} of {key!r}{also}")
        if now.timestamp() >= int(until):
            ended = datetime.fromtimestamp(int(until), UTC).isoformat()
            raise BadSignature(f"expires: the URL was good until {ended}")
        try:
            check_signable(method, key)
        except BadLocation as error:
            raise BadSignature(str(error)) from error
        return key

    @staticmethod
    def token(query: str) -> str:
        """Return the id of the token in a query that `verify` has accepted; empty where none is named."""
        return dict(parse_qsl(query)).get("token", "")

    def nonce(self, id: str) -> str:
        """Sixteen digits that only the holder of the secret can compute: part of an upload area's name."""
        return hmac.new(self.secret, f"area\n{id}".encode(), hashlib.sha256).hexdigest()[:16]

    def _signature(self, method: str, key: str, until: str, headers: Mapping[str, str], token: str) -> str:
        lines = ["url", method, key, until, *(f"{name}:{value}" for name, value in headers.items())]
        # No header's name begins with a colon. URLs from before tokens were named stay good until they expire.
        lines += [f":token:{token}"] if token else []
        # A line feed in a part could shift one part into the next: lengths keep them apart.
        text = "".join(f"{len(line)}\n{line}\n" for line in lines)
        digest = hmac.new(self.secret, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def check_signable(method: str, key: str) -> None:
    """Raises BadLocation for an invalid key, and for one outside uploads that would be written."""
    check_key(key)
    if method not in {"GET", "PUT"}:
        raise BadLocation(f"method {method!r}: only GET and PUT are signed")
    if method == "PUT" and not key.startswith(WRITABLE):
        raise BadLocation(f"key {key!r}: only what lies below {WRITABLE} is written through a signed URL")
