"""Lists: pages, selectors, versions."""

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, config_map

ROOT_CA = "metadata.name!=kube-root-ca.crt"  # which a real server puts into every namespace


@pytest.fixture
async def seven(api: Api, core: str) -> str:
    for index in range(7):
        labels = {"parity": "even" if index % 2 == 0 else "odd"}
        (await api.post(f"{core}/configmaps", config_map(f"m{index}", labels=labels))).ok(201)
    return f"{core}/configmaps?fieldSelector={ROOT_CA.replace('!', '%21').replace('=', '%3D')}"


def names(content: Json) -> list[str]:
    return [item["metadata"]["name"] for item in content["items"]]


async def test_pages_make_the_whole(api: Api, core: str, seven: str) -> None:
    listed: list[str] = []
    query, remaining = "&limit=3", []
    token = ""
    while True:
        page = (await api.get(f"{core}/configmaps?labelSelector=parity{query}{token}")).ok(200).json
        listed += names(page)
        if "remainingItemCount" in page["metadata"]:
            remaining.append(page["metadata"]["remainingItemCount"])
        if not page["metadata"].get("continue"):
            break
        token = f"&continue={page['metadata']['continue']}"
    assert listed == [f"m{index}" for index in range(7)]


async def test_a_page_says_how_many_are_left(api: Api, core: str, seven: str) -> None:
    page = (await api.get(f"{core}/configmaps?limit=3")).ok(200).json
    assert page["metadata"]["remainingItemCount"] >= 4
    assert page["metadata"]["continue"]


async def test_later_pages_show_the_moment_of_the_first(api: Api, core: str, seven: str) -> None:
    page = (await api.get(f"{core}/configmaps?limit=3&labelSelector=parity")).ok(200).json
    for name in ("m2", "m3"):
        (await api.delete(f"{core}/configmaps/{name}")).ok(200)
    (await api.post(f"{core}/configmaps", config_map("m33", labels={"parity": "odd"}))).ok(201)
    (await api.merge(f"{core}/configmaps/m5", {"metadata": {"labels": {"parity": None}}})).ok(200)
    path = f"{core}/configmaps?limit=9&labelSelector=parity&continue={page['metadata']['continue']}"
    rest = names((await api.get(path)).ok(200).json)
    assert (names(page), rest) == (["m0", "m1", "m2"], ["m3", "m4", "m5", "m6"])


async def test_how_many_are_left_of_a_selection_is_not_said(api: Api, core: str, seven: str) -> None:
    page = (await api.get(f"{core}/configmaps?limit=3&labelSelector=parity")).ok(200).json
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


async def test_an_exact_version_is_that_moment(api: Api, core: str, seven: str) -> None:
    before = (await api.get(f"{core}/configmaps?labelSelector=parity")).ok(200)
    (await api.delete(f"{core}/configmaps/m0")).ok(200)
    exact = (
        f"{core}/configmaps?labelSelector=parity&resourceVersionMatch=Exact&resourceVersion={before.version}"
    )
    answer = (await api.get(exact)).ok(200)
    assert (names(answer.json), answer.version) == (names(before.json), before.version)


async def test_every_page_has_the_version_of_the_first(api: Api, core: str, seven: str) -> None:
    """A watch from the version of a list misses nothing that happened between two of its pages."""
    first = (await api.get(f"{core}/configmaps?limit=3&labelSelector=parity")).ok(200).json
    (await api.delete(f"{core}/configmaps/m0")).ok(200)
    path = f"{core}/configmaps?limit=9&labelSelector=parity&continue={first['metadata']['continue']}"
    rest = (await api.get(path)).ok(200).json
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_selectors_choose(api: Api, core: str, seven: str) -> None:
    even = (await api.get(f"{core}/configmaps?labelSelector=parity%3Deven")).ok(200).json
    assert names(even) == ["m0", "m2", "m4", "m6"]
    one = (await api.get(f"{core}/configmaps?fieldSelector=metadata.name%3Dm3")).ok(200).json
    assert names(one) == ["m3"]
    both = f"{core}/configmaps?labelSelector=parity+notin+(even),parity&fieldSelector=metadata.name%21%3Dm5"
    assert names((await api.get(both)).ok(200).json) == ["m1", "m3"]


async def test_events_are_found_by_their_object(api: Api, core: str, namespace: str) -> None:
    for index in range(3):
        about = {"kind": "Pod", "name": f"p{index % 2}", "namespace": namespace, "apiVersion": "v1"}
        body = {"metadata": {"name": f"e{index}"}, "involvedObject": about, "reason": "R", "type": "Normal"}
        (await api.post(f"{core}/events", body)).ok(201)
    path = f"{core}/events?fieldSelector=involvedObject.kind%3DPod,involvedObject.name%3Dp0"
    assert names((await api.get(path)).ok(200).json) == ["e0", "e2"]
    newer = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/e1")).ok(200).json
    assert newer["regarding"]["name"] == "p1"
    assert newer["apiVersion"] == "events.k8s.io/v1"


async def test_versions_of_lists(api: Api, core: str, seven: str) -> None:
    listed = (await api.get(f"{core}/configmaps")).ok(200)
    assert (await api.get(f"{core}/configmaps?resourceVersion=0")).status == 200
    at_least = f"{core}/configmaps?resourceVersion={listed.version}&resourceVersionMatch=NotOlderThan"
    assert len((await api.get(at_least)).ok(200).json["items"]) >= 7
    future = await api.get(f"{core}/configmaps?resourceVersion={int(listed.version) + 10**9}")
    assert (future.status, future.json["reason"]) == (504, "Timeout")
    assert future.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_an_empty_list_has_its_kind_and_items(api: Api, core: str) -> None:
    content = (await api.get(f"{core}/services")).ok(200).json
    assert (content["kind"], content["apiVersion"], content["items"]) == ("ServiceList", "v1", [])


async def test_a_kind_is_listed_over_all_namespaces(api: Api, core: str, namespace: str, seven: str) -> None:
    everywhere = (await api.get("/api/v1/configmaps?labelSelector=parity")).ok(200).json
    own = [item for item in everywhere["items"] if item["metadata"]["namespace"] == namespace]
    assert len(own) == 7


async def test_metadata_alone(api: Api, core: str, seven: str) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    content = (await api.get(f"{core}/configmaps?labelSelector=parity", accept)).ok(200).json
    assert content["kind"] == "PartialObjectMetadataList"
    assert content["items"][0].keys() <= {"metadata", "kind", "apiVersion"}
