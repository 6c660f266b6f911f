"""A session of the real kubectl, word for word as users type it."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard_common.types import Json
from steelyard_schema.crd import custom_resource_definitions
from tests.kubernetes_api.api import Api, pod
from tests.kubernetes_api.conftest import CRDS, Server, established


class Kubectl:
    """kubectl on one namespace; processes run outside the test's loop."""

    def __init__(self, program: str, kubeconfig: Path, namespace: str, cache: Path) -> None:
        options = ["--kubeconfig", str(kubeconfig), "--cache-dir", str(cache), "-n", namespace]
        self._command = [program, *options]

    async def __call__(self, *words: str, given: str | None = None, ok: bool = True) -> str:
        """Return the command's output; with `ok=False`, its error output when it fails."""
        done = await asyncio.to_thread(self._run, words, given)
        assert (done.returncode == 0) is ok, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stderr

    async def said(self, *words: str, given: str | None = None) -> str:
        """Return the command's error output."""
        return (await asyncio.to_thread(self._run, words, given)).stderr

    def _run(self, words: tuple[str, ...], given: str | None) -> subprocess.CompletedProcess[str]:
        command = [*self._command, *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)

    def start(self, *words: str, stderr: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._command, *words], stdout=subprocess.PIPE, stderr=stderr, text=True)


@pytest.fixture
async def kc(api: Api, kubectl: str, kubeconfig: Path, namespace: str, tmp_path: Path) -> Kubectl:
    for crd in custom_resource_definitions():
        (await api.post(CRDS, crd)).ok(201, 409)
        await established(api, crd["metadata"]["name"])
    return Kubectl(kubectl, kubeconfig, namespace, tmp_path)


def evaluation(name: str = "one", **spec: Any) -> Json:
    service: Json = {"id": "service", "account": "us", "name": "mock"}
    service |= {"interface": {"endpoint": "predict", "outputSchema": {"arrowSchema": "AAAA"}}}
    session = {"inferenceService": service, "replicas": 1}
    spec = {"id": name, "account": "us", "dataset": "digits", "inferenceSession": session, **spec}
    return {"apiVersion": "dyff.io/v1alpha1", "kind": "Evaluation", "metadata": {"name": name}, "spec": spec}


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: localhost/none}]}
"""


async def test_apply_get_and_delete(kc: Kubectl) -> None:
    manifest = yaml.safe_dump(evaluation())
    assert await kc("apply", "-f", "-", given=manifest) == "evaluation.dyff.io/one created\n"
    assert await kc("apply", "-f", "-", given=manifest) == "evaluation.dyff.io/one unchanged\n"
    labelled = evaluation() | {"metadata": {"name": "one", "labels": {"a": "b"}}}
    assert (
        await kc("apply", "-f", "-", given=yaml.safe_dump(labelled)) == "evaluation.dyff.io/one configured\n"
    )
    assert await kc("get", "evaluations", "-o", "name") == "evaluation.dyff.io/one\n"
    shown = (await kc("get", "eval")).splitlines()
    assert shown[0].split() == ["NAME", "STATUS", "REASON", "AGE"]
    assert shown[1].split()[0] == "one"
    as_json = json.loads(await kc("get", "evaluations", "one", "-o", "json"))
    as_yaml = yaml.safe_load(await kc("get", "evaluations", "one", "-o", "yaml"))
    assert as_json == as_yaml
    assert as_json["spec"]["replications"] == 1
    assert "evaluation.dyff.io/one" in await kc("get", "dyff", "-o", "name")
    assert (await kc("delete", "evaluation", "one")).startswith('evaluation.dyff.io "one" deleted')
    assert "No resources found" in await kc.said("get", "evaluations")


async def test_get_wide(kc: Kubectl, api: Api, core: str) -> None:
    await kc("apply", "-f", "-", given=JOB)
    (await api.post(f"{core}/pods", pod("p", nodeName="localhost"))).ok(201)
    shown = (await kc("get", "evaluations,inferencesessions,jobs,pods", "-o", "wide")).splitlines()
    headers = [line.split() for line in shown if line.startswith("NAME")]
    assert ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"] in headers
    assert any(line.startswith("pod/p ") and " localhost " in line for line in shown)
    names = await kc("get", "jobs,pods", "-o", "name")
    assert names == "job.batch/hello\npod/p\n"
    await kc("delete", "pod", "p", "--force", "--grace-period=0")


async def test_describe_and_events(kc: Kubectl, api: Api, core: str, namespace: str) -> None:
    await kc("apply", "-f", "-", given=JOB)
    await kc("apply", "-f", "-", given=yaml.safe_dump(evaluation()))
    uid = json.loads(await kc("get", "evaluation", "one", "-o", "json"))["metadata"]["uid"]
    about = {
        "apiVersion": "dyff.io/v1alpha1",
        "kind": "Evaluation",
        "name": "one",
        "namespace": namespace,
        "uid": uid,
    }
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Begun", "message": "it begins"}
    (
        await api.post(f"{core}/events", event | {"type": "Normal", "lastTimestamp": "2026-01-01T00:00:00Z"})
    ).ok(201)
    described = await kc("describe", "evaluation", "one")
    assert "it begins" in described
    assert "Kind:         Evaluation" in described
    assert "Parallelism:" in await kc("describe", "job", "hello")
    assert "it begins" in await kc("get", "events")


async def test_wait_for_a_condition(kc: Kubectl, api: Api, namespace: str) -> None:
    await kc("apply", "-f", "-", given=yaml.safe_dump(evaluation()))
    waiting = asyncio.create_task(kc("wait", "--for=condition=Finished", "evaluation/one", "--timeout=100s"))
    await asyncio.sleep(1)
    assert not waiting.done()
    condition = {"type": "Finished", "status": "True", "reason": "Complete", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    path = f"/apis/dyff.io/v1alpha1/namespaces/{namespace}/evaluations/one/status"
    (await api.merge(path, {"status": {"conditions": [condition]}})).ok(200)
    assert await waiting == "evaluation.dyff.io/one condition met\n"


async def test_watching(kc: Kubectl) -> None:
    process = kc.start("get", "evaluations", "-w", "-o", "name")
    try:
        await asyncio.sleep(1)
        await kc("apply", "-f", "-", given=yaml.safe_dump(evaluation()))
        await kc("delete", "evaluation", "one")
        assert process.stdout is not None
        lines = [await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 120) for _ in range(2)]
    finally:
        process.kill()
        process.communicate()
    assert lines == ["evaluation.dyff.io/one\n"] * 2


async def test_explain(kc: Kubectl) -> None:
    shown = await kc("explain", "evaluation.spec")
    assert "FIELD: spec <Object>" in shown
    assert "dataset\t<string> -required-" in shown
    assert "Id of the dataset." in shown
    assert "restartPolicy" in await kc("explain", "pod.spec")


async def test_following_a_log(kc: Kubectl, embedded: Server, api: Api, core: str) -> None:
    made = (await api.post(f"{core}/pods", pod("p", nodeName="localhost"))).ok(201).json
    status: Json = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    running = {"phase": "Running", "containerStatuses": [status | {"state": {"running": {}}}]}
    (await api.merge(f"{core}/pods/p/status", {"status": running})).ok(200)
    log = embedded.folder / "pods" / made["metadata"]["uid"] / "main" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-01-01T00:00:01Z stdout F hello\n")
    process = kc.start("logs", "-f", "p")
    assert process.stdout is not None
    assert await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 120) == "hello\n"
    with log.open("a") as file:
        file.write("2026-01-01T00:00:02Z stdout F world\n")
    ended = {"phase": "Succeeded", "containerStatuses": [status | {"state": {"terminated": {"exitCode": 0}}}]}
    (await api.merge(f"{core}/pods/p/status", {"status": ended})).ok(200)
    rest, _ = await asyncio.to_thread(process.communicate, timeout=120)
    assert rest == "world\n"
    assert await kc("logs", "p", "--tail=1") == "world\n"


WRONG: list[tuple[str, Json, str]] = [
    ("an unknown field", evaluation(foo=1), 'unknown field "spec.foo"'),
    ("a wrong type", evaluation(replications="two"), "spec.replications"),
    ("a missing field", {**evaluation(), "spec": {"id": "x"}}, "spec.dataset: Required value"),
    ("a path traversal", evaluation(storage={"output": "out/../../etc"}), "spec.storage.output"),
    (
        "a path traversal of an input",
        evaluation(storage={"inputs": {"data": "%2e%2e/x"}}),
        "spec.storage.inputs.data",
    ),
]


@pytest.mark.parametrize(
    ("manifest", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
async def test_wrong_manifests_are_refused_by_field(kc: Kubectl, manifest: Json, message: str) -> None:
    assert message in await kc("apply", "-f", "-", given=yaml.safe_dump(manifest), ok=False)


async def test_an_edited_spec_is_refused(kc: Kubectl) -> None:
    await kc("apply", "-f", "-", given=yaml.safe_dump(evaluation()))
    refused = await kc("apply", "-f", "-", given=yaml.safe_dump(evaluation(dataset="other")), ok=False)
    assert "spec is immutable" in refused
    assert "spec: Invalid value" in refused


SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: s, labels: {a: b}}
spec: {clusterIP: None, selector: {a: b}, ports: [{name: first, port: 1}, {name: second, port: 2}]}
"""


async def test_built_in_kinds_are_applied_again(kc: Kubectl, api: Api, core: str) -> None:
    assert await kc("apply", "-f", "-", given=SERVICE) == "service/s created\n"
    assert await kc("apply", "-f", "-", given=SERVICE) == "service/s unchanged\n"
    changed = SERVICE.replace("labels: {a: b}", "labels: {c: d}").replace("{name: first, port: 1}, ", "")
    assert await kc("apply", "-f", "-", given=changed) == "service/s configured\n"
    service = (await api.get(f"{core}/services/s")).json
    assert service["metadata"]["labels"] == {"c": "d"}
    assert [port["port"] for port in service["spec"]["ports"]] == [2]
    assert await kc("label", "service", "s", "e=f") == "service/s labeled\n"
    ports = '{"spec":{"ports":[{"name":"third","port":3}]}}'
    assert await kc("patch", "service", "s", "-p", ports) == "service/s patched\n"
    assert [port["port"] for port in (await api.get(f"{core}/services/s")).json["spec"]["ports"]] == [3, 2]
    assert await kc("apply", "-f", "-", given=JOB) == "job.batch/hello created\n"
    labelled = JOB.replace("name: hello", "name: hello, labels: {a: b}")
    assert await kc("apply", "-f", "-", given=labelled) == "job.batch/hello configured\n"


async def test_a_manifest_is_applied_by_the_server(kc: Kubectl, api: Api, core: str) -> None:
    await kc("apply", "-f", "-", given=SERVICE)
    again = ("apply", "--server-side", "-f", "-")
    assert await kc(*again, given=SERVICE) == "service/s serverside-applied\n"
    other = SERVICE.replace("selector: {a: b}", "selector: {a: c}")
    refused = await kc(*again, "--field-manager=other", given=other, ok=False)
    assert 'conflict with "kubectl"' in refused
    assert await kc(*again, "--field-manager=other", "--force-conflicts", given=other) == (
        "service/s serverside-applied\n"
    )
    shown = await kc("get", "service", "s", "-o", "yaml", "--show-managed-fields")
    managers = {entry["manager"] for entry in yaml.safe_load(shown)["metadata"]["managedFields"]}
    assert managers == {"kubectl", "kubectl-last-applied", "other"}
    assert "managedFields" not in await kc("get", "service", "s", "-o", "yaml")
    assert (await api.get(f"{core}/services/s")).json["spec"]["selector"] == {"a": "c"}
    # A Job that client-side apply made keeps the selector that the server made of it.
    await kc("apply", "-f", "-", given=JOB)
    assert await kc(*again, given=JOB) == "job.batch/hello serverside-applied\n"
    assert "failed" not in await kc.said(*again, given=JOB)


async def test_a_job_cannot_be_scaled(kc: Kubectl) -> None:
    await kc("apply", "-f", "-", given=JOB)
    refusal = await kc("scale", "job/hello", "--replicas=2", ok=False)
    assert "could not find the requested resource" in refusal


async def test_the_server_is_known(kc: Kubectl) -> None:
    assert "Server Version: v1." in await kc("version")
    shown = await kc("api-resources", "--api-group=dyff.io", "-o", "name")
    assert "evaluations.dyff.io" in shown
    dry = await kc("apply", "--dry-run=server", "-f", "-", given=yaml.safe_dump(evaluation("dry")))
    assert dry == "evaluation.dyff.io/dry created (server dry run)\n"
    assert "dry" not in await kc("get", "evaluations", "-o", "name")
