"""Discovery: groups, versions and kinds in each form that clients ask for, and the server's version."""

import platform
from collections.abc import Iterable

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.kinds import VERBS, ResourceType
from steelyard.local.apiserver.messages import JSON, Request, Response, json_response
from steelyard.local.apiserver.registry import Registry
from steelyard.local.apiserver.reviews import KINDS as REVIEW_KINDS
from steelyard.types import Json

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
VERSION: Json = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    # Clients compare it with what they need: it names the release whose behaviour is kept.
    "gitVersion": "v1.34.4+steelyard",
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
            case ["api" | "apis"] if form := _aggregated_form(request):
                return self._aggregated(parts[0], form)
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
        raise errors.no_such_path()

    def _groups(self) -> dict[str, list[str]]:
        groups = self._registry.groups()
        for group, version, _ in REVIEW_KINDS:
            versions = groups.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return groups

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
        for group, versions in self._groups().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return sorted(paths)

    def _group(self, name: str) -> Json:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in self._groups()[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _kinds(self, group: str, version: str) -> list[ResourceType]:
        return [kind for kind in self._registry.kinds() if (kind.group, kind.version) == (group, version)]

    def _resources(self, group: str, version: str) -> Json:
        entries: list[Json] = []
        for kind in self._kinds(group, version):
            entries.append(_resource(kind))
            entries += [{"name": f"{kind.plural}/{n}", **details} for n, details in _subresources(kind)]
        for kind in _reviews(group, version):
            entries.append(
                {
                    "name": kind.plural,
                    "singularName": kind.named,
                    "namespaced": kind.namespaced,
                    "kind": kind.kind,
                    "verbs": ["create"],
                }
            )
        api_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version,
            "resources": entries,
        }

    # ---- all in one document

    def _aggregated(self, root: str, version: str) -> Response:
        groups = [name for name in self._groups() if bool(name) == (root == "apis")]
        content = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": [self._discovered_group(group) for group in groups],
        }
        response = json_response(content)
        # By this type clients tell the form: with another one they read the
        # body as the old form, and find no groups.
        response.content_type = _AGGREGATED.format(version)
        return response

    def _discovered_group(self, name: str) -> Json:
        versions = [
            {"version": version, "resources": list(self._discovered(name, version)), "freshness": "Current"}
            for version in self._groups()[name]
        ]
        return {"metadata": {"name": name, "creationTimestamp": None} if name else {}, "versions": versions}

    def _discovered(self, group: str, version: str) -> Iterable[Json]:
        for kind in self._kinds(group, version):
            entry = {
                "resource": kind.plural,
                "responseKind": _response_kind(kind),
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "singularResource": kind.named,
                "verbs": list(VERBS),
            }
            if kind.short_names:
                entry["shortNames"] = list(kind.short_names)
            if kind.categories:
                entry["categories"] = list(kind.categories)
            below = [
                {
                    "subresource": name,
                    "responseKind": SCALE if name == "scale" else _response_kind(kind),
                    "verbs": details["verbs"],
                }
                for name, details in _subresources(kind)
            ]
            yield entry | ({"subresources": below} if below else {})
        for kind in _reviews(group, version):
            yield {
                "resource": kind.plural,
                "responseKind": _response_kind(kind),
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "singularResource": kind.named,
                "verbs": ["create"],
            }


def _reviews(group: str, version: str) -> list[ResourceType]:
    return [kind for kind in REVIEW_KINDS.values() if (kind.group, kind.version) == (group, version)]


def _aggregated_form(request: Request) -> str:
    """The version of aggregated discovery that the client asks for; empty for none."""
    for part in request.headers.get("accept", "").split(","):
        fields = {parameter.strip() for parameter in part.split(";")}
        if "as=APIGroupDiscoveryList" in fields and fields & {"v=v2", "v=v2beta1"} and JSON in fields:
            return "v2" if "v=v2" in fields else "v2beta1"
    return ""


def _response_kind(kind: ResourceType) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ResourceType) -> Json:
    entry: Json = {"name": kind.plural, "singularName": kind.named, "namespaced": kind.namespaced}
    entry |= {"kind": kind.kind, "verbs": list(VERBS)}
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _subresources(kind: ResourceType) -> Iterable[tuple[str, Json]]:
    own = {"singularName": "", "namespaced": kind.namespaced, "kind": kind.kind}
    if kind.has_status:
        yield "status", {**own, "verbs": ["get", "patch", "update"]}
    for name in kind.subresources:
        if name == "scale":
            yield name, {**own, **SCALE, "verbs": ["get", "patch", "update"]}
        elif name == "exec":
            yield name, {**own, "kind": "PodExecOptions", "verbs": ["create", "get"]}
        elif name == "eviction":
            yield name, {**own, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        elif name == "token":
            yield (
                name,
                {
                    **own,
                    "group": "authentication.k8s.io",
                    "version": "v1",
                    "kind": "TokenRequest",
                    "verbs": ["create"],
                },
            )
        elif name == "binding":
            yield name, {**own, "kind": "Binding", "verbs": ["create"]}
        else:
            yield name, {**own, "verbs": ["get"]}
