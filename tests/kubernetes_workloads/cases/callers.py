"""Logs, exec and attach: what callers of a running container see."""

import asyncio
import re

from steelyard_common.types import Json
from tests.kubernetes_api.api import Answer
from tests.kubernetes_workloads.cases.pods import WAITS
from tests.kubernetes_workloads.cluster import SECONDS, Cluster, container, pod, python

SHOUTS = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1])
    while True:
        connection, _ = server.accept()
        with connection:
            while block := connection.recv(1000):
                connection.sendall(block.upper())
"""

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ")


def said(answer: Answer) -> list[int | str]:
    """The status of an answer, and why it is an error."""
    return [answer.status, answer.message if answer.status >= 400 else answer.raw.decode()]


async def logs(cluster: Cluster) -> Json:
    await cluster.run(pod(container("for i in 1 2 3 4 5; do echo line $i; done; printf rest")))
    stamped = await cluster.log(timestamps="true")
    seen = {
        "all": await cluster.log(),
        "tail": await cluster.log(tailLines="1"),
        "none": await cluster.log(tailLines="0"),
        "bytes": await cluster.log(limitBytes="10"),
        "since": len(await cluster.log(sinceSeconds="3600")),
        "long ago": await cluster.log(sinceTime="2100-01-01T00:00:00Z"),
        "stamped": [TIME.sub("TIME ", line) for line in stamped],
    }
    for name, query in {
        "previous": {"previous": "true"},
        "no container": {"container": "other"},
        "both": {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
    }.items():
        answer = await cluster.raw_log("pod", **query)
        seen[name] = said(answer)
    return seen


async def logs_of_two(cluster: Cluster) -> Json:
    await cluster.run(pod(container("echo one"), container("echo two", "other")))
    answer = await cluster.raw_log("pod")
    chosen = [await cluster.log(container=name) for name in ("main", "other")]
    return {"unnamed": said(answer), "named": chosen}


async def logs_while_it_waits(cluster: Cluster) -> Json:
    body = pod({"name": "main", "image": "localhost/no-such-image:1", "imagePullPolicy": "Never"})
    await cluster.create("pods", body)
    await cluster.until("pods", "pod", lambda item: "ErrImageNeverPull" in str(item["status"]))
    answer = await cluster.raw_log("pod")
    return {"answer": said(answer)}


async def followed(cluster: Cluster) -> Json:
    script = "for i in 1 2 3; do echo $i; sleep 0.3; done"
    await cluster.create("pods", pod(container(script)))
    await cluster.logged("1")
    return {"lines": await cluster.log(follow="true")}


async def exec_(cluster: Cluster) -> Json:
    await cluster.create(
        "pods", pod(container(f"export INNER=1; {WAITS}", env=[{"name": "X", "value": "y"}]))
    )
    await cluster.ready()
    seen: Json = {}
    for name, command, stdin in (
        ("outputs", ["sh", "-c", "echo out; echo err >&2; exit 3"], ""),
        ("input", ["cat"], "some input"),
        ("environment", ["sh", "-c", "echo $X $INNER"], ""),
        ("nothing", ["true"], ""),
    ):
        flags = ["-i"] if stdin else []
        seen[name] = await cluster.kubectl("exec", *flags, "pod", "--", *command, stdin=stdin)
    absent = await cluster.kubectl("exec", "pod", "--", "/no/such")
    # The words are the runtime's.
    seen["no such program"] = [absent["status"], absent["stdout"]]
    other = await cluster.kubectl("exec", "pod", "-c", "other", "--", "true")
    seen["no such container"] = [other["status"], other["stderr"].replace(cluster.namespace, "NAMESPACE")]
    return seen


async def exec_in_an_ended_pod(cluster: Cluster) -> Json:
    await cluster.run(pod(container("true")))
    answer = await cluster.kubectl("exec", "pod", "--", "true")
    return {"status": answer["status"], "stderr": answer["stderr"].replace(cluster.namespace, "NAMESPACE")}


async def attach(cluster: Cluster) -> Json:
    script = "while read line; do echo got $line; done; echo end"
    await cluster.create("pods", pod(container(script, stdin=True, stdinOnce=True)))
    await cluster.until("pods", "pod", lambda item: item["status"].get("phase") == "Running")
    answer = await cluster.kubectl("attach", "-q", "-i", "pod", stdin="one\ntwo\n")
    await cluster.ended()
    return {"status": answer["status"], "stdout": answer["stdout"], "lines": await cluster.log()}


async def port_forward(cluster: Cluster) -> Json:
    await cluster.create("pods", pod(python(SHOUTS)))
    port = await cluster.first_line()
    # Its log can be read before its status says that it runs, and kubectl refuses a Pod that does not.
    await cluster.until("pods", "pod", lambda item: item["status"].get("phase") == "Running")
    answers = []
    async with cluster.forwarded("pod", port) as local:
        answers += [await exchanged(local, b"one"), await exchanged(local, b"two" * 100_000)]
    async with cluster.forwarded("pod", "1") as local:  # nobody listens there
        answers.append(await exchanged(local, b"three"))
    return {"answers": [answer.decode() for answer in answers]}


async def exchanged(port: int, content: bytes) -> bytes:
    """Return all that is answered to bytes that have an end; nothing where the connection breaks."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(SECONDS):
            writer.write(content)
            writer.write_eof()
            return await reader.read()
    except TimeoutError:
        raise
    except OSError:  # also "not connected", which is no ConnectionError: kubectl was quicker to close
        return b""
    finally:
        writer.close()
