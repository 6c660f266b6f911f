"""Ends of containers: exit codes, reasons, restarts, init containers, sidecars, probes, hooks, deadlines."""

import re

from steelyard_common.types import Json
from tests.kubernetes_workloads.cluster import SECONDS, Cluster, container, pod, python, shape

DATA: Json = {"volumes": [{"name": "data", "emptyDir": {}}]}
MOUNT: Json = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
WAITS = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
"""A program that ends when it is asked to."""


async def completed(cluster: Cluster) -> Json:
    return shape((await cluster.run(pod(container("echo hello"))))[0])


async def error(cluster: Cluster) -> Json:
    return shape((await cluster.run(pod(container("exit 3"))))[0])


async def one_of_two_fails(cluster: Cluster) -> Json:
    return shape((await cluster.run(pod(container("exit 0"), container("exit 7", "other"))))[0])


async def ended_by_a_signal(cluster: Cluster) -> Json:
    return shape((await cluster.run(pod(container("sh -c 'kill -9 $$$$'; exit $?"))))[0])


async def out_of_memory(cluster: Cluster) -> Json:
    limits = {"limits": {"memory": "64Mi"}}
    script = "import time; held = b'x' * (300 << 20); time.sleep(60)"
    return shape((await cluster.run(pod(python(script, resources=limits))))[0])


async def no_such_command(cluster: Cluster) -> Json:
    body = pod({"name": "main", "image": "localhost/busybox:1", "command": ["/no/such/program"]})
    await cluster.create("pods", body)
    seen = shape(await cluster.ended())
    # The runtime's own words.
    seen["containerStatuses.main"]["state"]["terminated"].pop("message")
    return seen


async def no_such_image(cluster: Cluster) -> Json:
    body = pod({"name": "main", "image": "localhost/no-such-image:1", "imagePullPolicy": "Never"})
    await cluster.create("pods", body)

    def waits(item: Json) -> bool:
        return "ErrImageNeverPull" in str(item["status"].get("containerStatuses"))

    seen = shape(await cluster.until("pods", "pod", waits))
    seen["containerStatuses.main"]["state"]["waiting"].pop("message")
    return seen


async def restarted_until_it_succeeds(cluster: Cluster) -> Json:
    script = "test -e /data/once && exit 0; touch /data/once; exit 4"
    body = pod(container(script, **MOUNT), restartPolicy="OnFailure", **DATA)
    return shape((await cluster.run(body))[0])


async def restarted_though_it_succeeds(cluster: Cluster) -> Json:
    script = f"test -e /data/once || {{ touch /data/once; exit 0; }}; {WAITS}"
    await cluster.create("pods", pod(container(script, **MOUNT), restartPolicy="Always", **DATA))

    def again(item: Json) -> bool:
        rows = item["status"].get("containerStatuses", [])
        return any(row["restartCount"] == 1 and "running" in row["state"] for row in rows)

    return shape(await cluster.until("pods", "pod", again))


async def crash_loop(cluster: Cluster) -> Json:
    await cluster.create("pods", pod(container("echo no; exit 1"), restartPolicy="Always"))

    def waits(item: Json) -> bool:
        rows = item["status"].get("containerStatuses", [])
        return any(row["restartCount"] >= 1 and "CrashLoopBackOff" in str(row["state"]) for row in rows)

    seen = shape(await cluster.until("pods", "pod", waits))
    entry = seen["containerStatuses.main"]
    message = entry["state"]["waiting"].pop("message", "")
    # Its times and their number depend on when this is seen.
    words = re.sub(r"back-off \w+ restarting", "back-off TIME restarting", message).split(" pod=")[0]
    entry["restarts"] = min(entry["restarts"], 1)
    return {**seen, "said": words, "previous": await previous_log(cluster)}


async def previous_log(cluster: Cluster) -> list[str]:
    """Return the lines of the run before; a node that starts the container in this moment has removed them."""
    lines: list[str] = []

    async def probe() -> bool:
        answer = await cluster.raw_log("pod", previous="true")
        lines[:] = answer.raw.decode().splitlines()
        return answer.status == 200 and "unable to retrieve container logs" not in "".join(lines)

    await cluster.api.eventually(probe, "the log of the run before", SECONDS)
    return lines


async def init_containers(cluster: Cluster) -> Json:
    first, second = (container(f"echo {word} >> /data/log", word, **MOUNT) for word in ("first", "second"))
    body = pod(container("cat /data/log", **MOUNT), initContainers=[first, second], **DATA)
    seen, lines = await cluster.run(body)
    return {"pod": shape(seen), "lines": lines}


async def init_container_fails(cluster: Cluster) -> Json:
    body = pod(container("true"), initContainers=[container("exit 5", "first"), container("true", "second")])
    await cluster.create("pods", body)
    return shape(await cluster.ended())


async def init_container_restarted(cluster: Cluster) -> Json:
    script = "test -e /data/once && exit 0; touch /data/once; exit 4"
    init = [container(script, "first", **MOUNT)]
    body = pod(container("true"), initContainers=init, restartPolicy="OnFailure", **DATA)
    await cluster.create("pods", body)
    return shape(await cluster.ended())


async def sidecar(cluster: Cluster) -> Json:
    beside = container("echo up > /data/up; " + WAITS, "beside", restartPolicy="Always", **MOUNT)
    beside["startupProbe"] = {"exec": {"command": ["test", "-e", "/data/up"]}, "periodSeconds": 1}
    body = pod(container("cat /data/up", **MOUNT), initContainers=[beside], **DATA)
    seen, lines = await cluster.run(body)
    return {"pod": shape(seen), "lines": lines}


async def sidecar_restarted(cluster: Cluster) -> Json:
    script = f"test -e /data/once || {{ touch /data/once; exit 1; }}; touch /data/up; {WAITS}"
    beside = container(script, "beside", restartPolicy="Always", **MOUNT)
    main = container("while ! test -e /data/up; do sleep 0.1; done", **MOUNT)
    seen, _ = await cluster.run(pod(main, initContainers=[beside], **DATA))
    return shape(seen)


async def readiness(cluster: Cluster) -> Json:
    probe = {"exec": {"command": ["test", "-e", "/data/ready"]}, "periodSeconds": 1}
    await cluster.create("pods", pod(container(WAITS, readinessProbe=probe, **MOUNT), **DATA))

    def started(item: Json) -> bool:
        return any(row.get("started") for row in item["status"].get("containerStatuses", []))

    before = shape(await cluster.until("pods", "pod", started))
    await cluster.kubectl("exec", "pod", "--", "touch", "/data/ready")
    after = shape(await cluster.ready())
    return {"before": before, "after": after}


async def readiness_by_http_and_tcp(cluster: Cluster) -> Json:
    port = {"containerPort": 8080, "name": "web"}
    address = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    http = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1}
    tcp = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60}
    serve = "import os; from http.server import *; "
    serve += "HTTPServer((os.environ['ADDRESS'], 8080), SimpleHTTPRequestHandler).serve_forever()"
    await cluster.create(
        "pods", pod(python(serve, ports=[port], readinessProbe=http, livenessProbe=tcp, env=[address]))
    )
    return shape(await cluster.ready())


async def liveness(cluster: Cluster) -> Json:
    probe = {"exec": {"command": ["test", "!", "-e", "/data/ill"]}, "periodSeconds": 1, "failureThreshold": 1}
    script = f"test -e /data/once || {{ touch /data/once /data/ill; }}; {WAITS}"
    hook = {"preStop": {"exec": {"command": ["rm", "/data/ill"]}}}
    body = pod(
        container(script, livenessProbe=probe, lifecycle=hook, **MOUNT),
        restartPolicy="Always",
        **{**DATA, "terminationGracePeriodSeconds": 10},
    )
    await cluster.create("pods", body)

    def again(item: Json) -> bool:
        rows = item["status"].get("containerStatuses", [])
        return any(row["restartCount"] == 1 and row["ready"] for row in rows)

    return shape(await cluster.until("pods", "pod", again))


async def startup_fails(cluster: Cluster) -> Json:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    body = pod(container("trap 'exit 9' TERM; while true; do sleep 0.1; done", startupProbe=probe))
    body["spec"]["terminationGracePeriodSeconds"] = 10
    await cluster.create("pods", body)
    return shape(await cluster.ended())


async def post_start(cluster: Cluster) -> Json:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo hook > /data/hook"]}}}
    script = "while ! test -s /data/hook; do sleep 0.1; done; cat /data/hook"
    seen, lines = await cluster.run(pod(container(script, lifecycle=hook, **MOUNT), **DATA))
    return {"pod": shape(seen), "lines": lines}


async def post_start_fails(cluster: Cluster) -> Json:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}
    body = pod(container("trap 'exit 9' TERM; while true; do sleep 0.1; done", lifecycle=hook))
    body["spec"]["terminationGracePeriodSeconds"] = 10
    await cluster.create("pods", body)
    return shape(await cluster.ended())


async def deadline(cluster: Cluster) -> Json:
    await cluster.create("pods", pod(container(WAITS), activeDeadlineSeconds=2))
    await cluster.ended()

    def stopped(item: Json) -> bool:
        return all("terminated" in row["state"] for row in item["status"]["containerStatuses"])

    return shape(await cluster.until("pods", "pod", stopped))


async def termination_message(cluster: Cluster) -> Json:
    own = container("echo the reason > /data/why; exit 2", terminationMessagePath="/data/why", **MOUNT)
    usual = container("printf usual > /dev/termination-log", "usual")
    fallback = container(
        "echo last words; exit 1", "fallback", terminationMessagePolicy="FallbackToLogsOnError"
    )
    return shape((await cluster.run(pod(own, usual, fallback, **DATA)))[0])
