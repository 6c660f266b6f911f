"""Addresses of engines, as people read them."""

import re


def without_password(url: str) -> str:
    """Return an address with three stars in place of its password."""
    return re.sub(r"^([\w+.-]+://[^:@/]*):[^@/]*@", r"\1:***@", url)
