"""The user of a request, as authentication found it; `authentication.py` makes users, every other part reads them."""

from dataclasses import dataclass

from steelyard_common.types import Json

MASTERS, AUTHENTICATED, UNAUTHENTICATED = (
    "system:masters",
    "system:authenticated",
    "system:unauthenticated",
)
ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """One user; hashable, because decisions are cached by it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    def info(self) -> Json:
        """The user as reviews show it."""
        content: Json = {"username": self.name}
        if self.uid:
            content["uid"] = self.uid
        if self.groups:
            content["groups"] = list(self.groups)
        if self.extra:
            content["extra"] = {key: list(values) for key, values in self.extra}
        return content


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
SERVER = User("system:apiserver", (MASTERS,))
"""The server itself, which writes for no client."""


def administrator(name: str) -> User:
    return User(name, (MASTERS, AUTHENTICATED))


def account_user(
    namespace: str, name: str, uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """The user that a ServiceAccount is."""
    return User(f"{ACCOUNT_PREFIX}{namespace}:{name}", account_groups(namespace), uid, extra)


def account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
