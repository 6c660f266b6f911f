"""The keys that encrypt secrets: AES-256-GCM, with account and name as associated data.

A file holds them, one a line: the first encrypts, all decrypt. So a key is rotated by a new first line, and an old line
may go when nothing is encrypted with it any more.
"""

import base64
import binascii
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from steelyard_common.durable import sync_folder
from steelyard_common.errors import Refused, UsageError

KEY_BYTES = 32
NONCE_BYTES = 12
MOST_KEYS = 100
FINGERPRINT_DIGITS = 16
_FORM = 1
"""First byte of an encrypted value: the version of its form."""


class KeyFileError(Refused):
    """The file of keys cannot be used; the message names it and never shows its content."""


class SecretUnreadable(UsageError):
    """A secret cannot be decrypted: its key is missing, or the value in the database is not the stored one."""


class SecretKeys:
    """Keys of one file. Their bytes are never shown."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {key_id(key): key for key in keys}
        self._first = key_id(keys[0])

    def __repr__(self) -> str:
        return f"SecretKeys(first={self._first!r}, count={len(self._keys)})"

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def first(self) -> str:
        """Id of the key that encrypts."""
        return self._first

    def encrypt(self, account: str, name: str, value: str) -> bytes:
        """Return the value encrypted with the first key; it can be decrypted under this account and name alone."""
        nonce = os.urandom(NONCE_BYTES)
        cipher = AESGCM(self._keys[self._first])
        return (
            bytes([_FORM])
            + nonce
            + cipher.encrypt(nonce, value.encode(), _make_associated_data(account, name))
        )

    def decrypt(self, account: str, name: str, key: str, encrypted: bytes) -> str:
        """Return the value. Raises SecretUnreadable."""
        if key not in self._keys:
            raise SecretUnreadable(
                f"secret {name} of account {account}: is encrypted with the key {key}, which the file of keys lacks"
            )
        nonce, content = encrypted[1 : NONCE_BYTES + 1], encrypted[NONCE_BYTES + 1 :]
        try:
            if encrypted[:1] != bytes([_FORM]):
                raise ValueError("another form")
            value = AESGCM(self._keys[key]).decrypt(nonce, content, _make_associated_data(account, name))
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable(
                f"secret {name} of account {account}: what the database holds was changed; set the secret again"
            ) from error
        return value.decode()

    def fingerprint(self, account: str, name: str, value: str) -> str:
        """Return a keyed digest of the value: without the key, values cannot be tried against it."""
        key = hmac.digest(self._keys[self._first], b"steelyard fingerprint of a secret", "sha256")
        return hmac.digest(key, _make_associated_data(account, name) + value.encode(), "sha256").hex()[
            :FINGERPRINT_DIGITS
        ]


def key_id(key: bytes) -> str:
    """Return the id of a key, which is stored with what it encrypts and does not reveal it."""
    return hmac.digest(key, b"steelyard id of a key", "sha256").hex()[:16]


def read_keys(path: Path) -> SecretKeys:
    """Return the keys of a file: each 32 bytes in base64, one a line. Raises KeyFileError."""
    try:
        text = path.read_text()
    except FileNotFoundError as error:
        raise KeyFileError(f"secret_keys {path}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"secret_keys {path}: cannot be read: {_words(error)}") from error
    lines = [line.strip() for line in text.splitlines()]
    keys = [_key(path, number, line) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    if not 1 <= len(keys) <= MOST_KEYS:
        raise KeyFileError(f"secret_keys {path}: has {len(keys)} keys; it should have 1 to {MOST_KEYS}")
    return SecretKeys(keys)


def make_keys(path: Path, comment: str = "") -> bool:
    """Make a file with one new key, which its owner alone may read, where there is none; return whether it was made.

    It ends with `comment`, lines that begin with #.

    A file that is there is never replaced, not even a damaged one: without its keys every secret would be lost.
    """
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    # Complete before it has its name: a reader never sees half a key, and of two makers one wins.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(
                f"# Encrypts secrets: the first key encrypts, all decrypt. Keep a copy.\n{key}\n{comment}"
            )
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_folder(path.parent)
    return True


def _key(path: Path, number: int, line: str) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        # The line is not shown: it may be a key with one wrong character.
        raise KeyFileError(f"secret_keys {path}: line {number} should be {KEY_BYTES} bytes in base64")
    return key


def _make_associated_data(account: str, name: str) -> bytes:
    # As JSON: joined by a separator, two pairs could give the same bytes.
    return json.dumps(["steelyard secret", account, name]).encode()


def _words(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "is not text"
