"""Discovery: groups, versions and kinds in each form that clients ask for, and the server's version."""

import base64
import hashlib
import platform
import re
from collections.abc import Iterable

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import JSON, Request, Response, json_response
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.served import documents, list_resources
from steelyard_local_kubernetes.release import KUBERNETES

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
# In the order in which a real server names them.
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PART_VERBS = ("get", "patch", "update")
_VERSION = re.compile(r"v([1-9]\d{0,8})(?:(alpha|beta)([1-9]\d{0,8}))?", re.ASCII)
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
VERSION: Json = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    # Clients compare it with what they need: it names the release whose behaviour is kept.
    "gitVersion": KUBERNETES,
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": platform.python_implementation(),
    "platform": "linux/amd64",
}


class Discovery:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def response(self, request: Request, parts: list[str]) -> Response:
        match parts:
            case []:
                return json_response({"paths": self._paths()})
            case ["version"]:
                return json_response(VERSION)
            # kubectl asks for everything at once, and for one document after another
            # only where the server does not know that form.
            case ["api" | "apis"] if form := _read_version(request):
                return self._aggregate(parts[0], form)
            case ["api"]:
                return json_response(
                    {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
                )
            case ["apis"]:
                groups = [self._group(name) for name in self._groups() if name]
                return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            case ["apis", group] if group in self._groups():
                return json_response({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["api", "v1"]:
                return json_response(self._resources("", "v1"))
            case ["apis", group, version] if version in self._groups().get(group, ()):
                return json_response(self._resources(group, version))
        raise errors.NoSuchPage

    def _groups(self) -> dict[str, list[str]]:
        """Versions by group: those of the built-in kinds first, then those of definitions by name."""
        groups: dict[str, list[str]] = {}
        for path in documents():
            *_, group, version = ("", *path.split("/")[1:])
            groups.setdefault(group, []).append(version)
        own = self._registry.groups()
        for group in sorted(own):
            versions = groups.setdefault(group, [])
            versions += sorted({*own[group]} - {*versions}, key=_version_order)
        return groups

    def _paths(self) -> list[str]:
        paths = [
            "/.well-known/openid-configuration",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/",
            "/healthz",
            "/livez",
        ]
        paths += ["/metrics", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version"]
        for group, versions in self._groups().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return sorted(paths)

    def _group(self, name: str) -> Json:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in self._groups()[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str) -> Json:
        content: Json = {"kind": "APIResourceList"}
        # As there: the oldest group's list does not say its own version.
        content |= {"apiVersion": "v1"} if group else {}
        content["groupVersion"] = f"{group}/{version}" if group else version
        return {**content, "resources": self._entries(group, version)}

    def _entries(self, group: str, version: str) -> list[Json]:
        entries = [
            {name: value for name, value in resource.items() if name != "columns"}
            for resource in list_resources(group, version).values()
        ]
        for kind in self._registry.kinds():
            if kind.custom and (kind.group, kind.version) == (group, version):
                entries += _custom_entries(kind)
        return entries

    # ---- all in one document

    def _aggregate(self, root: str, version: str) -> Response:
        groups = [name for name in self._groups() if bool(name) == (root == "apis")]
        content = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": [self._group_discovery(group) for group in groups],
        }
        response = json_response(content)
        # By this type clients recognise the form: with another one they read the body as the old form, and find no
        # groups.
        response.content_type = _AGGREGATED.format(version)
        return response

    def _group_discovery(self, name: str) -> Json:
        versions = [
            {
                "version": version,
                "resources": _with_subresources(
                    self._entries(name, version), self._custom_versions(name, version)
                ),
                "freshness": "Current",
            }
            for version in self._groups()[name]
        ]
        return {"metadata": {"name": name} if name else {}, "versions": versions}

    def _custom_versions(self, group: str, version: str) -> dict[str, Json]:
        """Kinds of definitions, which say their own group and version in this form; built-in ones do not."""
        kinds = [kind for kind in self._registry.kinds() if kind.custom]
        return {
            kind.kind: {"group": group, "version": version}
            for kind in kinds
            if (kind.group, kind.version) == (group, version)
        }


def _version_order(version: str) -> tuple[object, ...]:
    """Sort stable versions before beta and alpha ones, newer ones before older ones, other names last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, version)
    major, stage, minor = match.groups()
    return (0, ("", "beta", "alpha").index(stage or ""), -int(major), -int(minor or 0))


def _custom_entries(kind: ResourceType) -> Iterable[Json]:
    entry: Json = {"name": kind.plural, "singularName": kind.singular_name, "namespaced": kind.namespaced}
    entry |= {"kind": kind.kind, "verbs": list(_CUSTOM_VERBS)}
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    stored = f"{kind.group}/{kind.storage_version.version}/{kind.kind}"
    # Clients know by it whether objects have been stored in another version.
    entry["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    yield entry
    own = {"singularName": "", "namespaced": kind.namespaced}
    if kind.has_status:
        yield {"name": f"{kind.plural}/status", **own, "kind": kind.kind, "verbs": list(_PART_VERBS)}
    if kind.scaling:
        yield {"name": f"{kind.plural}/scale", **own, **SCALE, "verbs": list(_PART_VERBS)}


def _with_subresources(entries: list[Json], versions: dict[str, Json]) -> list[Json]:
    """The same resources with their subresources inside them."""
    resources: dict[str, Json] = {}
    for entry in entries:
        plural, _, below = entry["name"].partition("/")
        nothing = {"group": entry.get("group", ""), "version": entry.get("version", "")}
        response = {**versions.get(entry["kind"], nothing), "kind": entry["kind"]}
        if below:
            part = {"subresource": below, "responseKind": response, "verbs": entry["verbs"]}
            resources[plural].setdefault("subresources", []).append(part)
            continue
        resources[plural] = {
            "resource": plural,
            "responseKind": response,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
            **{name: entry[name] for name in ("shortNames", "categories") if name in entry},
        }
    return list(resources.values())


def _read_version(request: Request) -> str:
    """The version of aggregated discovery that the client asks for; empty for none."""
    for part in request.headers.get("accept", "").split(","):
        fields = {parameter.strip() for parameter in part.split(";")}
        if "as=APIGroupDiscoveryList" in fields and fields & {"v=v2", "v=v2beta1"} and JSON in fields:
            return "v2" if "v=v2" in fields else "v2beta1"
    return ""
