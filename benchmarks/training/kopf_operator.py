"""The same jobs on kopf: `kopf run`, in its own environment, with only kopf and what that depends on.

Per replica a Pod and a Service; the job is Running when all Pods run, and Succeeded with its master. Neither failures,
restarts, limits, deadlines nor gangs are looked at, and no events are written (ours are, as far as the API takes them).
The objects come from TEMPLATES, made by our own builders, so both operators write the same bytes. Calls go through one
keep-alive session, as many at once as ours.
"""

import asyncio
import json
import os
import ssl
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import kopf

TEMPLATES = json.loads(Path(os.environ["TEMPLATES"]).read_text())
API, TOKEN, CA = os.environ["API"], os.environ["TOKEN"], os.environ["CA"]
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
JOB_NAME = "training.kubeflow.org/job-name"
IN_FLIGHT = 32
state: dict[str, aiohttp.ClientSession] = {}
phases: dict[str, dict[str, str]] = defaultdict(dict)
replicas: dict[str, int] = {}
stages: dict[str, str] = {}


@kopf.on.startup()
async def startup(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.peering.standalone = True
    settings.posting.enabled = False
    context = ssl.create_default_context(cafile=CA)
    connector = aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    state["session"] = aiohttp.ClientSession(API, connector=connector, headers=headers)


@kopf.on.login()
def login(**_: object) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=API, token=TOKEN, ca_path=CA)


@kopf.on.event("kubeflow.org", "v1", "pytorchjobs")
async def seen(name: str, body: kopf.Body, **_: object) -> None:
    """Skip a write of what the status has already, after a restart."""
    specs = body.spec["pytorchReplicaSpecs"].values()
    replicas[name] = sum(spec["replicas"] for spec in specs)
    conditions = body.status.get("conditions", ())
    if conditions:
        stages.setdefault(name, conditions[-1]["type"])


@kopf.on.create("kubeflow.org", "v1", "pytorchjobs")
async def begin(name: str, uid: str, body: kopf.Body, **_: object) -> None:
    await set_stage(name, "Created")
    count = sum(spec["replicas"] for spec in body.spec["pytorchReplicaSpecs"].values())
    await asyncio.gather(*(make(path, text, name, uid) for path, text in TEMPLATES[str(count)]))


@kopf.on.event("", "v1", "pods", labels={JOB_NAME: kopf.PRESENT})
async def pod(name: str, body: kopf.Body, labels: dict[str, str], **_: object) -> None:
    job = labels[JOB_NAME]
    known = phases[job]
    known[name] = body.status.get("phase", "Pending")
    if known.get(f"{job}-master-0") == "Succeeded":
        await set_stage(job, "Succeeded")
    elif len(known) == replicas.get(job) and set(known.values()) == {"Running"}:
        await set_stage(job, "Running")


async def make(path: str, template: str, name: str, uid: str) -> None:
    text = template.replace("NAME-OF-IT", name).replace("UID-OF-IT", uid)
    headers = {"Content-Type": "application/json"}
    async with state["session"].post(path, data=text.encode(), headers=headers) as answer:
        if answer.status not in (201, 409):
            raise kopf.TemporaryError(f"{path}: {answer.status}", delay=1)


async def set_stage(name: str, stage: str) -> None:
    order = ("Created", "Running", "Succeeded")
    if name in stages and order.index(stages[name]) >= order.index(stage):
        return
    stages[name] = stage
    headers = {"Content-Type": "application/merge-patch+json"}
    data = json.dumps({"status": status(name, stage)})
    async with state["session"].patch(f"{JOBS}/{name}/status", data=data, headers=headers) as answer:
        await asyncio.shield(answer.read())


def status(name: str, stage: str) -> dict[str, object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stages_so_far = ("Created", "Running", "Succeeded")
    reached = stages_so_far[: stages_so_far.index(stage) + 1]
    conditions = [
        {
            "type": type,
            "status": "False" if type == "Running" and stage == "Succeeded" else "True",
            "reason": f"PyTorchJob{type}",
            "message": f"PyTorchJob {name}: {type}",
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        for type in reached
    ]
    counts = (
        {"active": replicas.get(name, 0)} if stage != "Succeeded" else {"succeeded": replicas.get(name, 0)}
    )
    return {"conditions": conditions, "replicaStatuses": {"Worker": counts}, "startTime": now}
