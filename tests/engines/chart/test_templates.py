"""The chart's templates: every shape and every value gives objects, and a wrong value is named."""

import base64
import itertools
import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy.rights import RIGHTS
from steelyard.accounts.secrets import read_keys
from steelyard.local.process import SERVICES
from steelyard_common.types import Json
from tests.engines.build import helm
from tests.engines.chart.helm import CHART, ProgramFailed, named, pods, template, template_text
from tests.pod_security import can_read_secret, containers, restricted_faults

SERVERS: Json = {
    "engines": {
        "log": "kafka://kafka:9092/steelyard",
        "accounts": "postgresql://steelyard@postgres/steelyard",
        "view": "mongodb://mongo/steelyard",
        "storage": "s3://steelyard",
        "backup": "s3://steelyard-backup",
        "secret": "engines",
        "storageSecret": "store",
    }
}
ENDING: Json = {
    "backup": {"schedule": "15 3 * * *"},
    "restore": {"from": "s3://old/backup"},
    "secretKeys": {"existingSecret": "keys"},
}
"""Values that switch on the Jobs of backup and restore."""
JOBS: dict[str, Json] = {
    "standalone": {**ENDING, "engines": {"backup": "s3://b"}, "persistence": {"existingClaim": "claim"}},
    "large": {**ENDING, **SERVERS, "shape": "large"},
}
SHAPES: dict[str, Json] = {
    "standalone": {},
    "small": {"shape": "small", **SERVERS},
    "large": {"shape": "large", **SERVERS},
}


def test_helm_finds_no_fault() -> None:
    command = [str(helm()), "lint", "--strict", "--kube-version", "1.34.4", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kubernetes", ["1.30.0", "1.36.0"])
def test_every_pod_keeps_to_the_restricted_standard(shape: str, kubernetes: str) -> None:
    for pod in pods(template(SHAPES[shape] | (JOBS.get(shape) or {}), kubernetes)):
        assert restricted_faults(pod) == []
        assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in containers(pod))
        for volume in pod["volumes"]:
            assert "secret" not in volume or can_read_secret(pod, volume)


def test_secrets_that_the_chart_makes_are_of_the_form_that_the_platform_reads(tmp_path: Path) -> None:
    secrets = named(template({}), "Secret")
    keys = base64.b64decode(secrets["steelyard-keys"]["data"]["secret-keys"]).decode()
    assert not {"-", "_"} & set(keys)
    (tmp_path / "keys").write_text(keys)
    read_keys(tmp_path / "keys")
    assert len(base64.b64decode(secrets["steelyard-administrator"]["data"]["token"])) >= 32
    credentials = json.loads(base64.b64decode(secrets["steelyard-storage"]["data"]["credentials"]))
    secret = base64.b64decode(secrets["steelyard-storage"]["data"]["secret-key"]).decode()
    assert credentials["AWS_SECRET_ACCESS_KEY"] == secret


@pytest.mark.parametrize("shape", JOBS)
def test_backup_and_restore_have_the_place_of_other_pods_and_no_account(shape: str) -> None:
    placed = {"pods": {"nodeSelector": {"disk": "fast"}}, "images": {"pullSecrets": ["mine"]}}
    objects = template(JOBS[shape] | placed)
    [policy] = [
        obj for obj in objects if obj["kind"] == "NetworkPolicy" and obj["metadata"]["name"] == "steelyard"
    ]
    jobs = [*named(objects, "CronJob").values(), *named(objects, "Job").values()]
    assert {job["metadata"]["name"] for job in jobs} >= {"steelyard-backup", "steelyard-restore"}
    for job in jobs:
        whole = job["spec"].get("jobTemplate", job)["spec"] if job["kind"] == "CronJob" else job["spec"]
        pod, labels = whole["template"]["spec"], whole["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert pod["automountServiceAccountToken"] is False
        assert pod["nodeSelector"] == {"disk": "fast"}
        assert pod["imagePullSecrets"] == [{"name": "mine"}]
        assert pod["containers"][0]["resources"]["limits"]
        mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        if job["metadata"]["name"] != "steelyard-prepare":
            assert mounts == {"settings", "tmp", "keys", *(["state"] if shape == "standalone" else [])}


def test_a_backup_runs_on_the_node_that_mounts_the_claim() -> None:
    def affinity(values: Json) -> Json:
        [cron] = named(template(values), "CronJob").values()
        spec: Json = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        rules: Json = spec.get("affinity", {})
        return rules

    [term] = affinity(JOBS["standalone"])["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    platform = named(template({}), "Deployment")["steelyard-platform"]["spec"]["template"]["metadata"][
        "labels"
    ]
    assert term["labelSelector"]["matchLabels"].items() <= platform.items()
    assert affinity(JOBS["large"]) == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_only_parts_that_call_kubernetes_have_an_account(shape: str) -> None:
    objects = template(SHAPES[shape])
    with_account = {
        name.removeprefix("steelyard-")
        for name, deployment in named(objects, "Deployment").items()
        if deployment["spec"]["template"]["spec"].get("automountServiceAccountToken") is not False
    }
    assert with_account == (
        {"operator", "orchestrator", "informer"} if shape == "large" else {"operator", "platform"}
    )
    accounts = {name.removeprefix("steelyard-") for name in named(objects, "ServiceAccount")}
    assert accounts == {*with_account, "services"}


@pytest.mark.parametrize(("shape", "part"), [("standalone", "platform"), ("large", "orchestrator")])
def test_secrets_of_the_registry_reach_the_part_that_copies_them_and_its_pods(shape: str, part: str) -> None:
    objects = template(SHAPES[shape] | {"images": {"pullSecrets": ["mine"]}})
    readers = {
        name: [volume["projected"]["sources"] for volume in pod["volumes"] if volume["name"] == "pull"]
        for name, deployment in named(objects, "Deployment").items()
        if (pod := deployment["spec"]["template"]["spec"])
        and any("PULL_SECRETS" in variable["name"] for variable in pod["containers"][0]["env"])
    }
    source = {"secret": {"name": "mine", "items": [{"key": ".dockerconfigjson", "path": "mine"}]}}
    assert readers == {f"steelyard-{part}": [[source]]}
    settings = tomllib.loads(named(objects, "ConfigMap")["steelyard-settings"]["data"]["steelyard.toml"])
    assert settings["pods"] == {"pull_secrets": ["mine"]}


def test_rights_for_some_kinds_of_work_are_given_where_they_are_asked_for() -> None:
    def rules(values: Json) -> list[Json]:
        rules: list[Json] = named(template(values), "ClusterRole")["steelyard:steelyard-operator"]["rules"]
        return rules

    asked = ("mpi", "elastic", "ray")
    plain = rules({})
    assert plain == [right.rule() for right in RIGHTS["operator"]]
    for name in asked:
        assert rules({"rights": {name: True}}) == [*plain, *(right.rule() for right in RIGHTS[name])]


@pytest.mark.parametrize(
    ("ray", "ports"),
    [
        ({}, {"webhooks": 9443}),
        ({"listen": "0.0.0.0:9444", "login": ":8081"}, {"webhooks": 9444, "login": 8081}),
    ],
    ids=["by default", "with logins, at ports of the settings"],
)
def test_the_side_of_ray_is_reached_where_it_listens(ray: Json, ports: dict[str, int]) -> None:
    objects = template({"rights": {"ray": True}, "settings": {"operator": {"ray": ray}}})
    service, policy = (named(objects, kind)["steelyard-ray"] for kind in ("Service", "NetworkPolicy"))
    outside = {"webhooks": 443, "login": 80}
    assert service["spec"]["ports"] == [
        {"name": name, "port": outside[name], "targetPort": port} for name, port in ports.items()
    ]
    assert {port["port"] for port in policy["spec"]["ingress"][0]["ports"]} == {*ports.values()}
    pod = named(objects, "Deployment")["steelyard-operator"]["spec"]["template"]
    for selector in (service["spec"]["selector"], policy["spec"]["podSelector"]["matchLabels"]):
        assert selector.items() <= pod["metadata"]["labels"].items()
    text = named(objects, "ConfigMap")["steelyard-settings"]["data"]["steelyard.toml"]
    assert tomllib.loads(text)["operator"]["ray"] == {"service": "steelyard/steelyard-ray", **ray}


def test_without_the_rights_for_ray_nothing_of_it_is_there() -> None:
    assert not any("steelyard-ray" in obj["metadata"]["name"] for obj in template({}))


VALUES: dict[str, tuple[Json, str]] = {
    "images.registry": ({"images": {"registry": "r.example/x"}}, "image: r.example/x/operator"),
    "images.tag": ({"images": {"tag": "2"}}, "operator:2"),
    "images.pullPolicy": ({"images": {"pullPolicy": "Always"}}, "imagePullPolicy: Always"),
    "images.pullSecrets": ({"images": {"pullSecrets": ["mine"]}}, "- name: mine"),
    "images.names": ({"images": {"names": {"platform": "p@sha256:1"}}}, "image: p@sha256:1"),
    "images.runners": ({"images": {"runners": {"runner-vllm": "r/vllm:1"}}}, 'runner-vllm = "r/vllm:1"'),
    "settings": ({"settings": {"api": {"access_log": True}}}, "access_log = true"),
    "persistence.existingClaim": ({"persistence": {"existingClaim": "mine"}}, "claimName: mine"),
    "persistence.storageClass": ({"persistence": {"storageClass": "fast"}}, "storageClassName: fast"),
    "administrator": ({"administrator": {"existingSecret": "mine"}}, "name: mine, key: token"),
    "secretKeys": ({"secretKeys": {"existingSecret": "mine"}}, "secretName: mine"),
    "api.publicUrl": ({"api": {"publicUrl": "https://s.example"}}, 'public_url = "https://s.example"'),
    "api.signedUrls": ({"api": {"signedUrls": "store"}}, 'signed_urls = "store"'),
    "api.service": ({"api": {"service": {"type": "NodePort", "nodePort": 30800}}}, "nodePort: 30800"),
    "api.ingress": ({"api": {"ingress": {"enabled": True, "tlsSecret": "tls"}}}, "secretName: tls"),
    "api.route": ({"api": {"route": {"enabled": True, "gateway": "g"}}}, "kind: HTTPRoute"),
    "pods.labels": ({"pods": {"labels": {"team": "a"}}}, "team: a"),
    "pods.annotations": ({"pods": {"annotations": {"note": "a"}}}, "note: a"),
    "pods.nodeSelector": ({"pods": {"nodeSelector": {"disk": "fast"}}}, "disk: fast"),
    "pods.tolerations": ({"pods": {"tolerations": [{"key": "k"}]}}, "key: k"),
    "pods.affinity": ({"pods": {"affinity": {"nodeAffinity": {"here": 1}}}}, "here: 1"),
    "pods.priorityClassName": ({"pods": {"priorityClassName": "high"}}, "priorityClassName: high"),
    "pods.runtimeClassName": ({"pods": {"runtimeClassName": "gvisor"}}, "runtimeClassName: gvisor"),
    "backup.schedule": (JOBS["standalone"], 'schedule: "15 3 * * *"'),
    "backup.resources": (
        {**JOBS["standalone"], "backup": {"schedule": "@daily", "resources": {"limits": {"memory": "3Gi"}}}},
        "memory: 3Gi",
    ),
    "restore.from": (JOBS["standalone"], '"--from","s3://old/backup"'),
    "engines.backup": (JOBS["standalone"], 'backup = "s3://b"'),
    "engines.mirror": ({"engines": {"mirror": "s3://m"}}, 'mirror = "s3://m"'),
    "serviceAccount": ({"serviceAccount": {"existing": "mine"}}, "serviceAccountName: mine"),
    "work.podSecurity": ({"work": {"podSecurity": "baseline"}}, 'enforce" = "baseline"'),
    "work.egress": ({"work": {"egress": [{"ports": [{"port": 9000}]}]}}, r"{\"port\":9000}"),
    "networkPolicies.apiFrom": (
        {"networkPolicies": {"apiFrom": [{"podSelector": {"matchLabels": {"a": "gate"}}}]}},
        "a: gate",
    ),
    "networkPolicies.metricsFrom": (
        {"networkPolicies": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "watch"}}}]}},
        "a: watch",
    ),
    "podMonitor": (
        {"podMonitor": {"enabled": True, "labels": {"a": "b"}, "tokenSecret": "figures"}},
        "kind: PodMonitor",
    ),
    "podMonitor.tokenSecret": ({"podMonitor": {"tokenSecret": "figures"}}, "name: figures, key: token"),
    "storageServer": (
        {"storageServer": {"existingSecret": "mine"}},
        "{name: mine, key: secret-key}",
    ),
    "work.exceptAddresses": ({"work": {"exceptAddresses": ["34.1.0.0/16"]}}, r"\"34.1.0.0/16\""),
    "pods.securityContext": ({"pods": {"securityContext": {"runAsUser": 7}}}, "runAsUser: 7"),
    "api.ingress.host": (
        {"api": {"ingress": {"enabled": True, "host": "s.example", "tlsSecret": "t"}}},
        'public_url = "https://s.example"',
    ),
    "certificateAuthorities": ({"certificateAuthorities": {"configMap": "roots"}}, "name: roots"),
    "extraEnv": ({"parts": {"operator": {"extraEnv": [{"name": "MORE", "value": "b"}]}}}, "name: MORE"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_shows_in_the_objects(name: str) -> None:
    values, seen = VALUES[name]
    assert seen in template_text(values)
    assert seen not in template_text({})


@pytest.mark.parametrize("off", ["customResourceDefinitions", "disruptionBudgets", "networkPolicies"])
def test_what_is_switched_off_is_not_made(off: str) -> None:
    kinds = {
        "customResourceDefinitions": "CustomResourceDefinition",
        "disruptionBudgets": "PodDisruptionBudget",
        "networkPolicies": "NetworkPolicy",
    }
    value = {"enabled": False} if off == "networkPolicies" else False
    assert named(template({off: {"enabled": True} if off == "networkPolicies" else True}), kinds[off])
    assert not named(template({off: value}), kinds[off])


def test_a_platform_of_a_cluster_that_gives_out_users_names_none() -> None:
    values = {"pods": {"securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}}
    for pod in pods(template(values)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(pod["securityContext"])


def test_the_api_is_asked_by_its_own_port_whether_it_is_ready() -> None:
    for shape, values in SHAPES.items():
        for name, deployment in named(template(values), "Deployment").items():
            [container] = deployment["spec"]["template"]["spec"]["containers"]
            serves = "http" in {port["name"] for port in container["ports"]}
            assert container["readinessProbe"]["httpGet"]["port"] == ("http" if serves else "metrics"), (
                shape,
                name,
            )


def test_authorities_are_trusted_by_all_pods_of_the_platform() -> None:
    values = SHAPES["large"] | {"certificateAuthorities": {"configMap": "roots"}}
    for obj in template(values):
        if obj["kind"] in ("Deployment", "Job") and "operator" not in obj["metadata"]["name"]:
            [container] = obj["spec"]["template"]["spec"]["containers"]
            assert "SSL_CERT_FILE" in {entry["name"] for entry in container["env"]}, obj["metadata"]["name"]
            assert "authorities" in {mount["name"] for mount in container["volumeMounts"]}


def test_pods_of_workflows_are_bounded_whether_those_of_the_release_are_or_not() -> None:
    assert "__EGRESS" in template_text({"networkPolicies": {"enabled": False}})
    assert "__EGRESS" not in template_text({"work": {"bounded": False}})


def test_names_of_settings_stand_beside_those_of_the_chart() -> None:
    text = template_text({"settings": {"api": {"hosts": ["mine.example"]}}})
    [line] = [line for line in text.splitlines() if "hosts = " in line]
    assert '"steelyard-api"' in line
    assert '"mine.example"' in line


def test_large_has_a_deployment_for_each_service() -> None:
    receiver = {"settings": {"telemetry": {"openlineage_url": "https://lineage.example"}}}
    expected = {f"steelyard-{name}" for name in (*SERVICES, "operator") if name != "storage"}
    assert set(named(template(SHAPES["large"] | receiver), "Deployment")) == expected
    deployments = named(template(SHAPES["large"]), "Deployment")
    assert set(deployments) == expected - {"steelyard-lineage"}
    budgets = named(template(SHAPES["large"]), "PodDisruptionBudget")
    assert set(budgets) == {
        name for name, deployment in deployments.items() if deployment["spec"]["replicas"] > 1
    }


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"shape": "big"}, "shape"),
        ({"shpae": "small"}, "shpae"),
        ({"shape": "small"}, "engines.storage"),
        ({"shape": "small", "engines": {"storage": "s3://b", "secret": "e"}}, "engines.log"),
        ({"shape": "large", "engines": {"storage": "s3://b", "log": "kafka://h:9092/p"}}, "engines.accounts"),
        ({"engines": {"log": "kafka://user:hunter2@h:9092/p"}}, "engines.log: has a password"),
        ({"settings": {"api": {"administrator_token": "x"}}}, "settings.api.administrator_token"),
        ({"podMonitor": {"enabled": True}}, "podMonitor.tokenSecret"),
        ({"api": {"service": {"nodePort": 30800}}}, "api.service.nodePort"),
        ({"api": {"service": {"port": 70000}}}, "port"),
        ({"api": {"route": {"enabled": True}}}, "api.route.gateway"),
        ({"parts": {"operator": {"replicas": -1}}}, "replicas"),
        ({"backup": {"schedule": "@daily"}}, "engines.backup: is missing"),
        (
            {**JOBS["standalone"], "persistence": {"accessMode": "ReadWriteOncePod", "existingClaim": "c"}},
            "persistence.accessMode",
        ),
        ({"restore": {"files": "s3://m"}}, "restore.from: is missing"),
        ({"restore": {"from": "s3://m"}}, "secretKeys.existingSecret: is missing"),
        ({"restore": {"from": "s3://u:p@m"}}, "restore.from: has a password"),
        (
            {"restore": {"from": "s3://m"}, "secretKeys": {"existingSecret": "k"}},
            "persistence.existingClaim: is missing",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_a_wrong_value_is_named(values: Json, said: str) -> None:
    with pytest.raises(ProgramFailed, match=said):
        template(values)


def test_selectors_of_policies_budgets_and_services_meet_the_pods() -> None:
    for shape, values in SHAPES.items():
        objects = template(values)
        labels = [
            obj["spec"]["template"]["metadata"]["labels"] for obj in objects if obj["kind"] == "Deployment"
        ]
        selectors = itertools.chain(
            (obj["spec"]["selector"] for obj in objects if obj["kind"] == "Service"),
            (
                obj["spec"]["selector"]["matchLabels"]
                for obj in objects
                if obj["kind"] == "PodDisruptionBudget"
            ),
            (obj["spec"]["podSelector"]["matchLabels"] for obj in objects if obj["kind"] == "NetworkPolicy"),
        )
        for selector in selectors:
            assert any(selector.items() <= pod.items() for pod in labels), (shape, selector)
