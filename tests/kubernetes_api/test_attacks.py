"""Attacks by the weakest caller that can send them, a ServiceAccount without a right.

The server answers others while it works on them, takes no memory for them, and says of each what its fault is.
"""

import asyncio
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes_api.victim import MOST, REVIEWS, Victim, message_of, victim_at


def doubled(line: str, levels: int = 31) -> bytes:
    lines = [f"a{n}: &a{n} " + line.replace("*a", f"*a{n - 1}") for n in range(1, levels)]
    return "\n".join(["a0: &a0 {k: v}", *lines]).encode()


YAML, TEXT = "application/yaml", "application/json"
LEVELS = 100_000
BODIES: dict[str, tuple[str, bytes]] = {
    "merge keys that double": (YAML, doubled("{<<: [*a, *a]}")),
    "aliases that double": (YAML, doubled("[*a, *a]")),
    "an alias in what it names": (YAML, b"a: &a [*a]"),
    "a long text named often": (YAML, b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 50_000 + b"]"),
    "long prefixes of tags": (
        YAML, b"%TAG !e! tag:" + b"x" * 50_000 + b"\n---\n[" + b"!e!a b, " * 50_000 + b"]",
    ),
    "a number to the base of 60": (YAML, b"a: 1" + b":1" * 1_000_000),
    "a number with a type": (YAML, b"a: !!int '1" + b":1" * 1_000_000 + b"'"),
    "YAML of many nodes": (YAML, b"[" + b"a," * 1_500_000 + b"]"),
    "YAML of many lists": (YAML, b"[" + b"[]," * 1_000_000 + b"]"),
    "YAML that is deep": (YAML, b"[" * 3_000_000),
    "YAML of deep lines": (YAML, b"- " * 1_500_000),
    "JSON that is deep": (TEXT, b"[" * LEVELS + b"]" * LEVELS),
    "JSON of deep objects": (TEXT, b'{"a":' * LEVELS + b"1" + b"}" * LEVELS),
    "JSON of many lists": (TEXT, b'{"spec": {"a": [' + b"[]," * 1_000_000 + b"[]]}}"),
    "JSON of many keys": (TEXT, b"{" + b",".join(b'"%d":0' % n for n in range(250_000)) + b"}"),
    "JSON of one key": (TEXT, b"{" + b",".join([b'"a":{"b":0}'] * 200_000) + b"}"),
    "a long JSON number": (TEXT, b'{"a": ' + b"1" * 3_000_000 + b"}"),
    "a large exponent": (TEXT, b'{"spec": 1e999999999}'),
    "half a surrogate pair": (TEXT, b'{"a": "' + b"\\ud800" * 400_000 + b'"}'),
    "protobuf without end": ("application/vnd.kubernetes.protobuf", b"k8s\0" + b"\x0a\xff\xff\xff\x7f" * 500_000),
    "too much": (TEXT, b" " * (4 << 20)),
    "parts of a form": ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\n" * 60_000),
    "fields of a form": ("application/x-www-form-urlencoded", b"a=b&" * 700_000),
}  # fmt: skip


FAULTS = {
    "merge keys that double": "document contains excessive aliasing",
    "aliases that double": "document contains excessive aliasing",
    "an alias in what it names": r"the alias \*a stands inside what it names",
    "a long text named often": "a document has at most 3145728 bytes once its aliases are written out",
    "long prefixes of tags": "a document has at most 3145728 bytes once its aliases are written out",
    "a number to the base of 60": "a number has at most 256 characters; this one has 2000001",
    "a number with a type": "a number has at most 256 characters; this one has 2000001",
    "YAML of many nodes": "a document has at most 30000 texts, numbers, lists and objects",
    "YAML of many lists": "a document has at most 30000 texts, numbers, lists and objects",
    "YAML that is deep": "at most 128 levels of lists and objects",
    "YAML of deep lines": "at most 128 levels of lists and objects",
    "JSON that is deep": "a body has at most 50000 lists and objects",
    "JSON of deep objects": "a body has at most 50000 lists and objects",
    "JSON of many lists": "a body has at most 50000 lists and objects",
    "JSON of many keys": "spec.resourceAttributes: Invalid value",
    "JSON of one key": "a body has at most 50000 lists and objects",
    "a long JSON number": "number is infinity",
    "a large exponent": "number is infinity",
    "half a surrogate pair": "invalid low surrogate in string",
    "protobuf without end": "unexpected EOF",
    "too much": "limit is 3145728",
    "parts of a form": "accepted media types include: application/json",
    "fields of a form": "accepted media types include: application/json",
}
"""Message of each body, by its name in `BODIES`."""
HELD = "the bodies of requests in progress hold more than 8388608 bytes of one account"
BUSY = (429, f"{HELD}: please try again later")


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder: Path = tmp_path_factory.mktemp("victim")
    with victim_at(folder, "built-in kinds") as made:
        asyncio.run(made.make_account("weak"))
        asyncio.run(made.warm_up())
        yield made


async def attacked(victim: Victim, body: bytes, **headers: str) -> list[tuple[int, str]]:
    """Send a body four times at once, until there is an answer; return the status and the message of each."""
    while True:
        sent = (victim.send("POST", REVIEWS, victim.tokens["weak"], body, **headers) for _ in range(4))
        answers = await victim.answers_to(*sent)
        # A body that is refused by its length alone may end its connection while it is sent.
        refusals = [answer for answer in answers if not isinstance(answer, BaseException)]
        if refusals:
            assert len(refusals) == 4 or {status for status, _ in refusals} == {413}
            return [(answer[0], message_of(answer)) for answer in refusals]


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_costs_others_nothing(victim: Victim, name: str) -> None:
    sent, body = BODIES[name]
    before = victim.memory()
    answers = await attacked(victim, body, **{"content-type": sent})
    faults = [(status, message) for status, message in answers if (status, message) != BUSY]
    assert faults  # some are read, also where the bodies of all are more than one account may send at once
    for status, message in faults:
        assert 400 <= status < 500
        assert re.search(FAULTS[name], message), message
    assert victim.memory() - before < MOST
    assert victim.process.poll() is None


async def test_a_compressed_body_is_refused_as_it_is(victim: Victim) -> None:
    before = victim.memory()
    body = gzip.compress(b" " * (256 << 20))
    answers = await attacked(victim, body, **{"content-encoding": "gzip"})
    assert answers == [(415, "a body is taken as it is, not in the encoding 'gzip'")] * 4
    assert victim.memory() - before < MOST
