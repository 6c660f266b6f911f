"""Deployments, StatefulSets and Services: rollouts, and names that lead to Pods."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_workloads.cases.pods import WAITS
from tests.kubernetes_workloads.cluster import Cluster, condition, container, pod, python, template

SERVE = """
import os, socket
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
HTTPServer((os.environ['ADDRESS'], 8080), Handler).serve_forever()
"""
WEB = {"app": "web"}
PROBE: Json = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
# On one machine a server on all addresses would have its port on those of all other Pods, too.
ADDRESS: Json = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
PORTS: Json = {"ports": [{"name": "http", "containerPort": 8080}], "env": [ADDRESS]}
COUNTS = (
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "observedGeneration",
)


def deployment(*containers: Json, **spec: Any) -> Json:
    own: Json = {
        "replicas": 2,
        "selector": {"matchLabels": WEB},
        "template": template(*containers, labels=WEB),
    }
    own["template"]["spec"]["restartPolicy"] = "Always"
    return {"metadata": {"name": "web"}, "spec": {**own, **spec}}


def rolled(item: Json) -> bool:
    status, wanted = item["status"], item["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [wanted] * 3 and status.get("observedGeneration") == item["metadata"]["generation"]


def deployment_shape(item: Json) -> Json:
    rows = item["status"].get("conditions", [])
    counts = {name: item["status"][name] for name in COUNTS if name in item["status"]}
    note = (item["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision")
    return {
        "counts": counts,
        "revision": note,
        "conditions": {row["type"]: [row["status"], row["reason"]] for row in rows},
    }


async def sets(cluster: Cluster) -> list[list[Any]]:
    rows = await cluster.items("replicasets", "app=web")
    return sorted(
        (
            [row["metadata"]["annotations"]["deployment.kubernetes.io/revision"], row["spec"]["replicas"]]
            for row in rows
        ),
        key=str,
    )


async def rollout(cluster: Cluster) -> Json:
    main = container(WAITS)
    await cluster.create("deployments", deployment(main))
    first = deployment_shape(await cluster.until("deployments", "web", rolled))
    new = {"spec": {"template": {"spec": {"containers": [{**main, "env": [{"name": "V", "value": "2"}]}]}}}}
    await cluster.merge("deployments", "web", new)
    second = deployment_shape(await cluster.until("deployments", "web", rolled))
    before = await sets(cluster)
    undone = await cluster.kubectl("rollout", "undo", "deployment/web")
    await cluster.until("deployments", "web", rolled)
    waited = await cluster.kubectl("rollout", "status", "deployment/web")
    history = await cluster.kubectl("rollout", "history", "deployment/web")
    return {
        "first": first,
        "second": second,
        "sets": before,
        "undone": undone,
        "status": waited["stdout"].splitlines()[-1:],
        "history": history["stdout"],
        "after": await sets(cluster),
    }


async def stuck_rollout(cluster: Cluster) -> Json:
    main = container(WAITS)
    await cluster.create("deployments", deployment(main, progressDeadlineSeconds=3))
    await cluster.until("deployments", "web", rolled)
    bad = {**main, "readinessProbe": {"exec": {"command": ["false"]}}}
    await cluster.merge("deployments", "web", {"spec": {"template": {"spec": {"containers": [bad]}}}})

    def stuck(item: Json) -> bool:
        return condition(item, "Progressing").get("reason") == "ProgressDeadlineExceeded"

    seen = await cluster.until("deployments", "web", stuck)
    return {**deployment_shape(seen), "sets": await sets(cluster)}


async def recreated(cluster: Cluster) -> Json:
    main = container(WAITS)
    await cluster.create("deployments", deployment(main, strategy={"type": "Recreate"}))
    await cluster.until("deployments", "web", rolled)
    new = {"spec": {"template": {"spec": {"containers": [{**main, "env": [{"name": "V", "value": "2"}]}]}}}}
    await cluster.merge("deployments", "web", new)
    seen = deployment_shape(await cluster.until("deployments", "web", rolled))
    await cluster.merge("deployments", "web", {"spec": {"replicas": 0}})
    none = await cluster.until("deployments", "web", lambda item: not item["status"].get("replicas"))
    return {"rolled": seen, "none": deployment_shape(none)}


def service(name: str = "web", **spec: Any) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {"metadata": {"name": name}, "spec": {"selector": WEB, "ports": ports, **spec}}


ASK = """
import socket, sys, time, urllib.request
def ask(url):
    end = time.monotonic() + 90
    while True:
        try:
            return urllib.request.urlopen(url, timeout=5).read().decode()
        except OSError as error:
            if time.monotonic() > end: return repr(error)
            time.sleep(0.2)
"""


async def names_lead_to_pods(cluster: Cluster) -> Json:
    body = pod(python(SERVE, **PORTS, **PROBE), name="server", labels=WEB)
    await cluster.create("pods", body)
    await cluster.create("services", service())
    await cluster.ready("server")
    ways = [
        "web",
        f"web.{cluster.namespace}",
        f"web.{cluster.namespace}.svc",
        f"web.{cluster.namespace}.svc.cluster.local",
    ]
    script = ASK + f"for name in {ways!r}: print(ask(f'http://{{name}}/'))\n"
    script += 'import os\nprint(ask(f\'http://{os.environ["WEB_SERVICE_HOST"]}:{os.environ["WEB_SERVICE_PORT"]}/\'))\n'
    script += "print(socket.gethostbyname('web') == os.environ['WEB_SERVICE_HOST'])\n"
    script += (
        "try: socket.gethostbyname('no-such-service')\nexcept socket.gaierror as error: print(error.errno)\n"
    )
    return {"lines": (await cluster.run(pod(python(script))))[1]}


async def service_without_pods(cluster: Cluster) -> Json:
    await cluster.create("services", service())
    script = "import socket\ntry: socket.create_connection(('web', 80), timeout=10)\n"
    script += "except OSError as error: print(repr(error))"
    return {"lines": (await cluster.run(pod(python(script))))[1]}


async def datagrams_without_pods(cluster: Cluster) -> Json:
    await cluster.create("services", service(ports=[{"name": "dns", "port": 53, "protocol": "UDP"}]))
    script = """
import socket
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(0.5)
client.connect((socket.gethostbyname('web'), 53))
for _ in range(60):  # the rule that refuses may come after the name
    try:
        client.send(b'x')
        print(client.recv(9))
    except TimeoutError:
        continue
    except OSError as error:
        print(repr(error))
    break
else:
    print('no answer')
"""
    return {"lines": (await cluster.run(pod(python(script))))[1]}


async def headless(cluster: Cluster) -> Json:
    await cluster.create("services", service("sub", clusterIP="None"))
    for name in ("one", "two"):
        body = pod(python(SERVE, **PORTS, **PROBE), name=name, labels=WEB, hostname=name, subdomain="sub")
        await cluster.create("pods", body)
    addresses = {(await cluster.ready(name))["status"]["podIP"] for name in ("one", "two")}
    script = f"""
import socket, time
def found(name):
    try: return sorted({{row[4][0] for row in socket.getaddrinfo(name, 80)}})
    except socket.gaierror: return []
wanted, end = {sorted(addresses)!r}, time.monotonic() + 90
while found('sub') != wanted and time.monotonic() < end: time.sleep(0.2)
print(found('sub') == wanted)
for name in ('one.sub', 'two.sub.{cluster.namespace}.svc.cluster.local'): print(found(name)[0] in wanted)
print(found('three.sub'))
"""
    return {"lines": (await cluster.run(pod(python(script))))[1]}


async def stable_names(cluster: Cluster) -> Json:
    await cluster.create("services", service(clusterIP="None"))
    body = deployment(python(SERVE, **PORTS, **PROBE), serviceName="web")
    await cluster.create("statefulsets", body)
    seen = await cluster.until("statefulsets", "web", lambda item: item["status"].get("readyReplicas") == 2)
    script = ASK + "for number in (0, 1): print(ask(f'http://web-{number}.web:8080/'))"
    lines = (await cluster.run(pod(python(script))))[1]
    names = [item["metadata"]["name"] for item in await cluster.items("pods", "app=web")]
    await cluster.delete("pods", "web-1")
    await cluster.until("statefulsets", "web", lambda item: item["status"].get("readyReplicas") == 1)
    await cluster.until("statefulsets", "web", lambda item: item["status"].get("readyReplicas") == 2)
    again = (await cluster.run(pod(python(script), name="again")))[1]
    counts = {name: seen["status"].get(name) for name in ("replicas", "currentReplicas", "updatedReplicas")}
    return {"lines": lines, "names": names, "again": again, "counts": counts}


async def two_pods_share_the_work(cluster: Cluster) -> Json:
    await cluster.create("deployments", deployment(python(SERVE, **PORTS, **PROBE)))
    await cluster.create("services", service())
    await cluster.until("deployments", "web", rolled)
    script = (
        ASK
        + """
seen, end = set(), time.monotonic() + 90
while len(seen) < 2 and time.monotonic() < end: seen.add(ask('http://web/'))
print(len(seen))
"""
    )
    return {"lines": (await cluster.run(pod(python(script))))[1]}
