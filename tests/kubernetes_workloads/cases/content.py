"""Content of a container: its environment, its volumes, its names."""

from steelyard_common.types import Json
from tests.kubernetes_workloads.cluster import Cluster, container, pod, shape


async def made(cluster: Cluster) -> None:
    await cluster.create(
        "configmaps", {"metadata": {"name": "settings"}, "data": {"a": "one", "b.txt": "two\n"}}
    )
    await cluster.create("secrets", {"metadata": {"name": "hidden"}, "stringData": {"key": "value"}})


def field(path: str) -> Json:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, divisor: str = "0") -> Json:
    return {"valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}}


async def environment(cluster: Cluster) -> Json:
    await made(cluster)
    env = [
        {"name": "X_VALUE", "value": "plain"},
        {"name": "X_EXPANDED", "value": "<$(X_VALUE)> $$(X_VALUE) $(X_ABSENT)"},
        {"name": "X_MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "X_SECRET", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "key"}}},
        {"name": "X_NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "key", "optional": True}}},
        {"name": "X_NAME", **field("metadata.name")},
        {"name": "X_LABEL", **field("metadata.labels['app']")},
        {"name": "X_NOTE", **field("metadata.annotations['note']")},
        {"name": "X_ACCOUNT", **field("spec.serviceAccountName")},
        {"name": "X_CPU", **resource("limits.cpu")},
        {"name": "X_MILLI", **resource("requests.cpu", "1m")},
        {"name": "X_MEMORY", **resource("limits.memory", "1Mi")},
    ]
    limits = {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "20m", "memory": "16Mi"}}
    froms = [
        {"prefix": "X_FROM_", "configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "no", "optional": True}},
    ]
    main = container("env | grep ^X_ | sort; echo $0 $1 $HOME", env=env, envFrom=froms, resources=limits)
    main["args"] = ["zero", "$(X_VALUE)-$$(X_VALUE)-$(X_ABSENT)"]
    body = pod(main, labels={"app": "web"})
    body["metadata"]["annotations"] = {"note": "a note"}
    return {"lines": (await cluster.run(body))[1]}


async def names_of_services(cluster: Cluster) -> Json:
    ports = [{"name": "http", "port": 80}, {"name": "other-port", "port": 81}]
    await cluster.create(
        "services", {"metadata": {"name": "my-web"}, "spec": {"ports": ports, "selector": {"a": "b"}}}
    )
    script = "env | grep -e ^MY_WEB -e ^KUBERNETES | sort"
    listed = (await cluster.run(pod(container(script))))[1]
    unlinked = (await cluster.run(pod(container(script), name="unlinked", enableServiceLinks=False)))[1]
    body = pod(container(script), name="no-token", automountServiceAccountToken=False)
    without = (await cluster.run(body))[1]
    names = [[line.partition("=")[0] for line in lines] for lines in (listed, unlinked, without)]
    return {"linked": names[0], "unlinked": names[1], "without a token": names[2]}


async def missing_config_map(cluster: Cluster) -> Json:
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    await cluster.create("pods", pod(container("echo $X", env=env)))

    def waits(item: Json) -> bool:
        return "CreateContainerConfigError" in str(item["status"].get("containerStatuses"))

    before = shape(await cluster.until("pods", "pod", waits))
    await made(cluster)
    return {"before": before, "after": shape(await cluster.ended()), "lines": await cluster.log()}


async def missing_key(cluster: Cluster) -> Json:
    await made(cluster)
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "c"}}}]
    await cluster.create("pods", pod(container("echo $X", env=env)))

    def waits(item: Json) -> bool:
        return "CreateContainerConfigError" in str(item["status"].get("containerStatuses"))

    seen = shape(await cluster.until("pods", "pod", waits))
    waiting = seen["containerStatuses.main"]["state"]["waiting"]
    waiting["message"] = waiting["message"].replace(cluster.namespace, "NAMESPACE")
    return seen


async def volumes(cluster: Cluster) -> Json:
    await made(cluster)
    listed = [
        {"name": "map", "configMap": {"name": "settings"}},
        {
            "name": "items",
            "configMap": {
                "name": "settings",
                "items": [{"key": "a", "path": "deep/er/a", "mode": 0o400}],
                "defaultMode": 0o640,
            },
        },
        {"name": "secret", "secret": {"secretName": "hidden", "defaultMode": 0o600}},
        {"name": "none", "configMap": {"name": "no", "optional": True}},
        {"name": "empty", "emptyDir": {}},
    ]
    mounts = [
        *({"name": row["name"], "mountPath": f"/v/{row['name']}"} for row in listed),
        {"name": "map", "mountPath": "/etc/one", "subPath": "a"},
        {"name": "empty", "mountPath": "/sub", "subPath": "x/y"},
        {"name": "empty", "mountPath": "/expr", "subPathExpr": "$(NAME)/z"},
        {"name": "empty", "mountPath": "/fixed", "readOnly": True},
    ]
    script = """
cd /v; for file in map/a map/b.txt items/deep/er/a secret/key; do
  echo $file $(stat -L -c %a $file) $(cat $file)
done
ls map items secret none
cat /etc/one; echo
echo x > /sub/f; echo y > /expr/f; (cd empty; find . -type f | sort)
touch /fixed/f 2>/dev/null || echo cannot write
touch map/new 2>/dev/null || echo cannot write a map
stat -c %a empty
"""
    main = container(script, env=[{"name": "NAME", "value": "n"}], volumeMounts=mounts)
    seen, lines = await cluster.run(pod(main, volumes=listed))
    return {"phase": seen["status"]["phase"], "lines": lines}


async def projected(cluster: Cluster) -> Json:
    await made(cluster)
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "conf/a"}]}},
        {"secret": {"name": "hidden"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
    ]
    down = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}},
        {
            "path": "cpu",
            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"},
        },
    ]
    listed = [
        {"name": "all", "projected": {"sources": sources}},
        {"name": "down", "downwardAPI": {"items": down}},
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("all", "down")]
    script = """
cd /all; cat conf/a; echo; cat key; echo; cat labels; echo; tr -dc . < token; echo
cd /down; cat name; echo; grep -v ^kubernetes.io/config notes; echo; cat cpu; echo
ls /var/run/secrets/kubernetes.io/serviceaccount
"""
    main = container(script, volumeMounts=mounts, resources={"limits": {"cpu": "250m"}})
    body = pod(main, volumes=listed, labels={"app": "web", "tier": "a-b"})
    body["metadata"]["annotations"] = {"note": 'say "so"\nagain'}
    return {"lines": (await cluster.run(body))[1]}


async def changed_volumes(cluster: Cluster) -> Json:
    """Change what the volumes of a running Pod show: all but a mount of one path follows, each volume at once."""
    await made(cluster)
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    sources = [{"secret": {"name": "hidden"}}, {"downwardAPI": {"items": [labels]}}]
    listed = [
        {"name": "map", "configMap": {"name": "settings"}},
        {"name": "maybe", "configMap": {"name": "later", "optional": True}},
        {"name": "items", "secret": {"secretName": "hidden", "items": [{"key": "key", "path": "deep/key"}]}},
        {"name": "all", "projected": {"sources": sources}},
    ]
    mounts = [
        *({"name": row["name"], "mountPath": f"/v/{row['name']}"} for row in listed),
        {"name": "map", "mountPath": "/one", "subPath": "a"},
    ]
    script = """
cd /v; echo ready; ls map maybe items all
(exec 3<map/a; until grep -q changed map/a && grep -q changed items/deep/key && grep -q changed all/key &&
  grep -q changed all/labels && test -e maybe/x; do sleep 0.1; done; echo held: $(cat <&3))
for file in map/a map/fresh items/deep/key all/key maybe/x /one; do echo $file $(stat -L -c %a $file) $(cat $file); done
cat all/labels; echo; ls map maybe items all
for volume in map maybe items all; do
  echo $volume $(ls -d $volume/..[0-9]* | wc -l) $(ls -A $volume | grep -v '^[.][.][0-9]')
  test "$(readlink $volume/..data)" = "$(cd $volume; ls -d ..[0-9]*)" && echo one version
done
readlink map/a; readlink items/deep
touch map/new 2>/dev/null || echo cannot write
"""
    main = container(script, volumeMounts=mounts)
    await cluster.create("pods", pod(main, volumes=listed, labels={"app": "web"}))
    await cluster.logged("ready")
    await cluster.merge("configmaps", "settings", {"data": {"a": "changed", "b.txt": None, "fresh": "new"}})
    await cluster.create("configmaps", {"metadata": {"name": "later"}, "data": {"x": "later"}})
    await cluster.merge("secrets", "hidden", {"stringData": {"key": "changed"}})
    await cluster.merge("pods", "pod", {"metadata": {"labels": {"app": "changed"}}})
    return {"pod": shape(await cluster.ended()), "lines": await cluster.log()}


async def late_volume(cluster: Cluster) -> Json:
    """Wait for a ConfigMap that a volume needs."""
    volume = [{"name": "map", "configMap": {"name": "settings"}}]
    mounts = [{"name": "map", "mountPath": "/map"}]
    await cluster.create("pods", pod(container("cat /map/a", volumeMounts=mounts), volumes=volume))

    def waits(item: Json) -> bool:
        return "waiting" in str(item["status"].get("containerStatuses"))

    before = shape(await cluster.until("pods", "pod", waits))
    await made(cluster)
    return {"before": before, "after": shape(await cluster.ended()), "lines": await cluster.log()}


async def host_aliases(cluster: Cluster) -> Json:
    aliases = [
        {"ip": "192.0.2.7", "hostnames": ["one.test", "two.test"]},
        {"ip": "192.0.2.8", "hostnames": ["one"]},
    ]
    script = "import socket\nfor name in ('one.test', 'two.test', 'one', 'localhost'): "
    script += "print(name, socket.gethostbyname(name))"
    main = {"name": "main", "image": "localhost/python:3", "command": ["python3", "-c", script]}
    seen, lines = await cluster.run(pod(main, hostAliases=aliases))
    listed = (
        await cluster.run(pod(container("grep 192.0.2 /etc/hosts"), name="listed", hostAliases=aliases))
    )[1]
    pairs = [[line.split()[0], name] for line in listed for name in line.split()[1:]]
    return {"pod": shape(seen), "lines": lines, "listed": pairs}


async def host_name(cluster: Cluster) -> Json:
    usual = (await cluster.run(pod(container("uname -n; cat /etc/hostname; echo $HOSTNAME"), name="usual")))[
        1
    ]
    own = (await cluster.run(pod(container("uname -n"), name="own", hostname="chosen", subdomain="sub")))[1]
    return {"usual": usual, "own": own}


async def working_directory(cluster: Cluster) -> Json:
    main = container("pwd", workingDir="/tmp")
    usual = container("pwd", "usual")
    await cluster.run(pod(main, usual))
    return {"chosen": await cluster.log(container="main"), "usual": await cluster.log(container="usual")}


async def user_and_group(cluster: Cluster) -> Json:
    context = {"runAsUser": 1234, "runAsGroup": 2345}
    seen, lines = await cluster.run(pod(container("id -u; id -g"), securityContext=context))
    return {"pod": shape(seen), "lines": lines}


async def read_only_root(cluster: Cluster) -> Json:
    main = container(
        "touch /tmp/x 2>/dev/null || echo refused", securityContext={"readOnlyRootFilesystem": True}
    )
    return {"lines": (await cluster.run(pod(main)))[1]}
