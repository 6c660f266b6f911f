"""Keys of secrets: the values that they encrypt, and where they may never show."""

import base64
import stat
from pathlib import Path

import pytest

from steelyard.accounts.secrets import KeyFileError, SecretKeys, SecretUnreadable, make_keys, read_keys

ONE, TWO = SecretKeys([b"1" * 32]), SecretKeys([b"2" * 32])
BOTH = SecretKeys([b"2" * 32, b"1" * 32])
VALUE = "hf_a-distinctive-value"


def line(key: bytes) -> str:
    return base64.b64encode(key).decode()


def test_what_is_encrypted_holds_no_part_of_the_value_and_is_never_the_same() -> None:
    first, second = ONE.encrypt("acme", "token", VALUE), ONE.encrypt("acme", "token", VALUE)
    assert first != second
    assert not any(VALUE[n : n + 4].encode() in first for n in range(len(VALUE) - 3))
    assert ONE.decrypt("acme", "token", ONE.first, first) == VALUE


@pytest.mark.parametrize(
    ("account", "name"), [("acme", "other"), ("other", "token"), ("acmetoken", ""), ("acm", "etoken")]
)
def test_a_value_is_read_under_its_own_account_and_name_alone(account: str, name: str) -> None:
    encrypted = ONE.encrypt("acme", "token", VALUE)
    with pytest.raises(SecretUnreadable, match="was changed"):
        ONE.decrypt(account, name, ONE.first, encrypted)


def test_every_changed_byte_is_noticed() -> None:
    encrypted = ONE.encrypt("acme", "token", VALUE)
    for n in range(len(encrypted)):
        changed = encrypted[:n] + bytes([encrypted[n] ^ 1]) + encrypted[n + 1 :]
        with pytest.raises(SecretUnreadable):
            ONE.decrypt("acme", "token", ONE.first, changed)
    for short in (b"", encrypted[:1], encrypted[:13], encrypted[:-1]):
        with pytest.raises(SecretUnreadable):
            ONE.decrypt("acme", "token", ONE.first, short)


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old, new = ONE.encrypt("acme", "token", VALUE), BOTH.encrypt("acme", "token", VALUE)
    assert BOTH.first == TWO.first
    assert BOTH.decrypt("acme", "token", ONE.first, old) == VALUE
    assert TWO.decrypt("acme", "token", BOTH.first, new) == VALUE
    with pytest.raises(SecretUnreadable, match=f"key {TWO.first}, which the file of keys lacks"):
        ONE.decrypt("acme", "token", BOTH.first, new)


def test_a_fingerprint_depends_on_key_account_name_and_value() -> None:
    prints = {
        ONE.fingerprint("acme", "token", VALUE),
        ONE.fingerprint("acme", "token", VALUE + "x"),
        ONE.fingerprint("acme", "other", VALUE),
        ONE.fingerprint("other", "token", VALUE),
        TWO.fingerprint("acme", "token", VALUE),
    }
    assert len(prints) == 5
    assert all(len(text) == 16 for text in prints)
    assert ONE.fingerprint("acme", "token", VALUE) in prints


def test_keys_are_shown_nowhere() -> None:
    for text in (repr(BOTH), str(BOTH)):
        assert "1" * 8 not in text.replace(BOTH.first, "")
        assert "222" not in text.replace(BOTH.first, "")


def test_a_new_file_is_for_its_owner_alone_and_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert make_keys(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = read_keys(path)
    assert not make_keys(path)
    assert read_keys(path).first == keys.first
    path.write_text("damaged")
    assert not make_keys(path)
    assert path.read_text() == "damaged"
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


def test_a_file_has_comments_blank_lines_and_keys_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# newest first\n\n {line(b'2' * 32)} \n{line(b'1' * 32)}\n")
    assert read_keys(path).first == TWO.first


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "has 0 keys"),
        (b"# only a comment\n", "has 0 keys"),
        (line(b"1" * 31).encode(), "line 1 should be 32 bytes in base64"),
        (line(b"1" * 32).encode() + b"\nsomething else", "line 2 should be 32 bytes"),
        (b"\xff\xfe", "is not text"),
        (b"".join(line(bytes([n]) * 32).encode() + b"\n" for n in range(101)), "has 101 keys"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_shown(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=fault) as error:
        read_keys(path)
    assert str(path) in str(error.value)
    assert "something" not in str(error.value)
    assert line(b"1" * 31) not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="there is no such file"):
        read_keys(tmp_path / "keys")
