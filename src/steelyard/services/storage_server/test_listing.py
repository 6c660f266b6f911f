"""Listings of any keys, by pages of any length, whole or by folders: as S3 defines them."""

import re
import tempfile
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.listing import list_page, read_list_request, write_page
from steelyard_evaluation.storage.files import FileStore

NAMES = st.text(
    st.sampled_from(["a", "b", "!", "-", ".", "0", " ", "é", "～", "😀", "&", "+"]), min_size=1, max_size=2
)
KEYS = st.lists(NAMES.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=3).map("/".join)


def pages(store: FileStore, most: int, **asked: str) -> list[str]:
    """Return all keys and folders of a listing, page by page, as a client reads them."""
    listed: list[str] = []
    parameters = {"list-type": "2", "max-keys": str(most), **asked}
    while True:
        request = read_list_request(parameters)
        text = write_page("steelyard", request, list_page(store, request)).decode()
        entries = re.findall(r"<(?:Contents><Key|CommonPrefixes><Prefix)>(.*?)</", text)
        assert f"<KeyCount>{len(entries)}</KeyCount>" in text
        listed += [unquote(unescape(key)) if request.escaped else unescape(key) for key in entries]
        token = re.search("<NextContinuationToken>(.*)</NextContinuationToken>", text)
        assert ("<IsTruncated>true</IsTruncated>" in text) == (token is not None)
        if token is None:
            return listed
        assert len(entries) == most
        parameters["continuation-token"] = token[1]


def expected(keys: list[str], prefix: str, delimiter: str, after: str) -> list[str]:
    """Return what a listing shows, by S3's definition."""
    matching = [key for key in keys if key.startswith(prefix) and key > after]
    if not delimiter:
        return sorted(matching, key=str.encode)
    ends = [key.find("/", len(prefix)) for key in matching]
    shown = {key if end < 0 else key[: end + 1] for key, end in zip(matching, ends, strict=True)}
    return sorted(shown, key=str.encode)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(KEYS, max_size=15),
    st.one_of(st.just(""), KEYS, KEYS.map(lambda key: key[:-1]), KEYS.map(lambda key: f"{key}/")),
    st.sampled_from(["", "/"]),
    st.one_of(st.just(""), KEYS),
    st.integers(1, 4),
    st.booleans(),
)
def test_pages_are_whole_and_in_order(
    drawn: list[str], prefix: str, delimiter: str, after: str, most: int, escaped: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys: list[str] = []
        for key in dict.fromkeys(drawn):
            # A folder has no object and folder of one name.
            if any(f"{other}/".startswith(f"{key}/") or f"{key}/".startswith(f"{other}/") for other in keys):
                continue
            path = Path(folder, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            keys.append(key)
        Path(folder, "empty/folder").mkdir(parents=True)
        Path(folder, ".#half").write_bytes(b"")
        asked = {"prefix": prefix, "delimiter": delimiter, "start-after": after}
        asked |= {"encoding-type": "url"} if escaped else {}
        assert pages(FileStore(Path(folder)), most, **asked) == expected(keys, prefix, delimiter, after)


def test_a_page_of_nothing_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert pages(FileStore(tmp_path), 0) == []
    assert pages(FileStore(tmp_path / "missing"), 1) == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"list-type": "1"}, "InvalidArgument"),
        ({"delimiter": "-"}, "NotImplemented"),
        ({"max-keys": "-1"}, "InvalidArgument"),
        ({"encoding-type": "base64"}, "InvalidArgument"),
        ({"continuation-token": "é"}, "InvalidArgument"),
    ],
)
def test_a_wrong_parameter_is_refused(asked: dict[str, str], code: str) -> None:
    with pytest.raises(S3Error) as caught:
        read_list_request({"list-type": "2", **asked})
    assert caught.value.code == code
