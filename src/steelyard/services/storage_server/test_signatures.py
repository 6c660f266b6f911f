"""Signatures of requests: AWS's own examples, and what must not pass in their place."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.signatures import Keys, SignedRequest, parse_query, verify

# The examples of Amazon S3's reference: "Signature Calculations for the Authorization Header", and "Using Query
# Parameters". Their bucket is in the name of the host.
KEYS = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
SCOPE = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
NOW = datetime(2013, 5, 24, tzinfo=UTC)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = {"host": "examplebucket.s3.amazonaws.com"}
DATED = {**HOST, "x-amz-date": "20130524T000000Z"}


def sign_request(
    method: str, path: str, headers: Mapping[str, str], signature: str, query: str = ""
) -> SignedRequest:
    """Return a request that is signed in its header."""
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={SCOPE},SignedHeaders={';'.join(sorted(headers))},Signature={signature}"
    )
    return SignedRequest(method, path, parse_query(query), {**headers, "authorization": authorization})


GET = sign_request(
    "GET",
    "/test.txt",
    {**DATED, "range": "bytes=0-9", "x-amz-content-sha256": EMPTY},
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
)
PUT = sign_request(
    "PUT",
    "/test%24file.text",
    {
        **DATED,
        "date": "Fri, 24 May 2013 00:00:00 GMT",
        "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
    },
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
)
LIFECYCLE = sign_request(
    "GET",
    "/",
    {**DATED, "x-amz-content-sha256": EMPTY},
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    "lifecycle",
)
LIST = sign_request(
    "GET",
    "/",
    {**DATED, "x-amz-content-sha256": EMPTY},
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    "max-keys=2&prefix=J",
)
URL = SignedRequest(
    "GET",
    "/test.txt",
    parse_query(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
        "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    ),
    HOST,
)


def refusal(request: SignedRequest, keys: Keys = KEYS, now: datetime = NOW) -> str:
    """Return the code with which a request is refused."""
    with pytest.raises(S3Error) as caught:
        verify(request, keys, now)
    return caught.value.code


def headers(request: SignedRequest, **changed: str | None) -> SignedRequest:
    """Return the request with other headers; None takes one away."""
    every = {**request.headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return replace(request, headers={name: value for name, value in every.items() if value is not None})


def query(request: SignedRequest, **changed: str | None) -> SignedRequest:
    """Return the request with other parameters; None takes one away."""
    every = {**dict(request.query), **{name.replace("_", "-"): value for name, value in changed.items()}}
    return replace(request, query=[(name, value) for name, value in every.items() if value is not None])


@pytest.mark.parametrize(
    ("request_", "payload"),
    [
        pytest.param(GET, EMPTY, id="a range of an object"),
        pytest.param(PUT, PUT.headers["x-amz-content-sha256"], id="an object is written"),
        pytest.param(LIFECYCLE, EMPTY, id="a parameter without a value"),
        pytest.param(LIST, EMPTY, id="a listing"),
        pytest.param(URL, None, id="a presigned URL"),
    ],
)
def test_the_examples_of_amazon_are_valid(request_: SignedRequest, payload: str | None) -> None:
    assert verify(request_, KEYS, NOW) == payload
    assert refusal(request_, Keys(KEYS.access, "another")) == "SignatureDoesNotMatch"
    assert refusal(request_, Keys("another", KEYS.secret)) == "InvalidAccessKeyId"
    assert refusal(replace(request_, method="DELETE")) == "SignatureDoesNotMatch"
    assert refusal(replace(request_, path="/test.txt2")) == "SignatureDoesNotMatch"
    assert refusal(query(request_, prefix="K")) == "SignatureDoesNotMatch"
    assert refusal(headers(request_, host="example.org")) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(headers(GET, authorization=None), "AccessDenied", id="none at all"),
        pytest.param(headers(GET, range="bytes=0-99"), "SignatureDoesNotMatch", id="another range"),
        pytest.param(headers(GET, range=None), "SignatureDoesNotMatch", id="a signed header that is gone"),
        pytest.param(
            headers(PUT, x_amz_content_sha256=EMPTY), "SignatureDoesNotMatch", id="the hash of another body"
        ),
        pytest.param(
            headers(PUT, x_amz_content_sha256="UNSIGNED-PAYLOAD"),
            "SignatureDoesNotMatch",
            id="no hash any more",
        ),
        pytest.param(
            headers(GET, x_amz_copy_source="/steelyard/secret"),
            "AccessDenied",
            id="an added header of Amazon's",
        ),
        pytest.param(headers(GET, x_amz_content_sha256=None), "InvalidRequest", id="a body without a hash"),
        pytest.param(headers(GET, x_amz_content_sha256="0"), "InvalidArgument", id="a hash that is none"),
        pytest.param(
            headers(GET, x_amz_content_sha256="STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            "NotImplemented",
            id="a body in signed chunks",
        ),
        pytest.param(headers(GET, x_amz_date="yesterday"), "AccessDenied", id="a time that is none"),
        pytest.param(headers(GET, x_amz_date="20130524T000001Z"), "SignatureDoesNotMatch", id="another time"),
        pytest.param(headers(GET, authorization="Bearer x"), "AuthorizationHeaderMalformed", id="a token"),
        pytest.param(
            headers(GET, authorization=GET.headers["authorization"].replace("20130524", "20130523")),
            "AuthorizationHeaderMalformed",
            id="the key of another day",
        ),
        pytest.param(
            headers(GET, authorization=GET.headers["authorization"].replace("us-east-1", "eu-west-1")),
            "SignatureDoesNotMatch",
            id="the key of another region",
        ),
        pytest.param(
            headers(GET, authorization=GET.headers["authorization"].replace("host;", "")),
            "AccessDenied",
            id="the host is not signed",
        ),
        pytest.param(headers(URL, authorization="AWS4-HMAC-SHA256"), "InvalidArgument", id="twice"),
        pytest.param(headers(URL, x_amz_copy_source="/b/k"), "AccessDenied", id="a header that a URL lacks"),
        pytest.param(query(URL, X_Amz_Expires="604800"), "SignatureDoesNotMatch", id="a URL for longer"),
        pytest.param(
            query(URL, X_Amz_Expires="604801"), "AuthorizationQueryParametersError", id="a URL for too long"
        ),
        pytest.param(
            query(URL, X_Amz_Signature=None),
            "AuthorizationQueryParametersError",
            id="a URL without a signature",
        ),
        pytest.param(
            query(URL, X_Amz_Signature="é" * 64), "SignatureDoesNotMatch", id="a signature in letters"
        ),
        pytest.param(
            query(URL, X_Amz_Algorithm="AWS4-HMAC-SHA1"), "AuthorizationQueryParametersError", id="weak"
        ),
        pytest.param(query(URL, X_Amz_Date="00010101T000000Z"), "AccessDenied", id="a URL of the first year"),
    ],
)
def test_what_was_not_signed_is_refused(request_: SignedRequest, code: str) -> None:
    assert refusal(request_) == code


def test_the_secret_stands_in_no_message() -> None:
    assert KEYS.secret not in repr(KEYS)


@pytest.mark.parametrize("minutes", [-15, 15])
def test_clocks_may_differ_by_a_quarter_of_an_hour(minutes: int) -> None:
    now = NOW + timedelta(minutes=minutes)
    assert verify(GET, KEYS, now) == EMPTY
    beyond = now + timedelta(seconds=1 if minutes > 0 else -1)
    assert refusal(GET, now=beyond) == "RequestTimeTooSkewed"


def test_a_url_is_valid_for_its_time() -> None:
    assert verify(URL, KEYS, NOW + timedelta(seconds=86_399)) is None
    assert refusal(URL, now=NOW + timedelta(seconds=86_400)) == "AccessDenied"
    assert refusal(URL, now=NOW - timedelta(minutes=15, seconds=1)) == "AccessDenied"
