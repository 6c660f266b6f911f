"""Secrets of accounts. They are encrypted before they reach the accounts database, by `keys.py`."""

from steelyard.accounts.secrets.keys import KeyFileError, SecretKeys, SecretUnreadable, make_keys, read_keys
from steelyard.accounts.secrets.secrets import NoKeys, Secrets

__all__ = ["KeyFileError", "NoKeys", "SecretKeys", "SecretUnreadable", "Secrets", "make_keys", "read_keys"]
