"""The server of the storage folder, asked by the library that the steps use, and request by request."""

import base64
import hashlib
import os
import re
import socket
import zlib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import httpx
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp.test_utils import make_mocked_request
from obstore.store import from_url
from pyarrow import fs
from pydantic import SecretStr

from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.run import make_server
from steelyard.services.storage_server.settings import StorageServerSettings
from steelyard.services.storage_server.simulation.client import (
    ACCESS,
    SECRET,
    Serving,
    add,
    ask,
    begin,
    code,
    complete,
)
from steelyard.services.storage_server.uploads import FOLDER
from steelyard_evaluation.storage.contract import CASES, Case
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import ObjectExists, StorageError, Store, open_store

MEBIBYTE = 1 << 20


@pytest.fixture
def store(serving: Serving) -> Store:
    """A place in the bucket."""
    return open_store("s3://steelyard/a/b c")


def incoming(serving: Serving) -> list[str]:
    """Return what waits in the folder of incoming files."""
    folder = serving.root / FOLDER
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_server_keeps_to_the_contract_of_stores(store: Store, case: Case) -> None:
    await case(store)


async def test_a_folder_and_its_server_show_the_same_at_once(serving: Serving) -> None:
    """Objects alone are there to see, and a file is the same, whoever wrote it."""
    there, here = open_store("s3://steelyard"), FileStore(serving.root)
    await here.put("a/here", b"1")
    await there.put("a/there", b"22")
    assert [await there.get("a/here"), await here.get("a/there")] == [b"1", b"22"]
    await here.put("a/there", b"333")
    assert await there.get("a/there") == b"333"
    with pytest.raises(ObjectExists):
        await there.create("a/here", b"")
    await there.copy("a/here", "b")
    await there.delete("a/here")
    assert [info.key async for info in here.list()] == [info.key async for info in there.list()]
    assert [info.key async for info in here.list()] == ["a/there", "b"]
    assert incoming(serving) == []


async def test_a_large_file_comes_in_parts_and_goes_in_pieces(serving: Serving, tmp_path: Path) -> None:
    content = os.urandom(12 * MEBIBYTE + 5)
    (tmp_path / "file").write_bytes(content)
    store = open_store("s3://steelyard")
    await store.put_file("a/large", tmp_path / "file")
    assert (serving.root / "a/large").read_bytes() == content
    assert await store.get("a/large") == content
    assert await store.get_range("a/large", MEBIBYTE, 2 * MEBIBYTE) == content[MEBIBYTE : 3 * MEBIBYTE]
    assert [name for name in incoming(serving) if not name.endswith(".done")] == []


def test_an_object_is_created_once_and_its_writer_knows_itself(serving: Serving) -> None:
    mark = {"if-none-match": "*", "x-amz-meta-mark": "mine"}
    assert ask(serving, "PUT", "/steelyard/a", b"1", mark).status_code == 200
    assert code(ask(serving, "PUT", "/steelyard/a", b"1", mark)) == "412 PreconditionFailed"
    assert ask(serving, "HEAD", "/steelyard/a").headers["x-amz-meta-mark"] == "mine"
    assert code(ask(serving, "PUT", "/steelyard/a", b"1", {"if-none-match": '"x"'})) == "501 NotImplemented"


RANGES = {
    "bytes=2-4": "234",
    "bytes=7-": "789",
    "bytes=-3": "789",
    "bytes=8-99": "89",
    "bytes=4-2": "0123456789",
    "bytes=0-1,3-4": "0123456789",
    "lines=1-2": "0123456789",
    "bytes=10-": "416 InvalidRange",
    "bytes=-0": "416 InvalidRange",
}


def test_ranges_are_those_of_http(serving: Serving) -> None:
    (serving.root).mkdir()
    (serving.root / "a").write_bytes(b"0123456789")
    for header, expected in RANGES.items():
        answer = ask(serving, "GET", "/steelyard/a", headers={"range": header})
        assert (answer.text if answer.is_success else code(answer)) == expected
        if answer.status_code == 206:
            assert answer.headers["content-range"].endswith("/10")
    head = ask(serving, "HEAD", "/steelyard/a")
    assert (head.headers["content-length"], head.content) == ("10", b"")


def test_conditions_are_those_of_http(serving: Serving) -> None:
    tag = ask(serving, "PUT", "/steelyard/a", b"1").headers["etag"]
    written = ask(serving, "GET", "/steelyard/a").headers["last-modified"]
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    for headers, status in (
        ({"if-match": tag}, 200),
        ({"if-match": '"other"'}, 412),
        ({"if-none-match": tag}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-modified-since": written}, 304),
        ({"if-modified-since": past}, 200),
        ({"if-unmodified-since": past}, 412),
        ({"if-unmodified-since": written}, 200),
    ):
        for method in ("GET", "HEAD"):
            assert ask(serving, method, "/steelyard/a", headers=headers).status_code == status, headers
    assert ask(serving, "PUT", "/steelyard/a", b"2").headers["etag"] != tag
    part = {"range": "bytes=0-0", "if-range": tag}
    assert ask(serving, "GET", "/steelyard/a", headers=part).status_code == 200


def digests(body: bytes) -> Mapping[str, str]:
    """Return every digest that a client may send."""
    return {
        "content-md5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
        "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        "x-amz-checksum-sha1": base64.b64encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode(),
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
    }


def test_a_body_has_to_be_the_announced_one(serving: Serving) -> None:
    right, wrong = digests(b"right"), digests(b"wrong")
    assert ask(serving, "PUT", "/steelyard/a", b"right", right).status_code == 200
    for name, digest in wrong.items():
        assert code(ask(serving, "PUT", "/steelyard/a", b"right", {name: digest})) == "400 BadDigest"
        assert code(ask(serving, "PUT", "/steelyard/a", b"right", {name: "x"})) == "400 InvalidDigest"
    other = {"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}
    assert code(ask(serving, "PUT", "/steelyard/a", b"right", other)) == "400 XAmzContentSHA256Mismatch"
    unsigned = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    assert ask(serving, "PUT", "/steelyard/b", b"any", unsigned).status_code == 200
    assert {path.name for path in serving.root.iterdir() if path.is_file()} == {"a", "b"}
    assert ((serving.root / "a").read_bytes(), incoming(serving)) == (b"right", [])


@pytest.mark.parametrize(
    ("method", "target", "headers", "expected"),
    [
        pytest.param("GET", "/", {}, "501 NotImplemented", id="the list of buckets"),
        pytest.param("GET", "/steelyard", {}, "501 NotImplemented", id="the first version of listings"),
        pytest.param("PUT", "/steelyard", {}, "501 NotImplemented", id="a bucket is made"),
        pytest.param("DELETE", "/steelyard", {}, "501 NotImplemented", id="a bucket is removed"),
        pytest.param("GET", "/steelyard/a?acl=", {}, "501 NotImplemented", id="rights of an object"),
        pytest.param("GET", "/steelyard/a?versionId=1", {}, "501 NotImplemented", id="a version"),
        pytest.param("POST", "/steelyard/a", {}, "501 NotImplemented", id="a form"),
        pytest.param("PUT", "/steelyard/a", {"x-amz-acl": "private"}, "501 NotImplemented", id="rights"),
        pytest.param("PUT", "/steelyard/a", {"if-match": '"1"'}, "501 NotImplemented", id="a condition"),
        pytest.param("PUT", "/steelyard/a", {"content-encoding": "gzip"}, "501 NotImplemented", id="packed"),
        pytest.param(
            "PUT",
            "/steelyard/a",
            {"x-amz-checksum-crc32c": "AAAAAA=="},
            "501 NotImplemented",
            id="a checksum",
        ),
        pytest.param(
            "PUT",
            "/steelyard/a",
            {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
            "501 NotImplemented",
            id="a body in chunks",
        ),
        pytest.param("GET", "/other/a", {}, "404 NoSuchBucket", id="another bucket"),
        pytest.param("GET", "/steelyard/a", {}, "404 NoSuchKey", id="a missing object"),
        pytest.param("PUT", "/steelyard/a/%2e%2e/b", {}, "400 InvalidArgument", id="a way out"),
        pytest.param("PUT", "/steelyard/a%252fb", {}, "400 InvalidArgument", id="an escape"),
        pytest.param("PUT", "/steelyard//etc/passwd", {}, "400 InvalidArgument", id="an absolute path"),
        pytest.param(
            "PUT", "/steelyard/.%23a", {}, "400 InvalidArgument", id="the name of a half-written file"
        ),
        pytest.param(
            "PUT", f"/steelyard/{'a' * 256}", {}, "400 InvalidArgument", id="a name that is too long"
        ),
        pytest.param(
            "PUT", f"/steelyard/{'a/' * 512}a", {}, "400 KeyTooLongError", id="a key that is too long"
        ),
        pytest.param(
            "GET", "/steelyard?list-type=2&prefix=..%2F", {}, "403 AccessDenied", id="a folder outside"
        ),
        pytest.param(
            "GET", "/steelyard?list-type=2&prefix=%2Fetc%2F", {}, "403 AccessDenied", id="another one"
        ),
        pytest.param(
            "PUT", "/steelyard/a?partNumber=1&uploadId=" + "0" * 32, {}, "404 NoSuchUpload", id="part"
        ),
        pytest.param(
            "DELETE", "/steelyard/a?uploadId=..%2Fa", {}, "404 NoSuchUpload", id="an upload outside"
        ),
    ],
)
def test_what_the_server_has_not_is_answered_as_s3_does(
    serving: Serving, method: str, target: str, headers: Mapping[str, str], expected: str
) -> None:
    assert code(ask(serving, method, target, b"", headers)) == expected
    assert not (serving.root / "a").exists()


def test_what_no_client_signs_is_answered_in_a_line(serving: Serving) -> None:
    """A caller without a key learns nothing, whatever it sends."""
    host, port = serving.url.removeprefix("http://").split(":")
    for target in (
        "/steelyard/%FF",
        "/steelyard?prefix=%FF",
        "/steelyard/a%00b",
        "http://other/steelyard/a",
        "/",
    ):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            request = f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        assert answer.startswith(("HTTP/1.1 403", "HTTP/1.1 400")), answer
        assert re.search("<Code>(AccessDenied|InvalidURI)</Code>", answer), answer


CREDENTIAL = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=%s/20260131/%s/s3/aws4_request,"
    b"SignedHeaders=host,Signature=" + b"0" * 64
)
SIGNED = b"x-amz-date: %s\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"


@pytest.mark.parametrize(
    ("target", "header"),
    [
        pytest.param(b"/steelyard/\xff", b"x: y", id="in the path"),
        pytest.param(b"/steelyard?prefix=\xff", b"x: y", id="in the query"),
        pytest.param(b"/steelyard?X-Amz-Credential=%FF", b"x: y", id="in a credential of the query"),
        pytest.param(b"/steelyard/a", b"x-amz-meta-a: \xff", id="in a header"),
        pytest.param(b"/steelyard/a", CREDENTIAL % (b"\xff", b"r"), id="in the name of a key"),
        pytest.param(b"/steelyard/a", CREDENTIAL % (b"steps", b"\xff"), id="in a region"),
    ],
)
def test_a_byte_that_is_not_utf_8_is_the_clients_fault(
    serving: Serving, target: bytes, header: bytes
) -> None:
    host, port = serving.url.removeprefix("http://").split(":")
    now = serving.now()
    dated = SIGNED % f"{now:%Y%m%dT%H%M%SZ}".encode()
    header = header.replace(b"20260131", f"{now:%Y%m%d}".encode())
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s%s\r\n\r\n" % (target, dated, header)
        )
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith(("HTTP/1.1 400", "HTTP/1.0 400")), answer


async def test_a_path_that_the_parser_lets_through_is_refused(tmp_path: Path) -> None:
    """aiohttp's parser in Python, which is there where the one in C is not, refuses less."""
    server = make_server(
        f"file://{tmp_path}",
        StorageServerSettings(access_key=SecretStr(ACCESS), secret_key=SecretStr(SECRET)),
    )
    for target in ("/steelyard/\udcff", "/steelyard?prefix=\udcff"):
        with pytest.raises(S3Error) as caught:
            server.read_call(make_mocked_request("GET", target))
        assert caught.value.code == "InvalidURI"


def test_a_header_that_is_not_signed_changes_nothing(serving: Serving) -> None:
    ask(serving, "PUT", "/steelyard/secret", b"secret")
    answer = ask(serving, "PUT", "/steelyard/a", b"", x_amz_copy_source="/steelyard/secret")
    assert code(answer) == "403 AccessDenied"
    assert not (serving.root / "a").exists()


def test_amazons_own_library_reads_and_lists(serving: Serving) -> None:
    """Arrow has it inside: another signer than that of the steps, and of a region of its own."""
    (serving.root / "a/b").mkdir(parents=True)
    pq.write_table(pa.table({"x": range(1000)}), serving.root / "a/b/é +.parquet")
    there = fs.S3FileSystem(
        access_key=ACCESS, secret_key=SECRET, endpoint_override=serving.url, region="eu-west-1", scheme="http"
    )
    listed = there.get_file_info(fs.FileSelector("steelyard/a", recursive=True))
    assert {info.path for info in listed} == {"steelyard/a/b", "steelyard/a/b/é +.parquet"}
    assert pq.read_table("steelyard/a/b/é +.parquet", filesystem=there).num_rows == 1000


def test_a_request_of_a_wrong_clock_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    store = from_url("s3://steelyard")
    obstore.put(store, "a", b"1")
    serving.ahead = timedelta(minutes=16)
    with pytest.raises(Exception, match="RequestTimeTooSkewed"):
        obstore.put(store, "a", b"2")
    serving.ahead = timedelta()
    assert httpx.get(f"{serving.url}/steelyard/a").status_code == 403


async def test_a_wrong_credential_is_named(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(
        StorageError, match=r"^s3://steelyard/a: .*403 Forbidden: SignatureDoesNotMatch: [^<\n]*$"
    ):
        await open_store("s3://steelyard").get("a")


def test_no_link_leads_out_of_the_folder(serving: Serving, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    serving.root.mkdir()
    (serving.root / "folder").symlink_to(outside)
    (serving.root / "file").symlink_to(outside / "secret")
    for method, target, body in (
        ("GET", "/steelyard/folder/secret", b""),
        ("GET", "/steelyard/file", b""),
        ("HEAD", "/steelyard/file", b""),
        ("PUT", "/steelyard/folder/made", b"1"),
        ("DELETE", "/steelyard/folder/secret", b""),
        ("POST", "/steelyard/folder/made?uploads=", b""),
        ("GET", "/steelyard?list-type=2&prefix=folder%2F", b""),
    ):
        assert ask(serving, method, target, body).status_code == 403, target
    copied = ask(serving, "PUT", "/steelyard/copy", b"", {"x-amz-copy-source": "steelyard/file"})
    assert code(copied) == "403 AccessDenied"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_several_objects_are_deleted_each_for_itself(serving: Serving) -> None:
    for key in ("a", "b"):
        ask(serving, "PUT", f"/steelyard/{key}", b"")
    body = b"<Delete><Object><Key>a</Key></Object><Object><Key>../x</Key></Object></Delete>"
    answer = ask(serving, "POST", "/steelyard?delete=", body)
    assert re.findall("<(Deleted|Error)><Key>(.*?)</Key>", answer.text) == [
        ("Deleted", "a"),
        ("Error", "../x"),
    ]
    quiet = b"<Delete><Quiet>true</Quiet><Object><Key>b</Key></Object></Delete>"
    assert "Deleted" not in ask(serving, "POST", "/steelyard?delete=", quiet).text
    assert not any((serving.root / key).exists() for key in ("a", "b"))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<Delete><Object><Key>a</Key></Object>", id="half of one"),
        pytest.param(b'<!DOCTYPE x [<!ENTITY e "a">]><Delete></Delete>', id="entities"),
        pytest.param(b"<Other></Other>", id="another document"),
        pytest.param(b"<Delete>" + b"<Object>" * 100_000, id="a deep one"),
        pytest.param(b"<Delete>" + b"<Object><Key>a</Key></Object>" * 1001 + b"</Delete>", id="too many"),
    ],
)
def test_a_document_that_is_none_is_refused(serving: Serving, body: bytes) -> None:
    assert code(ask(serving, "POST", "/steelyard?delete=", body)) == "400 MalformedXML"


def test_parts_become_an_object_in_their_order(serving: Serving) -> None:
    id = begin(serving, "a", {"x-amz-meta-mark": "mine"})
    parts = {number: add(serving, "a", id, number, str(number).encode() * 3) for number in (3, 1, 2)}
    parts[2] = add(serving, "a", id, 2, b"two")
    assert not (serving.root / "a").exists()
    ordered = dict(sorted(parts.items()))
    first = complete(serving, "a", id, ordered)
    assert (serving.root / "a").read_bytes() == b"111two333"
    again = complete(serving, "a", id, ordered)
    assert (again.status_code, again.text) == (200, first.text), "a client whose answer was lost asks again"
    assert ask(serving, "HEAD", "/steelyard/a").headers["x-amz-meta-mark"] == "mine"
    assert incoming(serving) == [f".#{id}.done"]
    assert code(complete(serving, "a", id, {1: parts[1]})) == "404 NoSuchUpload"


def test_an_upload_that_is_not_right_makes_nothing(serving: Serving) -> None:
    id = begin(serving, "a")
    parts = {number: add(serving, "a", id, number, b"x") for number in (1, 2)}
    assert code(complete(serving, "a", id, {})) == "400 MalformedXML"
    assert code(complete(serving, "a", id, {**parts, 3: '"none"'})) == "400 InvalidPart"
    assert code(complete(serving, "a", id, {**parts, 2: '"other"'})) == "400 InvalidPart"
    assert code(complete(serving, "a", id, dict(reversed(parts.items())))) == "400 InvalidPartOrder"
    assert code(complete(serving, "b", id, parts)) == "404 NoSuchUpload"
    assert (
        code(ask(serving, "PUT", f"/steelyard/a?partNumber=0&uploadId={id}", b"x")) == "400 InvalidArgument"
    )
    ask(serving, "PUT", "/steelyard/a", b"first")
    assert code(complete(serving, "a", id, parts, {"if-none-match": "*"})) == "412 PreconditionFailed"
    assert (serving.root / "a").read_bytes() == b"first"
    assert ask(serving, "DELETE", f"/steelyard/a?uploadId={id}").status_code == 204
    assert incoming(serving) == []
    assert code(complete(serving, "a", id, parts)) == "404 NoSuchUpload"


def test_an_upload_ends_with_the_boot_of_the_machine(serving: Serving) -> None:
    """Parts are not forced to the disk: after a power loss they may be anything."""
    id = begin(serving, "a")
    parts = {1: add(serving, "a", id, 1, b"x")}
    record = serving.root / FOLDER / f".#{id}.begun"
    record.write_text(record.read_text().replace('"boot": "', '"boot": "0'))
    assert code(complete(serving, "a", id, parts)) == "404 NoSuchUpload"
