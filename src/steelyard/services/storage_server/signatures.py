"""AWS Signature Version 4 of requests to S3, in the Authorization header or in the query (presigned URLs).

Pure functions: the server calls `verify` before it looks at anything else of a request. Regions have no meaning here,
so a client may sign for any.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_plus

from steelyard.services.storage_server.faults import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = timedelta(minutes=15)
"""Most time by which a client's clock may differ from ours."""
LONGEST_SIGNED = timedelta(days=7)
UNSIGNED = "UNSIGNED-PAYLOAD"
_UNRESERVED = "-_.~"
_TIME = "%Y%m%dT%H%M%SZ"
_HEADER = re.compile(
    rf"{ALGORITHM} +Credential=(?P<credential>[^ ,]+) *, *SignedHeaders=(?P<names>[^ ,]+) *, *"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)
_QUERY_NAMES = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature")


@dataclass(frozen=True)
class Keys:
    """The key that clients sign with: its name, and itself."""

    access: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class SignedRequest:
    """A request in the form in which it is signed."""

    method: str
    path: str
    """Path as it was sent, with its escapes."""
    query: Sequence[tuple[str, str]]
    """Parameters, without escapes."""
    headers: Mapping[str, str]
    """Headers with names in lower case; several of one name are joined by commas."""


@dataclass(frozen=True)
class Claim:
    """A signature, and the circumstances of it that the client states."""

    credential: str
    names: Sequence[str]
    """Names of the signed headers."""
    signature: str
    time: datetime
    payload: str
    """SHA-256 of the body in hexadecimal digits, or UNSIGNED."""
    query: Sequence[tuple[str, str]]
    """Signed parameters."""


def parse_query(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query, in which S3 reads a `+` as a space. Raises S3Error."""
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    try:
        return [
            (unquote_plus(name, errors="strict"), unquote_plus(value, errors="strict"))
            for name, _, value in pairs
        ]
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", "The query is not UTF-8.") from error


def verify(request: SignedRequest, keys: Keys, now: datetime) -> str | None:
    """Return the SHA-256 that the body must have, in hexadecimal digits; None where the client has not signed it.

    Raises S3Error for a request that the holder of `keys` has not signed, or not lately.
    """
    presigned = any(name == "X-Amz-Algorithm" for name, _ in request.query)
    if presigned and "authorization" in request.headers:
        raise S3Error("InvalidArgument", "A request is signed in its header or in its query, not in both.")
    claim = read_query_claim(request, now) if presigned else read_header_claim(request, now)
    day, region = check_credential(claim, keys)
    unsigned = [name for name in request.headers if name.startswith("x-amz-") and name not in claim.names]
    if unsigned or "host" not in claim.names:  # an added header would change what the request does
        missing = ", ".join(sorted(unsigned) or ["host"])
        raise S3Error("AccessDenied", f"Headers of the request are not signed: {missing}.")
    expected = compute_signature(request, claim, keys, (day, region, "s3", "aws4_request"))
    if not hmac.compare_digest(expected.encode(), claim.signature.encode()):
        raise S3Error(
            "SignatureDoesNotMatch",
            "The request's signature is not the one that follows from the request and the secret key.",
        )
    return None if claim.payload == UNSIGNED else claim.payload


def read_header_claim(request: SignedRequest, now: datetime) -> Claim:
    """Read the Authorization header. Raises S3Error."""
    authorization = request.headers.get("authorization")
    if authorization is None:
        raise S3Error("AccessDenied", "The request is not signed.")
    parts = _HEADER.fullmatch(authorization.strip())
    if parts is None:
        raise S3Error("AuthorizationHeaderMalformed", f"Authorization should be of the form {ALGORITHM}.")
    time = _read_time(request.headers.get("x-amz-date", ""), "AccessDenied")
    if abs(now - time) > SKEW:
        raise S3Error(
            "RequestTimeTooSkewed", "The clocks of client and server differ by more than 15 minutes."
        )
    payload = request.headers.get("x-amz-content-sha256")
    if payload is None:
        raise S3Error("InvalidRequest", "The header x-amz-content-sha256 is missing.")
    names = parts["names"].split(";")
    return Claim(parts["credential"], names, parts["signature"], time, _check_payload(payload), request.query)


def read_query_claim(request: SignedRequest, now: datetime) -> Claim:
    """Read the parameters of a presigned URL. Raises S3Error."""
    parameters = dict(request.query)
    if len(parameters) != len(request.query) or parameters["X-Amz-Algorithm"] != ALGORITHM:
        raise S3Error(
            "AuthorizationQueryParametersError", f"The query should be signed once, by {ALGORITHM}."
        )
    if missing := [name for name in _QUERY_NAMES if name not in parameters]:
        raise S3Error("AuthorizationQueryParametersError", f"The query lacks {', '.join(missing)}.")
    time = _read_time(parameters["X-Amz-Date"], "AuthorizationQueryParametersError")
    seconds = parameters["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", seconds) or not 1 <= int(seconds) <= LONGEST_SIGNED.total_seconds():
        raise S3Error("AuthorizationQueryParametersError", "X-Amz-Expires should be 1 to 604800 seconds.")
    if time - now > SKEW:
        raise S3Error("AccessDenied", "The URL is not valid yet.")
    if now >= time + timedelta(seconds=int(seconds)):
        raise S3Error("AccessDenied", "The URL has expired.")
    return Claim(
        parameters["X-Amz-Credential"],
        parameters["X-Amz-SignedHeaders"].split(";"),
        parameters["X-Amz-Signature"],
        time,
        _check_payload(request.headers.get("x-amz-content-sha256", UNSIGNED)),
        [pair for pair in request.query if pair[0] != "X-Amz-Signature"],
    )


def _read_time(text: str, code: str) -> datetime:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise S3Error(code, "The time of the signature should be of the form 20260131T120000Z.") from error


def _check_payload(text: str) -> str:
    if text.startswith("STREAMING-"):
        raise S3Error("NotImplemented", "Bodies that are signed in chunks are not supported.")
    if text != UNSIGNED and not re.fullmatch("[0-9a-f]{64}", text):
        raise S3Error("InvalidArgument", "x-amz-content-sha256 should be a SHA-256 or UNSIGNED-PAYLOAD.")
    return text


def check_credential(claim: Claim, keys: Keys) -> tuple[str, str]:
    """Return day and region of the scope. Raises S3Error."""
    parts = claim.credential.rsplit("/", 4)
    if len(parts) != 5 or parts[3:] != ["s3", "aws4_request"] or parts[1] != claim.time.strftime("%Y%m%d"):
        raise S3Error(
            "AuthorizationHeaderMalformed",
            "The credential should be KEY/DAY/REGION/s3/aws4_request, with the day of the request.",
        )
    if not hmac.compare_digest(parts[0].encode(), keys.access.encode()):
        raise S3Error("InvalidAccessKeyId", "There is no such access key.")
    return parts[1], parts[2]


def compute_signature(request: SignedRequest, claim: Claim, keys: Keys, scope: Sequence[str]) -> str:
    """Return the signature that the request should have, as AWS's reference defines it."""
    parameters = sorted(
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in claim.query
    )
    headers = [f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in claim.names]
    canonical = "\n".join(
        (
            request.method,
            quote(
                unquote(request.path, errors="surrogateescape"),
                safe=f"/{_UNRESERVED}",
                errors="surrogateescape",
            ),
            "&".join(f"{name}={value}" for name, value in parameters),
            "".join(headers),
            ";".join(claim.names),
            claim.payload,
        )
    )
    digest = hashlib.sha256(canonical.encode(errors="surrogateescape")).hexdigest()
    text = "\n".join((ALGORITHM, claim.time.strftime(_TIME), "/".join(scope), digest))
    return hmac.digest(derive_key(keys.secret, *scope), text.encode(), "sha256").hex()


@lru_cache(maxsize=16)
def derive_key(secret: str, *scope: str) -> bytes:
    """Return the key of a scope: all requests of a day have the same."""
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return key
