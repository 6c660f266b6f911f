"""Answers of a real server to the sequences of `apply_cases.py` and `apply_random.py`.

`python -m tests.kubernetes_api.apply_answers`, with KUBECONFIG_REAL, asks a real server and writes its answers again.
"""

import asyncio
import gzip
import os
import sys
import uuid
from pathlib import Path

import orjson

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, definition
from tests.kubernetes_api.apply_cases import APPLY, CASES, SCHEMA, Step, widget
from tests.kubernetes_api.apply_random import random_steps
from tests.kubernetes_api.conftest import CRDS

ANSWERS = Path(__file__).with_name("apply_answers.json.gz")
SEEDS = range(12)


async def answers(api: Api, steps: list[Step]) -> list[Json]:
    """Answers of the server to each request, without what differs from run to run."""
    namespace = f"apply-{uuid.uuid4().hex[:8]}"
    group = f"{namespace}.example.dev"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
    custom = any(step.path.startswith("WIDGETS") for step in steps)
    paths = {
        "CORE": f"/api/v1/namespaces/{namespace}",
        "APPS": f"/apis/apps/v1/namespaces/{namespace}",
        "BATCH": f"/apis/batch/v1/namespaces/{namespace}",
        "WIDGETS": f"/apis/{group}/v1/namespaces/{namespace}/widgets",
    }
    if custom:
        await _define(api, group, paths["WIDGETS"])
    given = [await _answer(api, step, paths, namespace) for step in steps]
    await api.delete(f"/api/v1/namespaces/{namespace}")
    if custom:
        await api.delete(f"{CRDS}/widgets.{group}")
    return given


async def _define(api: Api, group: str, path: str) -> None:
    (await api.post(CRDS, definition(group, SCHEMA))).ok()

    async def served() -> bool:
        # An apply of it works a little later than a list on a real server.
        probe = widget() | {"apiVersion": f"{group}/v1"}
        sent = await api.request("PATCH", f"{path}/w?fieldManager=x&dryRun=All", probe, type=APPLY)
        return sent.status == 201

    await api.eventually(served, "the new kind served")


async def _answer(api: Api, step: Step, paths: dict[str, str], namespace: str) -> Json:
    root = step.path.partition("/")[0].partition("?")[0]
    path = paths[root] + step.path.removeprefix(root)
    body = step.body
    if not isinstance(body, bytes) and body is not None:
        text = orjson.dumps(body).replace(b"NAMESPACE", namespace.encode())
        body = orjson.loads(text.replace(b"GROUP", f"{namespace}.example.dev".encode()))
        if step.method == "PUT" and root == "WIDGETS":
            # Custom objects are replaced in the version that was read only.
            stored = (await api.get(path.partition("?")[0])).json
            body["metadata"]["resourceVersion"] = stored["metadata"].get("resourceVersion")
    answer = await api.request(step.method, path, body, type=step.type)
    digest = orjson.dumps(_digest(answer.status, answer.json, answer.warnings))
    result: Json = orjson.loads(digest.replace(namespace.encode(), b"NAMESPACE"))
    return result


def _digest(status: int, content: Json, warnings: list[str]) -> Json:
    kind, metadata = content["kind"], content["metadata"]
    if kind == "Status":
        causes = (content.get("details") or {}).get("causes") or []
        # Go's maps have no order, and neither have conflicts of several managers.
        shown = sorted([cause.get("field", ""), cause["message"]] for cause in causes)
        # The message of several repeats them.
        return {"status": status, "message": content["message"] if len(shown) < 2 else "", "causes": shown}
    digest: Json = {"status": status, "managers": _managers(metadata)}
    digest |= {name: content[name] for name in ("data", "spec") if name in content}
    if kind in ("Service", "Job"):
        for name in ("clusterIP", "clusterIPs", "selector", "template"):
            digest["spec"].pop(name, None)
    if kind == "Widget" and "status" in content:
        digest["status of it"] = content["status"]
    if kind != "Job":
        digest |= {name: metadata[name] for name in ("labels", "finalizers") if name in metadata}
    return digest | ({"warnings": warnings} if kind == "ConfigMap" and warnings else {})


def _managers(metadata: Json) -> Json:
    """Fields by manager; the real one's controllers write statuses meanwhile."""
    return {
        " ".join([entry["manager"], entry["operation"], entry.get("subresource", "")]): [
            entry["apiVersion"],
            "time" in entry,
            entry["fieldsV1"],
        ]
        for entry in metadata.get("managedFields") or ()
        if entry["manager"] != "kube-controller-manager"
    }


def sequences() -> dict[str, list[Step]]:
    return CASES | {f"random sequence {seed}": random_steps(seed) for seed in SEEDS}


def recorded() -> dict[str, list[Json]]:
    content: dict[str, list[Json]] = orjson.loads(gzip.decompress(ANSWERS.read_bytes()))
    return content


async def _record() -> None:
    api = Api(Path(os.environ["KUBECONFIG_REAL"]))
    try:
        content = {name: await answers(api, steps) for name, steps in sequences().items()}
    finally:
        await api.close()
    ANSWERS.write_bytes(gzip.compress(orjson.dumps(content), 9, mtime=0))
    print(f"{sum(map(len, content.values()))} answers, {ANSWERS.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(asyncio.run(_record()))
