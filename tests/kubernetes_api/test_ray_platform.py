"""The platform's side of Ray clusters on a server: webhooks, certificates, the login, deaths between any two calls."""

import asyncio
import signal
import ssl
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from yarl import URL

from deploy.rights import RIGHTS
from steelyard.clusters import AsyncClient
from steelyard.operator.ray.certificates.authorities import new_key, request_for
from steelyard.operator.ray.certificates.fetch import Refused, fetch
from steelyard.operator.ray.certificates.templates import AUDIENCE, CONTAINER
from steelyard.operator.ray.owned import DASHBOARD
from steelyard.operator.ray.run import Surroundings, run_ray
from steelyard.operator.ray.serving.server import ServedAddresses, serving
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.client import RestCluster
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_schema.ray_annotations import ANSWER, CERTIFICATES, REQUEST
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS, established
from tests.kubernetes_api.ray_operator import settings_of
from tests.kubernetes_api.test_ray_policies import PATHS, cluster, create, group

HOOKS = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = [f"{HOOKS}/{kind}webhookconfigurations/steelyard-ray" for kind in ("validating", "mutating")]
DAY = timedelta(days=1)


@pytest.fixture
async def operators(api: Api) -> AsyncIterator[str]:
    """The namespace of the operators; the definitions of Ray's kinds; at the end no webhook is left."""
    definitions = [obj for obj in list_definitions() if obj["spec"]["names"]["kind"] in PATHS]
    for definition in definitions:
        (await api.post(CRDS, definition)).ok(201, 409)
        await established(api, definition["metadata"]["name"])
    name = f"o-{uuid.uuid4().hex[:12]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    yield name
    for path in CONFIGURATIONS:
        await api.delete(path)
    await api.delete(f"/api/v1/namespaces/{name}")
    for definition in definitions:
        path = f"{CRDS}/{definition['metadata']['name']}"
        await api.delete(path)
        await api.gone(path)  # a real server takes its time, and the next test would meet one that goes


@asynccontextmanager
async def operator(
    api: Api, client: RestCluster, settings: RaySettings, shift: timedelta = timedelta()
) -> AsyncIterator[ServedAddresses]:
    """An operator that serves, and whose webhooks are called once the block begins. `shift` is its clock's advance."""

    def now() -> datetime:
        return datetime.now(UTC) + shift

    async with serving(client, settings, now=now) as served:
        task = asyncio.create_task(run_ray(client, settings, None, Surroundings(served, now)))
        try:

            async def refuses() -> bool:
                answer = await create(api, "default", "RayCluster", cluster(group(replicas=9)))
                return answer.status == 422

            async def served_here() -> bool:
                answer = await api.get(CONFIGURATIONS[0])
                return answer.status == 200 and served.url in answer.raw.decode()

            await api.eventually(served_here, "the webhooks lead to this operator")
            await api.eventually(refuses, "the webhooks are called")
            yield served
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def make_cluster(api: Api, namespace: str, name: str = "demo") -> Json:
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": cluster(group()),
    }
    return (await api.post(f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters", body)).ok().json


async def test_webhooks_refuse_with_every_fault_and_add_certificates(
    api: Api, cluster: RestCluster, namespace: str, operators: str
) -> None:
    spec = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [group(replicas=9)]}
    async with operator(api, cluster, settings_of(operators)):
        answer = await create(api, namespace, "RayCluster", spec, name="1st")
        assert answer.status == 422, answer.raw
        assert "replicas: 9 must be between 0 (minReplicas) and 2 (maxReplicas)" in answer.message
        assert set(answer.causes()) == {
            "metadata.name",
            "spec.headGroupSpec.template.spec.containers",
            "spec.workerGroupSpecs[0].replicas",
        }
        wrapped = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "in"}, "spec": spec}
        answer = await create(api, namespace, "AppWrapper", {"components": [{"template": wrapped}]})
        assert "spec.components[0].template.spec.workerGroupSpecs[0].replicas" in answer.causes(), answer.raw
        answer = await create(api, namespace, "RayJob", {"rayClusterSpec": spec})
        assert "spec.entrypoint" in answer.causes(), answer.raw
        made = await make_cluster(api, namespace)
        assert made["metadata"]["annotations"][CERTIFICATES] == "v1"
        pod = made["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        assert pod["initContainers"][0]["name"] == CONTAINER
        path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
        # What controllers write, and what does not concern a specification, waits for no other.
    (await api.merge(path, {"metadata": {"labels": {"a": "b"}}})).ok()
    (await api.merge(f"{path}/status", {"status": {"state": "ready"}})).ok()
    answer = await api.merge(path, {"spec": {"suspend": True}})
    assert answer.status == 500, "fails closed for a specification while nobody serves"
    assert "failed calling webhook" in answer.message
    (await api.delete(path)).ok()


async def ray_pod(api: Api, namespace: str, made: Json, address: str, **metadata: Any) -> tuple[Json, str]:
    """Make a head's Pod with an address, as KubeRay and a node would; return it with a token of it."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": made["metadata"]["name"]}
    owner |= {"uid": made["metadata"]["uid"], "controller": True}
    labels = {"ray.io/cluster": made["metadata"]["name"], "ray.io/node-type": "head"}
    pod = {
        "metadata": {"generateName": "p-", "labels": labels, "ownerReferences": [owner], **metadata},
        "spec": {"containers": [{"name": "ray", "image": "ray"}]},
    }
    created = (await api.post(f"/api/v1/namespaces/{namespace}/pods", pod)).ok().json
    name = created["metadata"]["name"]
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Pending"}}
    if address:
        (await api.merge(f"/api/v1/namespaces/{namespace}/pods/{name}/status", status)).ok()
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": created["metadata"]["uid"]}
    return created, await token_of(api, namespace, [AUDIENCE], bound)


async def token_of(
    api: Api,
    namespace: str,
    audiences: list[str] | None = None,
    bound: Json | None = None,
    account: str = "default",
) -> str:
    spec: Json = {"expirationSeconds": 3600}
    spec |= {"audiences": audiences} if audiences else {}
    spec |= {"boundObjectRef": bound} if bound else {}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str((await api.post(path, body)).ok().json["status"]["token"])


async def fetched(api: Api, namespace: str, served: ServedAddresses, token: str, folder: Path) -> Path:
    """Run the program of a Pod's first container, with what it finds mounted."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/demo-steelyard-ca"

    async def there() -> bool:
        return (await api.get(path)).status == 200

    await api.eventually(there, "the authorities of the service")
    identity, files = folder / "identity", folder / "files"
    identity.mkdir(parents=True)
    files.mkdir()
    (identity / "ca.crt").write_text((await api.get(path)).json["data"]["ca.crt"])
    (identity / "token").write_text(token)
    await asyncio.to_thread(fetch, f"{served.url}/certificate", identity, files)
    return files


async def test_a_pod_gets_a_certificate_for_its_own_address(
    api: Api, cluster: RestCluster, namespace: str, operators: str, tmp_path: Path
) -> None:
    async with operator(api, cluster, settings_of(operators)) as served:
        made = await make_cluster(api, namespace)
        _, token = await ray_pod(api, namespace, made, "10.1.2.3")
        files = await fetched(api, namespace, served, token, tmp_path)
        certificate = x509.load_pem_x509_certificate((files / "tls.crt").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "10.1.2.3" in [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        assert f"demo-head-svc.{namespace}.svc" in names.get_values_for_type(x509.DNSName)
        context = ssl.create_default_context(cafile=str(files / "ca.crt"))
        context.load_cert_chain(files / "tls.crt", files / "tls.key")
        # No other caller gets one: another audience, no Pod, a Pod that says it is of another cluster.
        _, other = await ray_pod(api, namespace, made, "10.1.2.4", labels={"ray.io/cluster": "other"})
        tokens = {
            "is needed": await token_of(api, namespace),
            "not bound to a Pod": await token_of(api, namespace, [AUDIENCE]),
            "belongs to no RayCluster": other,
        }
        for number, (words, bad) in enumerate(tokens.items()):
            with pytest.raises(Refused, match=words):
                await fetched(api, namespace, served, bad, tmp_path / str(number))


async def test_certificates_are_rotated_while_clusters_and_callers_go_on(
    api: Api, cluster: RestCluster, namespace: str, operators: str, tmp_path: Path
) -> None:
    # The operator of the era before this one: what it has issued is still good.
    settings = settings_of(operators).model_copy(update={"certificate_days": 2})
    async with operator(api, cluster, settings, -2 * DAY) as served:
        made = await make_cluster(api, namespace)
        _, token = await ray_pod(api, namespace, made, "127.0.0.1")
        old = await fetched(api, namespace, served, token, tmp_path / "old")
        secret = (await api.get(f"/api/v1/namespaces/{namespace}/secrets/demo-ca-secret-steelyard")).ok().json
        bundle = (await api.get(CONFIGURATIONS[0])).json["webhooks"][0]["clientConfig"]["caBundle"]
    async with operator(api, cluster, settings) as served:
        _, token = await ray_pod(api, namespace, made, "127.0.0.1")

        async def rotated() -> bool:
            present = (await api.get(f"/api/v1/namespaces/{namespace}/secrets/demo-ca-secret-steelyard")).json
            return bool(present["data"] != secret["data"])

        await api.eventually(rotated, "the client's authority is a new one")
        # A Pod with the earlier authorities reaches the service, and Pods with earlier certificates accept its new one.
        identity = tmp_path / "old" / "identity"
        (identity / "token").write_text(token)
        new = tmp_path / "new"
        new.mkdir()
        await asyncio.to_thread(fetch, f"{served.url}/certificate", identity, new)
        after = (await api.get(CONFIGURATIONS[0])).json["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle != after
    issuers = {
        x509.load_pem_x509_certificate((files / "tls.crt").read_bytes()).issuer for files in (old, new)
    }
    assert len(issuers) == 2
    assert await speak(old, new) == await speak(new, old) == b"pong"


async def speak(server: Path, client: Path) -> bytes:
    """Return what a client gets from a server, both with the files of a Pod."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(b"pong")
        await writer.drain()
        writer.close()

    contexts = []
    for files, purpose in ((server, ssl.Purpose.CLIENT_AUTH), (client, ssl.Purpose.SERVER_AUTH)):
        context = ssl.create_default_context(purpose, cafile=str(files / "ca.crt"))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(files / "tls.crt", files / "tls.key")
        contexts.append(context)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=contexts[0]) as listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=contexts[1])
        writer.write(b"ping")
        received = await reader.read()
        writer.close()
        return received


async def test_who_may_change_a_cluster_gets_a_clients_certificate_by_an_annotation(
    api: Api, cluster: RestCluster, namespace: str, operators: str, kubeconfig: Path, tmp_path: Path
) -> None:
    async with (
        operator(api, cluster, settings_of(operators)) as served,
        AsyncClient(kubeconfig=kubeconfig, namespace=namespace) as client,
    ):
        made = await make_cluster(api, namespace)
        _, token = await ray_pod(api, namespace, made, "127.0.0.1")
        pod = await fetched(api, namespace, served, token, tmp_path / "pod")
        got = await client.ray.clusters.certificate("demo", folder=tmp_path)
        assert got.folder == tmp_path / namespace / "demo"
        assert {file.stat().st_mode & 0o777 for file in got.folder.iterdir()} == {0o600}
        assert await speak(pod, got.folder) == b"pong"
        with pytest.raises(ssl.SSLError):  # what it holds is good for no server
            await speak(got.folder, pod)
        left = (await client.ray.clusters.get("demo")).annotations
        assert not [name for name in left if "certificates.steelyard/" in name]
        path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
        key = new_key()
        (await api.merge(path, {"metadata": {"annotations": {REQUEST + "me": request_for(key, "me")}}})).ok()

        async def answered() -> bool:
            return ANSWER + "me" in (await api.get(path)).json["metadata"]["annotations"]

        await api.eventually(answered, "the certificate")
        answer = (await api.get(path)).json["metadata"]["annotations"][ANSWER + "me"]
        assert x509.load_pem_x509_certificate(answer.encode()).public_key() == key.public_key()
        (await api.merge(path, {"metadata": {"annotations": {REQUEST + "me": None}}})).ok()

        async def tidied() -> bool:
            return ANSWER + "me" not in (await api.get(path)).json["metadata"]["annotations"]

        await api.eventually(tidied, "the answer goes with its request")


@asynccontextmanager
async def fake_dashboard(address: str, seen: list[Any]) -> AsyncIterator[None]:
    """A head's dashboard that returns what it was sent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if request.path == "/tail":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str(f"echo {await socket.receive_str()}")
            await socket.close()
            return socket
        if request.path == "/away":
            return web.Response(status=302, headers={"Location": "/here", "Set-Cookie": "steelyard-token=x"})
        return web.Response(text=f"{request.method} {request.path_qs} {await request.text()}")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, DASHBOARD).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def grant(api: Api, namespace: str, verbs: list[str]) -> None:
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": verbs}]
    role = {"metadata": {"name": "ray"}, "rules": rules}
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await api.delete(f"{base}/roles/ray")
    (await api.post(f"{base}/roles", role)).ok()
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ray"}
    binding = {"metadata": {"name": "ray"}, "subjects": [subject], "roleRef": ref}
    (await api.post(f"{base}/rolebindings", binding)).ok(201, 409)


async def test_a_dashboard_is_shown_to_those_who_may_see_it(
    api: Api, cluster: RestCluster, namespace: str, operators: str
) -> None:
    settings = settings_of(operators).model_copy(update={"dashboard": "", "domain": ""})
    token, seen = await token_of(api, namespace), []  # type: ignore[var-annotated]
    address = "127.77.19.5"
    async with (
        operator(api, cluster, settings) as served,
        fake_dashboard(address, seen),
        aiohttp.ClientSession() as browser,
    ):
        await make_cluster(api, namespace)
        path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
        (await api.merge(f"{path}/status", {"status": {"head": {"podIP": address}}})).ok()
        shown = f"{served.login_url}/{namespace}/demo/"

        async def addressed() -> bool:
            annotations: Json = (await api.get(path)).json["metadata"].get("annotations", {})
            return bool(annotations.get("steelyard/dashboard") == shown)

        await api.eventually(addressed, "the address of the dashboard")
        bearer = {"Authorization": f"Bearer {token}"}

        async def get(where: str = "", method: str = "GET", **given: Any) -> tuple[int, str]:
            async with browser.request(
                method, URL(shown + where, encoded=True), allow_redirects=False, **given
            ) as answer:
                return answer.status, await answer.text()

        assert (await get())[0] == 401
        assert (await get(headers={"Authorization": "Bearer nobody"}))[0] == 401
        status, text = await get(headers={"Accept": "text/html"})
        assert (status, "<form" in text) == (401, True)
        status, text = await get(headers=bearer)
        assert status == 403
        assert f"may not get RayCluster {namespace}/demo" in text
        assert seen == []
        await grant(api, namespace, ["get"])

        async def granted() -> bool:
            return (await get("nodes?a=b", headers=bearer))[0] == 200

        await api.eventually(granted, "the right is seen")
        assert (await get("nodes?a=b", headers=bearer))[1] == "GET /nodes?a=b "
        assert not {"Authorization", "Cookie"} & set(seen[-1].headers)
        for method, where in (
            ("POST", "api/jobs/"),
            ("GET", "api/actors/kill?id=1"),
            ("GET", "api/actors/%6bill"),
        ):
            status, text = await get(where, method, headers=bearer, data="x" if method == "POST" else None)
            assert (status, "may not update" in text) == (403, True), where
        assert (await get("x/%2e%2e/api", headers=bearer))[0] == 400
        async with browser.ws_connect(f"{shown}tail", headers=bearer) as socket:
            await socket.send_str("line")
            assert await socket.receive_str() == "echo line"
        # A browser: the page of the login, then the cookie; no other page can use it.
        assert (await get(".steelyard/login", "POST", data={"token": "nobody"}))[0] == 401
        async with browser.post(
            f"{shown}.steelyard/login", data={"token": token}, allow_redirects=False
        ) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 303
            assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", f"Path=/{namespace}/demo/"))
        signed_in = {"Cookie": cookie.partition(";")[0]}
        assert (await get("nodes", headers=signed_in))[0] == 200
        assert not {"Authorization", "Cookie"} & set(seen[-1].headers)
        assert (await get("nodes", headers={**signed_in, "Origin": "https://evil.example"}))[0] == 403
        async with browser.get(f"{shown}away", headers=bearer, allow_redirects=False) as answer:
            assert answer.headers["Location"] == f"/{namespace}/demo/here"
            assert "Set-Cookie" not in answer.headers
        (await api.merge(f"{path}/status", {"status": {"head": {"podIP": "127.77.19.6"}}})).ok()

        async def away() -> bool:
            return (await get("nodes", headers=bearer))[0] == 502

        await api.eventually(away, "a dashboard that does not answer is reported")


CALLS = 20
"""Number of calls, about as many as one round makes."""


async def test_a_death_at_any_call_leaves_nothing_half_done(
    api: Api, namespace: str, operators: str, kubeconfig: Path
) -> None:
    """Each process is killed at one call more than that before it, so each continues what the others have left."""
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": cluster(group())}
    annotations = {CERTIFICATES: "v1", REQUEST + "me": request_for(new_key(), "me")}
    body["metadata"] = {"name": "demo", "annotations": annotations}
    (await api.post(f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters", body)).ok()
    died = 0
    for when, calls in (("before", range(1, CALLS)), ("after", range(2, CALLS, 4)), ("before", [CALLS * 9])):
        for call in calls:
            arguments = (str(kubeconfig), namespace, "demo", operators, str(call), when)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.kubernetes_api.ray_operator", *arguments
            )
            # A round that makes fewer calls, or whose call is refused, ends by itself.
            status = await process.wait()
            assert status in (0, -signal.SIGKILL)
            died += status != 0
    assert died > 10
    names = {
        "/apis/networking.k8s.io/v1": {"ingresses": 1, "networkpolicies": 2},
        "/api/v1": {"secrets": 1, "configmaps": 1, "services": 1},
        "/apis/discovery.k8s.io/v1": {"endpointslices": 1},
    }
    for base, kinds in names.items():
        for plural, count in kinds.items():
            listed = (
                await api.get(f"{base}/namespaces/{namespace}/{plural}?labelSelector=ray.io/cluster")
            ).ok()
            assert len(listed.json["items"]) == count, plural
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
    assert "BEGIN CERTIFICATE" in (await api.get(path)).json["metadata"]["annotations"][ANSWER + "me"]
    for configuration in CONFIGURATIONS:
        assert (await api.get(configuration)).status == 200


@pytest.fixture
async def account(api: Api) -> AsyncIterator[str]:
    """The token of an account that has the chart's rights for Ray clusters, and no others."""
    rbac, accounts = "/apis/rbac.authorization.k8s.io/v1", "/api/v1/namespaces/steelyard/serviceaccounts"
    name = {"name": "steelyard-operator"}
    objects: dict[str, Json] = {
        "/api/v1/namespaces": {"metadata": {"name": "steelyard"}},
        accounts: {"metadata": name},
        f"{rbac}/clusterroles": {"metadata": name, "rules": [right.rule() for right in RIGHTS["ray"]]},
        f"{rbac}/clusterrolebindings": {
            "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name},
            "subjects": [{"kind": "ServiceAccount", "namespace": "steelyard", **name}],
        },
    }
    for path, obj in objects.items():
        (await api.post(path, obj)).ok(201)
    yield await token_of(api, "steelyard", account="steelyard-operator")
    for path, obj in reversed(objects.items()):
        await api.delete(f"{path}/{obj['metadata']['name']}")
    await api.gone("/api/v1/namespaces/steelyard")


async def test_the_rights_that_the_chart_gives_suffice(
    api: Api, namespace: str, operators: str, account: str
) -> None:
    client = RestCluster(api.url, tls=api.others, token=account)
    settings = settings_of("steelyard").model_copy(update={"dashboard": "auto"})
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
    try:
        async with operator(api, client, settings):
            await make_cluster(api, namespace)
            asked = {"metadata": {"annotations": {REQUEST + "me": request_for(new_key(), "me")}}}
            (await api.merge(path, asked)).ok()

            async def done() -> bool:
                # The last write of all: what comes before it was written too.
                return ANSWER + "me" in (await api.get(path)).json["metadata"]["annotations"]

            await api.eventually(done, "the last write")
    finally:
        await client.close()
    base = f"/apis/networking.k8s.io/v1/namespaces/{namespace}"
    assert (await api.get(f"{base}/ingresses/ray-dashboard-demo")).status == 200
