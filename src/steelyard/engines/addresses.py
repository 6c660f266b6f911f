"""Addresses of engines, as people read them."""

import re

# A password may hold characters that an address should have encoded: libraries take most of them all the same. What
# looks like a port belongs to an address without a password, whose query may have an @. An address that lacks its
# scheme or a slash is wrong, and the message that says so repeats it; one of a file may have : and @ in its path.
_LOGIN = re.compile(
    r"^([\w+.-]+://?[^:@/?#]*|(?!sqlite:|file:|memory:)[^:@/?#]+(?=:[^/])):(?:[^?#]*@|(?!\d+(?:[,/?#]|$)).*@)"
)
_SETTING = re.compile(r"([?&][^=&]*password=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return an address with three stars in place of its password, and of passwords among its settings."""
    return _SETTING.sub(r"\1***", _LOGIN.sub(r"\1:***@", url))
