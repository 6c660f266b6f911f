"""The same workflow on kopf: `kopf run`, in its own environment, with only kopf and what that depends on.

A ConfigMap and a Job for the client; when that is Complete, the milestone, a ConfigMap and a Job for verification;
then the end. The objects come from TEMPLATES, made by our own builders, so both operators write the same bytes.
Calls go through one keep-alive session, the leanest way that a handler has.
"""

import asyncio
import json
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import kopf

TEMPLATES = json.loads(Path(os.environ["TEMPLATES"]).read_text())
API, TOKEN, CA = os.environ["API"], os.environ["TOKEN"], os.environ["CA"]
EVALUATIONS = "/apis/dyff.io/v1alpha1/namespaces/default/evaluations"
state: dict[str, aiohttp.ClientSession] = {}


@kopf.on.startup()
async def startup(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.peering.standalone = True
    context = ssl.create_default_context(cafile=CA)
    connector = aiohttp.TCPConnector(ssl=context, limit=100)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    state["session"] = aiohttp.ClientSession(API, connector=connector, headers=headers)


@kopf.on.login()
def login(**_: object) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=API, token=TOKEN, ca_path=CA)


@kopf.on.create("dyff.io", "v1alpha1", "evaluations")
async def begin(body: kopf.Body, name: str, uid: str, **_: object) -> None:
    if not body.status.get("status"):  # kopf calls again after an error, and the Job may have ended by then
        await set_status(name, status("ClientRunning", []))
    await make("client", name, uid)


@kopf.on.event("batch", "v1", "jobs", labels={"steelyard/owner-uid": kopf.PRESENT})
async def job(body: kopf.Body, labels: dict[str, str], **_: object) -> None:
    conditions = body.status.get("conditions", ())
    if not any(condition["type"] == "Complete" and condition["status"] == "True" for condition in conditions):
        return
    owner = body.metadata["ownerReferences"][0]
    if labels["app.kubernetes.io/component"] == "client":
        await set_status(owner["name"], status("Unverified", ["ClientSucceeded"]))
        await make("verify", owner["name"], owner["uid"])
    else:
        await set_status(owner["name"], status("Verified", ["ClientSucceeded"], done=True))


async def make(step: str, name: str, uid: str) -> None:
    for path, template in TEMPLATES[step]:
        text = template.replace("NAME-OF-IT", name).replace("UID-OF-IT", uid)
        headers = {"Content-Type": "application/json"}
        async with state["session"].post(path, data=text.encode(), headers=headers) as answer:
            if answer.status not in (201, 409):
                raise kopf.TemporaryError(f"{path}: {answer.status}", delay=1)


async def set_status(name: str, wanted: dict[str, object]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    data = json.dumps({"status": wanted})
    url = f"{EVALUATIONS}/{name}/status"
    async with state["session"].patch(url, data=data, headers=headers) as answer:
        await asyncio.shield(answer.read())


def status(reason: str, milestones: list[str], done: bool = False) -> dict[str, object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    holds = {"Complete", "Finished"} if done else {"Progressing"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind in holds else "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": now,
            "observedGeneration": 1,
        }
        for kind in ("Progressing", "Failed", "Finished", "Complete")
    ]
    word = "Complete" if done else "Admitted"
    return {"status": word, "reason": reason, "milestones": milestones, "conditions": conditions}
