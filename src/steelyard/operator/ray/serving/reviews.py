"""Questions to the API about callers: whose a token is, and what its user may do."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

SECONDS = 20.0
"""Time for which an answer is kept: a revoked token, or a right that was taken away, ends this much later."""
_REMEMBERED = 10_000


@dataclass(frozen=True)
class Caller:
    """A user as the API knows it."""

    name: str
    review: Json = field(hash=False)
    """The `user` of the TokenReview's status: name, uid, groups and extra."""

    def extra(self, name: str) -> str:
        values = sequence(self.review, "extra", f"authentication.kubernetes.io/{name}")
        return str(values[0]) if values else ""


class Reviews:
    """Asks the API, and remembers its answers for a short time; a token is remembered by its hash."""

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float]) -> None:
        self._cluster, self._monotonic = cluster, monotonic
        self._callers: OrderedDict[str, tuple[float, Caller | None]] = OrderedDict()
        self._rights: OrderedDict[tuple[str, ...], tuple[float, bool]] = OrderedDict()

    async def caller(self, token: str, audiences: Sequence[str] = ()) -> Caller | None:
        """Return the owner of a token; None for a token that is unknown or for other audiences. Raises ApiError."""
        key = hashlib.sha256("\0".join((token, *audiences)).encode()).hexdigest()
        known = self._callers.get(key)
        if known and known[0] > self._monotonic():
            return known[1]
        spec: Json = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        answer = await self._cluster.create(TOKEN_REVIEWS, {"metadata": {}, "spec": spec})
        status = mapping(answer, "status")
        caller = None
        # A server that does not know audiences answers without them, and for tokens of any.
        if status.get("authenticated") and (
            not audiences or set(audiences) & set(sequence(status, "audiences"))
        ):
            user = mapping(status, "user")
            caller = Caller(str(user.get("username") or ""), user)
        _remember(self._callers, key, (self._monotonic() + SECONDS, caller))
        return caller

    async def may(self, caller: Caller, verb: str, namespace: str, name: str) -> bool:
        """Return whether a user may do something with a RayCluster. Raises ApiError."""
        user = caller.review
        groups, extra = sequence(user, "groups"), mapping(user, "extra")
        # Rights hang on groups and extra fields too: two tokens of one name may differ in them.
        key = (caller.name, repr(groups), repr(extra), verb, namespace, name)
        known = self._rights.get(key)
        if known and known[0] > self._monotonic():
            return known[1]
        attributes = {
            "group": "ray.io",
            "version": "v1",
            "resource": "rayclusters",
            "verb": verb,
            "namespace": namespace,
            "name": name,
        }
        spec = {"user": caller.name, "uid": user.get("uid", ""), "groups": groups, "extra": extra}
        review = {"metadata": {}, "spec": {**spec, "resourceAttributes": attributes}}
        answer = await self._cluster.create(SUBJECT_ACCESS_REVIEWS, review)
        allowed = mapping(answer, "status").get("allowed") is True
        _remember(self._rights, key, (self._monotonic() + SECONDS, allowed))
        return allowed


def _remember(memory: OrderedDict, key: object, value: object) -> None:  # type: ignore[type-arg]
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
