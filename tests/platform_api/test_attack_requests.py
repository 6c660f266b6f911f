"""Requests that ask for more work than they weigh, by the weakest callers that can send them.

Tokens are sent by callers without an account, queries by one who may list one kind. Each is answered, and refused with
the field's name where it is refused; none takes memory.
"""

import base64
import json
import tracemalloc

import pytest

from steelyard_schema.account import AccessGrant
from tests.platform_api.memory_platform import MemoryPlatform

MOST = 16 << 20  # bytes that the work for one request may take for a moment
MAY_LIST = AccessGrant(resources=["models"], functions=["query", "get"], accounts=["*"])
MAY_CREATE = AccessGrant(resources=["datasets"], functions=["create"], accounts=["*"])


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def token(header: object, claims: object, signature: bytes = b"signature") -> str:
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


EDDSA = {"alg": "EdDSA", "kid": "a"}
TOKENS = {
    "no algorithm": token({"alg": "none"}, {"sub": "accounts/a"}, b""),
    "a secret as algorithm": token({"alg": "HS256"}, {"sub": "accounts/a"}),
    "a deep header": token(b"[" * 20_000, {}),
    "deep claims": token(EDDSA, b'{"a":' * 4000),
    "a long number": token(EDDSA, b"1" * 20_000),
    "many groups": token(EDDSA, {"groups": ["g"] * 5000}),
    "a long key id": token({"alg": "EdDSA", "kid": "k" * 20_000}, {}),
    "many dots": "." * 30_000,
    "a long text": "a" * 30_000,
}
QUERIES: dict[str, tuple[str, str]] = {
    "parameters": ("a=b&" * 7000, "a: no parameter of /v0/models"),
    "ids": ("id=" + "a" * 32 + "&id=b" * 5000, ""),
    "a deep query": ("query=" + "[" * 20_000, "query: not JSON: depth limit exceeded"),
    "a query of many keys": (
        "query=" + json.dumps({f"k{n}": 1 for n in range(2000)}),
        "query: 'k0' is not one of",
    ),
    "labels": ("labels=" + json.dumps({f"k{n}": "v" for n in range(1500)}), ""),
    "a deep label": ("labels=" + '{"a":' * 4000, "labels: not JSON: depth limit exceeded"),
    "a limit of many digits": ("limit=" + "9" * 20_000, "limit: '999"),
    "a place of many digits": ("orderBy=name&after=" + "9" * 20_000, "after: "),
    "a forged place": ("orderBy=creationTime&after=" + encoded({"a": ["b"] * 2000}), "after: "),
    "an order": ("orderBy=" + "a," * 10_000, "orderBy: 'a,a"),
    "percent signs": ("name=" + "%25" * 10_000, ""),
}
"""Query, and the message; empty if it is accepted."""
JSON = "application/json"
BODIES: dict[str, tuple[str, bytes, int, str]] = {
    "parts of a form": (
        "multipart/form-data; boundary=b",
        b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n" * 9000,
        415,
        "Content-Type: 'multipart/form-data' should be application/json",
    ),
    "deep lists": (JSON, b'{"name":' + b"[" * 200_000, 400, "body: is not JSON: depth limit exceeded"),
    "deep objects": (JSON, b'{"labels":' * 1000 + b"1" + b"}" * 1000, 422, "labels.labels.labels"),
    "many lists": (JSON, b'{"artifacts":[' + b"[]," * 120_000 + b"[]]}", 422, "account: is missing"),
    "many objects": (
        JSON,
        b'{"artifacts":[' + b"{}," * 120_000 + b"{}]}",
        422,
        "artifacts: List should have at most",
    ),
    "many keys": (
        JSON,
        b"{" + b",".join(b'"k%d":0' % n for n in range(9000)) + b"}",
        422,
        "k0: is not a field here",
    ),
    "a long number": (JSON, b'{"name":' + b"9" * 400_000 + b"}", 400, "body: is not JSON: number"),
    "a long text": (JSON, b'{"name":"' + b"x" * 500_000 + b'"}', 422, "name: "),
    "too much": (JSON, b'{"name":"' + b"x" * 900_000 + b'"}', 413, "524288 are allowed"),
}
"""Type, body, status and message."""

MAY_PUSH = AccessGrant(resources=["artifacts"], functions=["create", "get", "data"], accounts=["*"])
DESCRIPTOR = json.dumps({"digest": f"sha256:{'0' * 64}", "urls": ["a"]}).encode()
MANIFESTS: dict[str, tuple[bytes, str]] = {
    "lists": (b"[]," * (1 << 20), "the manifest has more than 200000 values"),
    "objects": (b'{"":0},' * (1 << 19), "the manifest has more than 200000 values"),
    "texts": (b'"",' * (1 << 20), "the manifest has more than 200000 values"),
    "levels": (b"[" * (1 << 17), "the manifest is not JSON"),
    "entries": (b",".join([DESCRIPTOR] * 10_001) + b",", "layers: the manifest has more than 10000 entries"),
}
"""Layers of a manifest, and the message."""


@pytest.mark.parametrize("name", TOKENS)
async def test_no_token_of_a_stranger_is_taken(platform: MemoryPlatform, name: str) -> None:
    async with platform.client(TOKENS[name]) as client:
        tracemalloc.start()
        try:
            answer = await client.get("/models")
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (answer.status_code, most < MOST) == (401, True)


@pytest.mark.parametrize("name", QUERIES)
async def test_a_query_costs_others_nothing(platform: MemoryPlatform, name: str) -> None:
    query, fault = QUERIES[name]
    client = await platform.holder(MAY_LIST)
    tracemalloc.start()
    try:
        answer = await client.get(f"/models?{query}")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST
    assert answer.status_code == (422 if fault else 200)
    assert fault in answer.text


@pytest.mark.parametrize("name", MANIFESTS)
async def test_a_manifest_costs_others_nothing(platform: MemoryPlatform, name: str) -> None:
    layers, fault = MANIFESTS[name]
    client = await platform.holder(MAY_PUSH)
    artifact = (await platform.created("artifacts"))["id"]
    content = b'{"schemaVersion":2,"layers":[' + layers + b"{}]}"
    named = {"Content-Type": "a/b"}
    tracemalloc.start()
    try:
        answer = await client.put(
            f"http://api/v2/artifacts/{artifact}/manifests/latest", content=content, headers=named
        )
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status_code, most < 2 * MOST) == (400, True)  # its body has up to 4 MiB
    assert fault in answer.text


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_costs_others_nothing(platform: MemoryPlatform, name: str) -> None:
    form, body, status, fault = BODIES[name]
    client = await platform.holder(MAY_CREATE)
    tracemalloc.start()
    try:
        answer = await client.post("/datasets", content=body, headers={"Content-Type": form})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status_code, fault in answer.text) == (status, True), answer.text[:300]
    assert (most < 2 * MOST, len(answer.content) < 4096) == (True, True), most
