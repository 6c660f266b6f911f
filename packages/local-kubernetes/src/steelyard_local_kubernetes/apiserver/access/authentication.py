"""Senders of requests: known by a client certificate, the administrator's token or a ServiceAccount's; all others are
anonymous."""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from steelyard_local_kubernetes.apiserver.access.tokens import AccountTokens
from steelyard_local_kubernetes.apiserver.access.users import ANONYMOUS, AUTHENTICATED, User, administrator


class Authentication:
    """Users of requests, in the order in which a real server asks."""

    def __init__(self, tokens: Mapping[str, str], accounts: AccountTokens) -> None:
        self._administrators = [
            (sha256(token.encode()).digest(), administrator(name)) for token, name in tokens.items() if token
        ]
        self.accounts = accounts

    def user(self, certificate: Mapping[str, Any] | None, authorization: str) -> User | None:
        """The user; None for a token that is not good."""
        if certificate and (user := certificate_user(certificate)):
            return user
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        return self.token_user(token.strip())

    def token_user(self, token: str) -> User | None:
        """The user of a token. It is compared by digest, so that the time of the comparison reveals nothing
        of the token.
        """
        digest = sha256(token.encode()).digest()
        for known, user in self._administrators:
            if hmac.compare_digest(known, digest):
                return user
        account = self.accounts.user(token)
        return account[0] if account else None


def certificate_user(certificate: Mapping[str, Any]) -> User | None:
    """Common name and organizations of a certificate are a user and its groups."""
    name, groups = "", []
    for relative in certificate.get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None
