"""One call links what a reader needs to check a report or an audit; what is left out is said, with the reason."""

import contextlib
import hashlib
import json

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant
from tests.platform_api.test_audits import audit, complete, procedure, report
from tests.platform_api.test_collection import a_service

RECORDS = (
    ".steelyard/manifest.json",
    ".steelyard/run.json",
    ".steelyard/errors/errors-0000-e-000000.parquet",
)
NO_EVIDENCE = (".steelyard/parts/part-0000-e-000000.parquet", ".steelyard/progress.json", ".dyff/logs.txt")
MANIFEST = b'{"files": [{"path": "part-00000.parquet"}]}'


async def stored(platform: MemoryPlatform, place: str, *names: str) -> None:
    for name in names:
        content = MANIFEST if name == RECORDS[0] else b"x"
        await platform.engines.store.put(f"{place}/{name}", content)


async def a_report(platform: MemoryPlatform) -> Json:
    """A complete report; its dataset, its evaluation and itself have files."""
    data, served = await platform.created("datasets", **dataset()), await a_service(platform)
    await stored(platform, f"datasets/{data['id']}", "part-0.parquet")
    await platform.says("Dataset", data["id"], "Ready", source="api")
    evaluation = await complete(platform, data["id"], served)
    await stored(platform, f"evaluations/{evaluation['id']}", "part-00000.parquet", *RECORDS, *NO_EVIDENCE)
    made = await report(platform, evaluation, "one")
    await stored(platform, f"reports/{made['id']}", "report.html", "report.json", ".steelyard/progress.json")
    return made


def paths(answer: Json) -> list[str]:
    return sorted(file["artifact"]["path"] for file in answer["files"])


OF_A_REPORT = sorted(
    ["report.html", "report.json", "inputs/part-0.parquet", "outputs/part-00000.parquet"]
    + [f"outputs/{name}" for name in RECORDS]
)


async def test_a_report_comes_with_all_that_it_was_made_from(platform: MemoryPlatform) -> None:
    made = await a_report(platform)
    answer = (await platform.admin.get(f"/reports/{made['id']}/evidence")).json()
    assert paths(answer) == OF_A_REPORT
    assert answer["notIncluded"] == []
    async with platform.client(None) as anybody:
        for file in answer["files"]:
            content = (await anybody.get(file["signedURL"]["url"])).content
            wanted = MANIFEST if file["artifact"]["path"].endswith("manifest.json") else b"x"
            assert content == wanted, file["artifact"]["path"]


async def test_what_the_caller_may_not_have_is_left_out_with_the_reason(platform: MemoryPlatform) -> None:
    made = await a_report(platform)
    reader = await platform.holder(
        grant("reports", ["data"], ["*"]),
        grant("evaluations", ["data"], ["*"]),
        grant("datasets", ["get"], ["*"]),
    )
    answer = (await reader.get(f"/reports/{made['id']}/evidence")).json()
    assert paths(answer) == [path for path in OF_A_REPORT if not path.startswith("inputs/")]
    reason = f"the token lacks datasets/data for Dataset {made['dataset']}"
    assert answer["notIncluded"] == [{"path": "inputs/", "reason": reason}]
    stranger = await platform.holder(grant("reports", ["get"], ["*"]))
    assert (await stranger.get(f"/reports/{made['id']}/evidence")).status_code == 403


async def test_an_audit_comes_with_its_reports_and_the_earlier_audit(platform: MemoryPlatform) -> None:
    made = await a_report(platform)
    served = {"id": made["inferenceService"]}
    requested = await procedure(platform, (made["dataset"], "one"))
    earlier = await audit(platform, requested, served)
    await stored(platform, f"audits/{earlier['id']}", "index.html", "audit.json", "scores/a.parquet")
    await platform.says("Audit", earlier["id"], "Complete")
    later = await audit(platform, requested, served, baseline=earlier["id"])
    await stored(platform, f"audits/{later['id']}", "index.html", "audit.json")
    early = await platform.admin.get(f"/audits/{later['id']}/evidence")
    assert (early.status_code, early.json()["detail"]) == (
        409,
        f"status: Audit {later['id']} is Created: its files are not final before it is Complete",
    )
    await platform.says("Audit", later["id"], "Complete")
    answer = (await platform.admin.get(f"/audits/{later['id']}/evidence")).json()
    assert paths(answer) == sorted(
        [
            "index.html",
            "audit.json",
            *(f"baseline/{name}" for name in ("index.html", "audit.json", "scores/a.parquet")),
            *(f"reports/{made['id']}/{name}" for name in ("report.html", "report.json")),
            f"datasets/{made['dataset']}/part-0.parquet",
            *(f"evaluations/{made['evaluation']}/{name}" for name in ("part-00000.parquet", *RECORDS)),
        ]
    )


PLACES = {
    "a report": ("reports", ".steelyard/published/0001-a.json", "report.html"),
    "a dataset": ("datasets", ".steelyard/manifest.json", "part-0.parquet"),
    "an evaluation": ("evaluations", ".steelyard/manifest.json", "part-00000.parquet"),
}


@pytest.mark.parametrize("kind", PLACES)
async def test_a_file_that_was_changed_in_storage_is_not_delivered(
    kind: str, platform: MemoryPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await a_report(platform)
    resource, manifest, path = PLACES[kind]
    ids = {"reports": made["id"], "datasets": made["dataset"], "evaluations": made["evaluation"]}
    folder, store = f"{resource}/{ids[resource]}", platform.engines.store
    content = bytes(range(256)) * 40
    files = [{"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}]
    await store.put(f"{folder}/{manifest}", json.dumps({"files": files}).encode())
    await store.put(f"{folder}/{path}", content)
    (link,) = [
        file["signedURL"]["url"]
        for file in (await platform.admin.get(f"/{folder}/downlinks")).json()
        if file["artifact"]["path"] == path
    ]
    async with platform.client(None) as anybody:
        assert (await anybody.get(link)).content == content
        await store.put(f"{folder}/{path}", content[:-1] + b"\x00")
        part = await anybody.get(link, headers={"Range": "bytes=0-9"})
        assert (part.status_code, part.json()["reason"]) == (409, "DigestMismatch")
        answer = await anybody.get(link)
        assert (answer.status_code, answer.json()["reason"]) == (409, "DigestMismatch")
        assert f"{folder}/{path} is not what was kept" in answer.json()["detail"]
        # Of a large file, which is read only once, the end is missing.
        monkeypatch.setattr("steelyard.api.datasets.delivery.READ_BEFORE", 100)
        with contextlib.suppress(Exception):
            assert len((await anybody.get(link)).content) < len(content)
