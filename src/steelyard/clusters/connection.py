"""One cluster as one client sees it: every request of `steelyard.clusters` goes through here.

It turns refusals into the errors of `errors.py`, names the right that is missing, and finds out which versions of a
kind the server has.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from steelyard.clusters import errors
from steelyard.clusters.errors import Fault, Right
from steelyard.clusters.kinds import Kind
from steelyard.clusters.login import FIELD_MANAGER
from steelyard.clusters.versions import warn_of_dropped
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube import errors as api
from steelyard_kube.cluster import Cluster, LogLine, Patch, PodLogs
from steelyard_kube.resource import Resource, find_resource

_REVIEW_KIND = Kind(
    "authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_CANNOT = re.compile(r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')
_REVIEW = _REVIEW_KIND.at("v1")
APPLIES = 10
"""Number of times that an object is applied which others change in between."""


class Api(Cluster, PodLogs, Protocol):
    """The API server: the Cluster protocol, logs, server-side apply, and discovery."""

    async def apply(
        self, resource: Resource, obj: Json, *, manager: str, force: bool = False, dry_run: bool = False
    ) -> Json:
        """Make the object's fields as given, by server-side apply. Conflict where another manager has one of them."""
        ...

    async def bearer(self) -> str:
        """Return the token with which requests log in at this moment; empty where there is none."""
        ...

    async def group_versions(self) -> Mapping[str, Sequence[str]]:
        """The versions that the server has, by API group."""
        ...

    async def plurals(self, group: str, version: str) -> Sequence[str]:
        """The kinds that a group has in one version, by their plural names."""
        ...


class Connection:
    """Requests to one cluster. `namespace` is that of calls that name none."""

    def __init__(self, api: Api, namespace: str = "default") -> None:
        self.api = api
        self.namespace = namespace
        self._versions: Mapping[str, Sequence[str]] | None = None
        self._plurals: dict[tuple[str, str], Sequence[str]] = {}
        self._asking = asyncio.Lock()

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json:
        where = self._place(kind, namespace)
        resource = await self.resource(kind)
        with self._refusals("get", kind, name, where):
            return await self.api.get(resource, name, where)

    async def list(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", everywhere: bool = False
    ) -> Sequence[Json]:
        """Return the objects of a namespace; with `everywhere`, of all namespaces."""
        where = None if everywhere else self._place(kind, namespace)
        resource = await self.resource(kind)
        with self._refusals("list", kind, "", where):
            return (await self.api.list(resource, where, label_selector=labels)).items

    async def create(self, kind: Kind, obj: Json) -> Json:
        resource = await self.resource(kind)
        metadata = obj["metadata"]
        with self._refusals("create", kind, metadata["name"], metadata.get("namespace")):
            created = await self.api.create(resource, {**obj, "apiVersion": resource.api_version})
        warn_of_dropped(obj, created)
        return created

    async def apply(
        self, kind: Kind, obj: Json, *, force: bool = False, dry_run: bool = False, also: Sequence[str] = ()
    ) -> Json:
        """Server-side apply: creates the object, or sets the fields that are given.

        Fields that this client's other calls have set, such as `scale`, are its own, and so are those of the managers
        in `also`: they do not conflict.
        """
        resource = await self.resource(kind)
        metadata = obj["metadata"]
        versioned = {**obj, "apiVersion": resource.api_version}
        with self._refusals("patch", kind, metadata["name"], metadata.get("namespace")):
            try:
                applied = await self.api.apply(
                    resource, versioned, manager=FIELD_MANAGER, force=force, dry_run=dry_run
                )
            except api.Conflict as error:
                own = (FIELD_MANAGER, *also)
                if not _is_with(own, error):
                    raise
                applied = await self._apply_over(own, resource, versioned, dry_run)
        warn_of_dropped(obj, applied)
        return applied

    async def _apply_over(self, own: Sequence[str], resource: Resource, obj: Json, dry_run: bool) -> Json:
        """Apply with force, to a version of the object in which no other manager has a field that conflicts."""
        metadata = obj["metadata"]
        for left in reversed(range(APPLIES)):
            current = await self.api.get(resource, metadata["name"], metadata.get("namespace"))
            version = mapping(current, "metadata").get("resourceVersion")
            pinned = {**obj, "metadata": {**metadata, "resourceVersion": version}}
            try:
                await self.api.apply(resource, pinned, manager=FIELD_MANAGER, dry_run=True)
            except api.Conflict as error:
                if sequence(error.details, "causes") and not _is_with(own, error):
                    raise
            try:
                return await self.api.apply(
                    resource, pinned, manager=FIELD_MANAGER, force=True, dry_run=dry_run
                )
            except api.Conflict:
                if not left:
                    raise
                # A change of the object came between: the conflicts of its new version count.
        raise AssertionError("the last try returns or raises")

    async def replace(self, kind: Kind, obj: Json) -> Json:
        resource = await self.resource(kind)
        metadata = obj["metadata"]
        with self._refusals("update", kind, metadata["name"], metadata.get("namespace")):
            return await self.api.replace(resource, obj)

    async def patch(self, kind: Kind, name: str, patch: Patch, namespace: str | None = None) -> Json:
        where = self._place(kind, namespace)
        resource = await self.resource(kind)
        with self._refusals("patch", kind, name, where):
            return await self.api.patch(resource, name, patch, where)

    async def delete(
        self, kind: Kind, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        where = self._place(kind, namespace)
        resource = await self.resource(kind)
        with self._refusals("delete", kind, name, where):
            await self.api.delete(resource, name, where, uid=uid)

    async def ensure_rights(self, namespace: str, *needed: tuple[str, Kind]) -> None:
        """Raise Forbidden with the first right that the account lacks, before anything is made that would be left."""
        attributes = [
            {"namespace": namespace, "verb": verb, "group": kind.group, "resource": kind.plural}
            for verb, kind in needed
        ]
        reviews = [
            {
                "apiVersion": _REVIEW.api_version,
                "kind": _REVIEW.kind,
                "metadata": {},
                "spec": {"resourceAttributes": item},
            }
            for item in attributes
        ]
        with self._refusals("create", _REVIEW_KIND, "", None):
            answers = await asyncio.gather(*(self.api.create(_REVIEW, review) for review in reviews))
        for (verb, kind), answer in zip(needed, answers, strict=True):
            if mapping(answer, "status").get("allowed") is False:
                right = Right(verb, kind.plural, kind.group, namespace)
                raise errors.Forbidden(f"missing right: {right}", right)

    async def logs(
        self, pod: str, namespace: str, *, container: str = "", follow: bool = False, since: str = ""
    ) -> AsyncIterator[LogLine]:
        with self._refusals("get", Kind("", "pods/log", "Pod"), pod, namespace):
            lines = self.api.logs(pod, namespace, container=container, follow=follow, since=since)
            async for line in lines:
                yield line

    async def resource(self, kind: Kind) -> Resource:
        """Return the kind in the version that both sides speak. Raises Unsupported."""
        if len(kind.versions) == 1:  # nothing to choose: a server without it says so itself
            return kind.at(kind.versions[0])
        served = (await self.versions()).get(kind.group)
        if served is None:
            raise errors.Unsupported(_not_served(kind))
        for version in kind.versions:
            if version in served and await self._has(kind, version):
                return kind.at(version)
        if kind.apart:
            raise errors.Unsupported(_not_served(kind))
        raise errors.Unsupported(
            f"the cluster has {kind.group} {', '.join(served)}, and this client speaks "
            f"{', '.join(kind.versions)}: the newer of the two has to be changed for another version"
        )

    async def versions(self) -> Mapping[str, Sequence[str]]:
        """Return the versions of each API group that the server has; the server is asked once."""
        async with self._asking:
            if self._versions is None:
                with self._refusals("get", Kind("", "/apis", "discovery", namespaced=False), "", None):
                    self._versions = await self.api.group_versions()
            return self._versions

    async def _has(self, kind: Kind, version: str) -> bool:
        if not kind.apart:
            return True
        key = kind.group, version
        if key not in self._plurals:
            with self._refusals(
                "get", Kind("", f"/apis/{kind.group}", "discovery", namespaced=False), "", None
            ):
                self._plurals[key] = await self.api.plurals(*key)
        return kind.plural in self._plurals[key]

    async def close(self) -> None:
        await self.api.close()

    def resolve_namespace(self, namespace: str | None) -> str:
        return namespace or self.namespace

    def _place(self, kind: Kind, namespace: str | None) -> str | None:
        return self.resolve_namespace(namespace) if kind.namespaced else None

    @contextmanager
    def refusals(self, verb: str, obj: Json | None = None) -> Iterator[None]:
        """Raise the API's refusals of requests that others make, about `obj` if they are about one object."""
        try:
            yield
        except api.ApiError as error:
            resource = find_resource(obj) if obj else Resource("", "", "objects", "object")
            kind = Kind(resource.group, resource.plural, resource.kind, (resource.version,))
            name, namespace = (str(mapping(obj, "metadata").get(key) or "") for key in ("name", "namespace"))
            raise translate_error(error, verb, kind, name, namespace) from error

    @contextmanager
    def _refusals(self, verb: str, kind: Kind, name: str, namespace: str | None) -> Iterator[None]:
        """Raise the API's refusals as errors of the client, with the request's object."""
        try:
            yield
        except api.ApiError as error:
            raise translate_error(error, verb, kind, name, namespace) from error


def translate_error(  # noqa: PLR0911  # one line for each kind of refusal
    error: api.ApiError, verb: str, kind: Kind, name: str = "", namespace: str | None = None
) -> errors.ClusterError:
    """Return the client's error for a refusal of a request."""
    what = " ".join(word for word in (kind.name, name) if word) + (
        f" in namespace {namespace}" if namespace else ""
    )
    text = error.message
    match error:
        case api.Unreachable():
            # Credentials are not the cause: the server has not read them.
            return errors.Unreachable(f"the cluster does not answer: {text}")
        case api.Forbidden():
            return _forbidden(error, verb, kind, namespace)
        case api.Unauthorized():
            return errors.Unauthenticated(f"the cluster does not accept the login: {text}", 401, error.reason)
        case api.NotFound():
            if _kind_is_missing(error, verb, name):
                return errors.Unsupported(_not_served(kind))
            if verb == "create" or "namespaces" in text:
                return errors.NotFound(f"{what}: {text}", 404, error.reason)
            return errors.NotFound(f"there is no {what}", 404, error.reason)
        case api.AlreadyExists():
            return errors.AlreadyExists(f"there is a {what} already", 409, error.reason)
        case api.Conflict():
            return errors.Conflict(f"{what}: {text}", 409, error.reason, list_faults(error))
        case api.TooManyRequests():
            return errors.TooManyRequests(f"the cluster asks to wait: {text}", 429, error.reason)
        case api.Invalid() | api.BadRequest():
            return errors.Invalid(
                f"the cluster refuses {what}: {text}", error.status, error.reason, list_faults(error)
            )
    if error.status >= 500:
        return errors.Unavailable(
            f"the cluster cannot do this now ({error.status}): {text}", error.status, error.reason
        )
    return errors.Refused(
        f"the cluster refuses {what}: {text}", error.status, error.reason, list_faults(error)
    )


def _is_with(managers: Sequence[str], error: api.Conflict) -> bool:
    """Return whether all fields that conflict were set by these managers, by calls other than an apply."""
    causes = sequence(error.details, "causes")
    own = tuple(f'conflict with "{manager}" using ' for manager in managers)
    return bool(causes) and all(str(cause.get("message") or "").startswith(own) for cause in causes)


def list_faults(error: api.ApiError) -> Sequence[Fault]:
    """Return the fields that a refusal names."""
    causes = sequence(error.details, "causes")
    return [Fault(str(cause.get("field") or ""), str(cause.get("message") or "")) for cause in causes]


def _forbidden(error: api.Forbidden, verb: str, kind: Kind, namespace: str | None) -> errors.Forbidden:
    if " cannot " not in error.message:  # a quota or an admission rule: no right would help
        return errors.Forbidden(f"the cluster does not allow it: {error.message}", None, error.reason)
    right = Right(verb, kind.plural, kind.group, namespace or "")
    if said := _CANNOT.search(error.message):
        # Of one request several rights may be asked: an apply that makes its object needs `create` too.
        right = Right(said["verb"], said["resource"], said["group"], namespace or "")
    return errors.Forbidden(f"missing right: {right} ({error.message})", right, error.reason)


def _kind_is_missing(error: api.NotFound, verb: str, name: str) -> bool:
    message = error.message
    if "could not find the requested resource" in message or message.startswith("404"):
        return True
    return verb == "list" and not mapping({"details": error.details}, "details").get("name")


def _not_served(kind: Kind) -> str:
    version = f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]
    by = f": is {kind.product} installed there?" if kind.product else ""
    return f"the cluster does not know {kind.name} ({version}){by}"
