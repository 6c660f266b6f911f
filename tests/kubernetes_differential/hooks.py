"""A webhook server for cases: its answers follow from the path, so that both servers get the same ones.

`{{hooks}}` in a case is its address, `{{bundle}}` the authority of its certificate.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
from aiohttp import web

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import pki

STATUS: Json = {"message": "no such thing", "code": 418, "reason": "Teapot"}
ANSWERS: dict[str, Json] = {
    "/deny": {"allowed": False},
    "/deny-reason": {"allowed": False, "status": {"reason": "Tuesday"}},
    "/deny-status": {"allowed": False, "status": STATUS, "warnings": ["first", "second"]},
    "/deny-success": {"allowed": False, "status": {"status": "Success", "code": 200, "message": "fine"}},
    "/warn": {"allowed": True, "warnings": ["careful", 'with "quotes"']},
    "/uid": {"allowed": True, "uid": "another"},
    "/patch-alone": {"allowed": True, "patch": "W10="},
    "/type-alone": {"allowed": True, "patchType": "JSONPatch"},
    "/other-type": {"allowed": True, "patch": "W10=", "patchType": "Merge"},
}
RAW: dict[str, tuple[int, str]] = {
    "/500": (500, "broken"),
    "/404": (404, "nothing here"),
    "/400": (400, "what?"),
    "/503": (503, "busy"),
    "/garbage": (200, "<html>"),
    "/empty": (200, "{}"),
    "/no-response": (200, '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'),
    "/other-kind": (200, '{"apiVersion": "v1", "kind": "Pod", "response": {"allowed": true}}'),
}
PATCHES: dict[str, list[Json]] = {
    "/label": [{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}],
    "/data": [{"op": "add", "path": "/data/hooked", "value": "yes"}],
    "/missing": [{"op": "replace", "path": "/nothing/here", "value": 1}],
    "/unknown": [{"op": "add", "path": "/nothing", "value": 1}],
    "/wrong-type": [{"op": "add", "path": "/data", "value": 5}],
    "/status": [{"op": "add", "path": "/metadata/uid", "value": "mine"}],
    "/container": [{"op": "add", "path": "/spec/containers/-", "value": {"name": "b", "image": "localhost/none:1"}}],
    "/none": [],
}  # fmt: skip


def _response(path: str, request: Json) -> Json:
    if path in PATCHES:
        return patch(*PATCHES[path])
    if path == "/seen":  # how often a webhook has seen the object
        count = int((request["object"]["metadata"].get("annotations") or {}).get("seen", 0)) + 1
        return patch({"op": "add", "path": "/metadata/annotations", "value": {"seen": str(count)}})
    if path == "/show":
        shown = {key: value for key, value in request.items() if key not in ("uid", "userInfo")}
        for obj in (shown["object"], shown["oldObject"]):
            # Kept for every object there, and here from the first apply on.
            ((obj or {}).get("metadata") or {}).pop("managedFields", None)
        return {
            "allowed": False,
            "status": {"message": orjson.dumps(shown, option=orjson.OPT_SORT_KEYS).decode()},
        }
    return ANSWERS.get(path, {"allowed": True})


def patch(*operations: Json) -> Json:
    encoded = base64.b64encode(orjson.dumps(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    review = orjson.loads(await request.read())
    if request.path == "/hang":
        await asyncio.Event().wait()  # ends with its caller
    if request.path in RAW:
        status, text = RAW[request.path]
        return web.Response(status=status, text=text, content_type="application/json")
    response = {"uid": review["request"]["uid"], **_response(request.path, review["request"])}
    return web.json_response(
        {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
    )


@asynccontextmanager
async def hook_server() -> AsyncIterator[dict[str, str]]:
    """Yields what stands for the places of cases."""
    with tempfile.TemporaryDirectory(prefix="steelyard-hooks-") as name:
        folder = Path(name)
        context: ssl.SSLContext = pki.server_context(folder, "127.0.0.1", datetime.now(UTC))
        site = web.Server(_answer, access_log=None, handler_cancellation=True)
        listener = await asyncio.get_running_loop().create_server(site, "127.0.0.1", 0, ssl=context)
        try:
            port = listener.sockets[0].getsockname()[1]
            bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
            yield {"hooks": f"https://127.0.0.1:{port}", "bundle": bundle}
        finally:
            listener.close()
            await site.shutdown(timeout=1)
