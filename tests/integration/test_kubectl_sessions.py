"""kubectl's sessions with running Pods, word for word as users type them: run, attach, cp, port-forward, debug."""

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Machine, machine_at
from tests.integration.small_jobs import IMAGE

Kubectl = Callable[..., subprocess.CompletedProcess[str]]
RUN = ("--restart=Never", f"--image={IMAGE}", "--image-pull-policy=Never")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_at(tmp_path_factory.mktemp("sessions") / "state") as machine:
        machine.up("platform")
        yield machine


@pytest.fixture(scope="module")
def command(up: Machine) -> list[str]:
    program = shutil.which("kubectl")
    if not program:
        pytest.skip("no kubectl on this machine")
    return [program, "--kubeconfig", str(up.state.kubeconfig)]


@pytest.fixture(scope="module")
def kubectl(command: list[str]) -> Kubectl:
    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], input=given, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture(scope="module")
def pod(kubectl: Kubectl) -> Iterator[str]:
    """A running Pod with a server on its own address."""
    script = "echo page > page; exec python -m http.server 8080 --bind $(hostname -i)"
    done = kubectl("run", "runs", *RUN, "--command", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    done = kubectl("wait", "--for=condition=Ready", "pod/runs", "--timeout=50s")
    assert done.returncode == 0, done.stderr
    yield "runs"
    kubectl("delete", "pod", "runs", "--force", "--grace-period=0")


def test_a_pod_that_is_run_with_input_and_removed(kubectl: Kubectl) -> None:
    done = kubectl(
        "run", "once", "-i", "--rm", "-q", *RUN, "--command", "--", "cat", given="through\n" * 1000
    )
    assert (done.stdout, done.returncode) == ("through\n" * 1000, 0), done.stderr
    assert "NotFound" in kubectl("get", "pod", "once").stderr


def test_the_exit_status_of_what_is_run(kubectl: Kubectl) -> None:
    script = "read line; exit 7"
    done = kubectl("run", "seven", "-i", "--rm", *RUN, "--command", "--", "sh", "-c", script, given="go\n")
    assert done.returncode == 7, done.stderr


def test_a_shell_in_a_terminal(command: list[str]) -> None:
    words = [*command, "run", "shell", "-it", "--rm", *RUN, "--command", "--", "sh"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    said = b""
    try:
        while b"command prompt" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"echo $((6*7)); tty; exit 3\n")
        while b"deleted" not in said:
            said += os.read(ours, 4096)
        assert process.wait(20) == 3
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"42\r\n" in said
    assert b"/dev/pts/" in said


def test_attaching_to_a_pod(kubectl: Kubectl) -> None:
    script = "while read line; do echo got $line; done"
    overrides = "--overrides={}"
    done = kubectl(
        "run", "waits", "--stdin", "--attach=false", overrides, *RUN, "--command", "--", "sh", "-c", script
    )
    assert done.returncode == 0, done.stderr
    assert kubectl("wait", "--for=condition=Ready", "pod/waits", "--timeout=50s").returncode == 0
    attached = kubectl("attach", "-i", "waits", given="a\nb\n")
    assert "got a\ngot b\n" in attached.stdout, attached.stderr
    kubectl("delete", "pod", "waits", "--force", "--grace-period=0")


def test_copying_to_and_from_a_pod(kubectl: Kubectl, pod: str, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(bytes(range(256)) * 1000)
    done = kubectl("cp", str(tmp_path / "sent"), f"{pod}:sent")
    assert done.returncode == 0, done.stderr
    done = kubectl("cp", f"{pod}:sent", str(tmp_path / "back"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()


def test_a_port_of_a_pod(command: list[str], pod: str) -> None:
    words = [*command, "port-forward", pod, ":8080"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.search(r"127.0.0.1:(\d+) ->", process.stdout.readline())
            assert match
            fetch = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{match[1]}/page').read())"
            done = subprocess.run(
                [sys.executable, "-c", fetch], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.stdout == "b'page\\n'\n", done.stderr
        finally:
            process.kill()


def test_requests_passed_on_to_a_pod_and_to_a_service(kubectl: Kubectl, pod: str) -> None:
    path = "/api/v1/namespaces/default"
    done = kubectl("get", "--raw", f"{path}/pods/{pod}:8080/proxy/page")
    assert done.stdout == "page\n", done.stderr
    assert kubectl("expose", "pod", pod, "--name=web", "--port=80", "--target-port=8080").returncode == 0
    try:
        end = time.monotonic() + 60
        while True:  # the Service has no endpoints before its controller has seen it
            done = kubectl("get", "--raw", f"{path}/services/web:80/proxy/page")
            if done.returncode == 0 or time.monotonic() > end:
                break
            time.sleep(0.1)
        assert done.stdout == "page\n", done.stderr
    finally:
        kubectl("delete", "service", "web")


ASK = """
import os, ssl, urllib.request
input()  # what is written before kubectl has attached is not shown
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
headers = {"Authorization": "Bearer " + open(f"{folder}/token").read()}
for address in (os.environ["NAMED"], "{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)):
    request = urllib.request.Request(f"https://{address}/version", headers=headers)
    print(urllib.request.urlopen(request, context=context).status)
"""


@pytest.mark.root  # the API's port is below 1024
def test_programs_of_a_pod_find_the_api_by_its_name(kubectl: Kubectl) -> None:
    shown = kubectl("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}").stdout
    for number, name in enumerate(("kubernetes.default.svc", "kubernetes", shown)):
        words = ("-i", "--rm", "-q", f"--env=NAMED={name}", "--command", "--", "python", "-c", ASK)
        done = kubectl("run", f"asks-{number}", *RUN, *words, given="go\n")
        assert (done.stdout, done.returncode) == ("200\n200\n", 0), done.stderr


def test_the_service_of_the_api_is_shown_as_on_a_cluster(kubectl: Kubectl) -> None:
    header, *rows = [row.split() for row in kubectl("get", "services").stdout.splitlines()]
    assert header == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]
    (own,) = [row for row in rows if row[0] == "kubernetes"]
    assert (own[1], own[3], own[4]) == ("ClusterIP", "<none>", "443/TCP")
    assert own[2].endswith(".128.1")


def test_containers_for_debugging_are_refused_with_the_reason(kubectl: Kubectl, pod: str) -> None:
    done = kubectl("debug", pod, f"--image={IMAGE}")
    assert done.returncode == 1
    assert "this server does not serve pods/ephemeralcontainers" in done.stderr
