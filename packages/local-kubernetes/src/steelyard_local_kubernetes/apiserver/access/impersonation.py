"""Requests in another's name: the headers of `kubectl --as`, and the right to send them."""

from collections.abc import Iterable
from urllib.parse import unquote

from steelyard_local_kubernetes.apiserver.access.attributes import Attributes
from steelyard_local_kubernetes.apiserver.access.rbac import Rbac
from steelyard_local_kubernetes.apiserver.access.refusals import forbidden
from steelyard_local_kubernetes.apiserver.access.users import (
    ACCOUNT_PREFIX,
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    account_groups,
)
from steelyard_local_kubernetes.apiserver.errors import Refusal

_PREFIX, _EXTRA = "impersonate-", "impersonate-extra-"
_GROUP = "authentication.k8s.io"


def effective_user(rbac: Rbac, user: User, headers: Iterable[tuple[str, str]]) -> User:
    """The user in whose name a request is sent; raises Refusal where the sender may not."""
    sent = [(name.lower(), value) for name, value in headers if name.lower().startswith(_PREFIX)]
    if not sent:
        return user
    name = next((value for key, value in sent if key == "impersonate-user"), "")
    uid = next((value for key, value in sent if key == "impersonate-uid"), "")
    groups = [value for key, value in sent if key == "impersonate-group"]
    extra: dict[str, list[str]] = {}
    for key, value in sent:
        if key.startswith(_EXTRA):
            extra.setdefault(unquote(key.removeprefix(_EXTRA)), []).append(value)
    if not name:
        raise Refusal(
            500, "InternalError", f"Internal error occurred: requested {sent} without impersonating a user"
        )
    for attributes in _wishes(name, uid, groups, extra):
        decision = rbac.decide(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)
    return User(
        name, _groups(name, groups), uid, tuple((key, tuple(values)) for key, values in extra.items())
    )


def _wishes(name: str, uid: str, groups: list[str], extra: dict[str, list[str]]) -> Iterable[Attributes]:
    verb = "impersonate"
    if account := _account(name):
        yield Attributes(verb, "", "v1", "serviceaccounts", "", account[0], account[1])
    else:
        yield Attributes(verb, "", "v1", "users", name=name)
    for group in groups:
        yield Attributes(verb, "", "v1", "groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes(verb, _GROUP, "v1", "userextras", key, name=value)
    if uid:
        yield Attributes(verb, _GROUP, "v1", "uids", name=uid)


def _account(name: str) -> tuple[str, str] | None:
    namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if name.startswith(ACCOUNT_PREFIX) and namespace and account else None


def _groups(name: str, groups: list[str]) -> tuple[str, ...]:
    if not groups and (account := _account(name)):
        return account_groups(account[0])
    own = UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    return tuple(groups) if own in groups else (*groups, own)
