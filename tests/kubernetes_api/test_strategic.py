"""Strategic merge patch of built-in kinds: lists merge by their keys, directives delete, replace, keep and order."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.strategic import strategic_merge
from steelyard_local_kubernetes.apiserver.schema import Node
from tests.kubernetes_api.api import Answer, Api, config_map, pod

STRATEGIC = "application/strategic-merge-patch+json"


async def patched(api: Api, path: str, patch: Json) -> Answer:
    return await api.request("PATCH", path, patch, type=STRATEGIC)


def env(*names: str, **more: str) -> list[Json]:
    return [{"name": name, "value": more.get(name, name)} for name in names]


def deployment(**container: Any) -> Json:
    main = {"name": "main", "image": "localhost/none:1", **container}
    other = {"name": "other", "image": "localhost/none:1"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [main, other]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": "d"}, "spec": spec}


def of_main(**container: Any) -> Json:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


# Of each: the first container's fields, a patch, and the variables of that container then.
CASES: list[tuple[str, Json, Json, list[Json]]] = [
    ("others stay", {"env": env("A", "B")}, of_main(image="localhost/new"), env("A", "B")),
    (
        "one is changed",
        {"env": env("A", "B")},
        of_main(env=[{"name": "B", "value": "2"}]),
        env("A", "B", B="2"),
    ),
    ("one is added", {"env": env("A")}, of_main(env=env("B")), env("B", "A")),
    ("one is deleted", {"env": env("A", "B")}, of_main(env=[{"name": "A", "$patch": "delete"}]), env("B")),
    ("all are replaced", {"env": env("A", "B")}, of_main(env=[*env("C"), {"$patch": "replace"}]), env("C")),
    (
        "they are put in order",
        {"env": env("A", "B", "C")},
        of_main(**{"env": env("D"), "$setElementOrder/env": [{"name": "C"}, {"name": "D"}, {"name": "A"}]}),
        env("B", "C", "D", "A"),
    ),
    ("the list is removed", {"env": env("A")}, of_main(env=None), []),
]


@pytest.mark.parametrize(
    ("container", "patch", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_lists_merge_by_their_keys(
    api: Api, namespace: str, container: Json, patch: Json, wanted: list[Json]
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, deployment(**container))).ok(201)
    containers = (
        (await patched(api, f"{path}/d", patch)).ok(200).json["spec"]["template"]["spec"]["containers"]
    )
    assert [container["name"] for container in containers] == ["main", "other"]
    assert containers[0].get("env", []) == wanted
    await api.delete(f"{path}/d")


async def test_maps_merge_and_null_removes(api: Api, core: str) -> None:
    (await api.post(f"{core}/configmaps", config_map("c", {"a": "1", "b": "2"}, labels={"x": "y"}))).ok(201)
    patch: Json = {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"z": "w"}}}
    stored = (await patched(api, f"{core}/configmaps/c", patch)).ok(200).json
    assert (stored["data"], stored["metadata"]["labels"]) == ({"b": "2", "c": "3"}, {"x": "y", "z": "w"})
    replaced = (await patched(api, f"{core}/configmaps/c", {"data": {"$patch": "replace", "d": "4"}})).ok(200)
    assert replaced.json["data"] == {"d": "4"}


async def test_values_of_a_set_are_added_and_removed(api: Api, core: str) -> None:
    (await api.post(f"{core}/configmaps", config_map("c", finalizers=["example.dev/a", "example.dev/b"]))).ok(
        201
    )
    path = f"{core}/configmaps/c"
    added = (await patched(api, path, {"metadata": {"finalizers": ["example.dev/c"]}})).ok(200).json
    assert sorted(added["metadata"]["finalizers"]) == ["example.dev/a", "example.dev/b", "example.dev/c"]
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.dev/a", "example.dev/c"]}}
    assert (await patched(api, path, gone)).ok(200).json["metadata"]["finalizers"] == ["example.dev/b"]
    (await patched(api, path, {"metadata": {"finalizers": None}})).ok(200)


async def test_a_controller_adopts_and_releases_by_uid(api: Api, core: str) -> None:
    """Adopt and release as the controllers written in Go do."""
    owner = (await api.post(f"{core}/configmaps", config_map("owner"))).ok(201).json["metadata"]["uid"]
    made = (await api.post(f"{core}/pods", pod("p"))).ok(201).json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "controller": True}
    adopt = {"metadata": {"ownerReferences": [reference], "uid": made["uid"]}}
    adopted = (await patched(api, f"{core}/pods/p", adopt)).ok(200).json["metadata"]
    assert adopted["ownerReferences"] == [reference]
    other = {"metadata": {"ownerReferences": [], "uid": "00000000-0000-0000-0000-000000000000"}}
    assert (await patched(api, f"{core}/pods/p", other)).status in (409, 422)
    gone = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}], "uid": made["uid"]}}
    assert "ownerReferences" not in (await patched(api, f"{core}/pods/p", gone)).ok(200).json["metadata"]


async def test_conditions_merge_by_their_type(api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("p"))).ok(201)
    path = f"{core}/pods/p/status"
    for kind, status in (("A", "True"), ("B", "True"), ("A", "False")):
        body = {"status": {"conditions": [{"type": kind, "status": status}]}}
        stored = (await patched(api, path, body)).ok(200).json
    assert {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]} == {
        "A": "False",
        "B": "True",
    }


async def test_fields_that_exclude_each_other_are_kept_or_not(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, deployment())).ok(201)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert (await patched(api, f"{path}/d", patch)).ok(200).json["spec"]["strategy"] == {"type": "Recreate"}
    await api.delete(f"{path}/d")


async def test_an_item_without_its_key_is_refused(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, deployment(env=env("A")))).ok(201)
    assert (await patched(api, f"{path}/d", of_main(env=[{"value": "x"}]))).status >= 400
    await api.delete(f"{path}/d")


class CountingList(list[Json]):
    """A list that counts how often one of its elements is looked up."""

    lookups = 0

    def __getitem__(self, at: Any) -> Any:
        self.lookups += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("key", ["name", "containerPort"])
def test_elements_of_one_key_are_not_compared_with_each_other(key: str) -> None:
    node = Node(properties={"items": Node(merge_key=key)})
    elements = CountingList([{key: "a", "value": str(number)} for number in range(60)])
    merged = strategic_merge(node, {"items": [{key: "a"}]}, {"items": elements})
    assert {item["value"] for item in merged["items"]} == {"59"}
    # Ports of one number differ by protocols: up to a bound, each is compared with the others.
    assert elements.lookups <= (60 * 60 if key == "containerPort" else 60)


async def test_custom_kinds_have_no_such_patch(api: Api, widgets: str) -> None:
    assert (await patched(api, f"{widgets}/w", {})).status == 415


DNS: list[Json] = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]


# Of each: the ports before, those of a patch, and those after it.
PORTS: dict[str, tuple[list[Json] | None, list[Json], list[Json]]] = {
    "an absent list": (None, DNS, DNS),
    "the only one": (DNS[:1], [{"containerPort": 53, "name": "u"}], [{**DNS[0], "name": "u"}]),
    "another protocol": (DNS[:1], [DNS[1]], DNS[1:]),
}
# A real server changes the first of the number, whatever its protocol, and deletes all.
PORTS_OF_TWO_PROTOCOLS: dict[str, tuple[list[Json] | None, list[Json], list[Json]]] = {
    "one protocol": (
        DNS,
        [{"containerPort": 53, "protocol": "TCP", "name": "t"}],
        [DNS[0], {**DNS[1], "name": "t"}],
    ),
    "none is TCP": (DNS, [{"containerPort": 53, "name": "t"}], [DNS[0], {**DNS[1], "name": "t"}]),
    "one goes": (DNS, [{"containerPort": 53, "protocol": "UDP", "$patch": "delete"}], DNS[1:]),
}


@pytest.mark.parametrize(("before", "patch", "after"), PORTS.values(), ids=PORTS)
async def test_ports_are_patched(
    api: Api, namespace: str, before: list[Json] | None, patch: list[Json], after: list[Json]
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, deployment(**({"ports": before} if before else {})))).ok(201)
    answer = (await patched(api, f"{path}/d", of_main(ports=patch))).ok().json
    containers = answer["spec"]["template"]["spec"]["containers"]
    ports = next(container for container in containers if container["name"] == "main")["ports"]
    assert sorted(ports, key=str) == sorted(after, key=str)


@pytest.mark.parametrize(
    ("before", "patch", "after"), PORTS_OF_TWO_PROTOCOLS.values(), ids=PORTS_OF_TWO_PROTOCOLS
)
@pytest.mark.usefixtures("embedded")
async def test_ports_of_one_number_differ_by_their_protocol(
    api: Api, namespace: str, before: list[Json], patch: list[Json], after: list[Json]
) -> None:
    await test_ports_are_patched(api, namespace, before, patch, after)
