# ruff: noqa: E501 - a table is read by its rows
"""Refusals of CronJobs, Jobs, sets, autoscalers and claims, names that their Pods get, and warnings about templates."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_api.strange import CLAIM, INDEXED, METRIC, METRICS, POLICIES, SHARE, TARGET
from tests.kubernetes_differential.case import Case, merge, post
from tests.kubernetes_differential.samples import (
    APPS,
    BATCH,
    CONTAINER,
    CORE,
    DRY,
    LABELS,
    PODS,
    pod,
    template,
)

SETS, DAEMONS = f"{APPS}/statefulsets?{DRY}", f"{APPS}/daemonsets?{DRY}"
JOBS, CRON_JOBS = f"{BATCH}/jobs?{DRY}", f"{BATCH}/cronjobs?{DRY}"
SCALERS = "/apis/autoscaling/v2/namespaces/{{ns}}/horizontalpodautoscalers"
CLAIMS = f"{CORE}/persistentvolumeclaims?{DRY}"
SAID = ("message", "reason", "details.causes")
NEVER = template(restartPolicy="Never")
SELECTED: Json = {"selector": {"matchLabels": LABELS}, "template": template()}
VALUE: Json = {"type": "Value", "value": "1"}
AVERAGE: Json = {"type": "AverageValue", "averageValue": "1"}

SPREAD: Json = {"maxSkew": 1, "topologyKey": "beta.kubernetes.io/os", "whenUnsatisfiable": "DoNotSchedule"}
TERM: Json = {"topologyKey": "kubernetes.io/hostname"}
OLD_LABEL: Json = {"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}
WARNED: tuple[Json, ...] = (
    {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}, {"topologySpreadConstraints": [SPREAD]}, {"terminationGracePeriodSeconds": -1},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [OLD_LABEL]}, "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": OLD_LABEL}]}}},
    {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [TERM], "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]} for kind in ("podAffinity", "podAntiAffinity")}},
    {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}]}, {"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
    {"volumes": [{"name": "g", "gitRepo": {"repository": "r"}}, {"name": "r", "rbd": {"monitors": ["m"], "image": "i"}}, {"name": "c", "cephfs": {"monitors": ["m"]}}]},
    {"volumes": [{"name": "c", "configMap": {"name": "m", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}, {"key": "c", "path": "pq"}]}}, {"name": "s", "secret": {"secretName": "m", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p"}]}}]},
    {"volumes": [{"name": "p", "projected": {"sources": [{"configMap": {"name": "m", "items": [{"key": "a", "path": "token"}]}}, {"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "s", "items": [{"key": "a", "path": "token/x"}]}}]}}]},
    {"volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}}}}]},
    *({"containers": [{**CONTAINER, **fields}]} for fields in (
        {"env": [{"name": "A", "value": "a"}, {"name": "A", "value": "b"}, {"name": "A", "value": "$(A)b"}, {"name": "A", "value": "$(A)"}]},
        {"resources": {"limits": {"memory": "1500m", "ephemeral-storage": "1500m"}}}, {"ports": [{"containerPort": 80, "hostIP": "127.0.0.1"}]},
        {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80}, {"containerPort": 80, "hostPort": 8080}, {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}]},
    )),
    {"containers": [{**CONTAINER, "ports": [{"containerPort": 80, "name": "a"}]}, {**CONTAINER, "name": "other", "ports": [{"containerPort": 81, "name": "a"}]}]},
)  # fmt: skip
ANNOTATED: Json = {
    "scheduler.alpha.kubernetes.io/critical-pod": "",
    "security.alpha.kubernetes.io/sysctls": "",
}


def named(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def cron_job(name: str = "c", /, **spec: Any) -> Json:
    return named(name, **{"schedule": "* * * * *", "jobTemplate": {"spec": {"template": NEVER}}, **spec})


def indexed(name: str, completions: int, **spec: Any) -> Json:
    return named(name, completionMode="Indexed", completions=completions, template=NEVER, **spec)


def scaler(**spec: Any) -> Json:
    return named("h", **{"maxReplicas": 2, "scaleTargetRef": TARGET, **spec})


def metric(kind: str, source: str, **fields: Any) -> Json:
    return scaler(metrics=[{"type": kind, source: fields}])


def claim(**spec: Any) -> Json:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return named("c", **{name: value for name, value in whole.items() if value is not None})


def rows(*fields: Json | None) -> tuple[Any, ...]:
    return fields


def all_of(path: str, *objects: Json) -> list[Any]:
    return [post(path, obj, compare=SAID) for obj in objects]


CASES = [
    Case("names: of CronJobs", *all_of(CRON_JOBS, *[cron_job(name) for name in ("x" * 52, "x" * 53, "x" * 63, "x" * 64, "x" * 300, "a.b", "A", "-a", "")], cron_job("x" * 53, schedule="x"))),
    Case("names: of indexed Jobs", *all_of(JOBS, *[indexed("x" * length, count) for length in (59, 60, 61, 62, 63) for count in (0, 1, 10, 11, 101)], indexed("a.b", 2), indexed("a.b", 0), indexed("A", 1), named("x" * 63, template=NEVER), named("a.b", template=NEVER), named("x" * 64, template=NEVER), indexed("x" * 62, 1, parallelism=-1)),
         post(f"{BATCH}/jobs", indexed("x" * 60, 10, parallelism=0, suspend=True), compare=("kind", "message")), merge(f"{BATCH}/jobs/{'x' * 60}?{DRY}", {"spec": {"completions": 101, "parallelism": 101}}, compare=SAID), merge(f"{BATCH}/jobs/{'x' * 60}?{DRY}", {"spec": {"completions": 100, "parallelism": 100}}, compare=SAID)),
    Case("names: of sets", *[post(path, named(name, **SELECTED), compare=SAID) for path in (SETS, DAEMONS) for name in ("x" * 63, "x" * 64, "a.b", "A", "")]),
    Case("CronJobs: schedules", *all_of(CRON_JOBS, *[cron_job(schedule=text) for text in ("", "x", "* * * *", "60 * * * *", "*/0 * * * *", "1-70 * * * *", "@daily", "@every 5m", "@every x", "@reboot", "TZ=UTC * * * * *", "TZ=Nowhere * * * * *", "CRON_TZ=Europe/Berlin 5 * * * *", "CRON_TZ=UTC x", "* * * * * TZ", "* * * * 7", "* * 31 2 *", "5/x * * * *")])),
    Case("CronJobs: zones", *all_of(CRON_JOBS, *[cron_job(timeZone=name) for name in ("UTC", "Europe/Berlin", "europe/berlin", "", "Local", "local", "Nowhere", "../etc/passwd", "/etc/passwd", "-a/b", "a b", "x" * 15, "Etc/GMT+1", "America/Argentina/Buenos_Aires", "GMT", "Europe/")])),
    Case("CronJobs: fields", *all_of(CRON_JOBS, cron_job(startingDeadlineSeconds=-1), cron_job(concurrencyPolicy="foo"), cron_job(concurrencyPolicy=""), cron_job(successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1), cron_job(jobTemplate={"spec": {"template": template()}}), cron_job(jobTemplate={"spec": {**INDEXED, "selector": {"matchLabels": LABELS}, "manualSelector": True}}), cron_job(jobTemplate={}), cron_job(jobTemplate=None))),
    Case("CronJobs: changes", post(f"{BATCH}/cronjobs", cron_job(suspend=True, timeZone="UTC"), compare=("kind", "message")), *[merge(f"{BATCH}/cronjobs/c?{DRY}", {"spec": change}, compare=SAID) for change in rows({"timeZone": "Nowhere"}, {"timeZone": None}, {"schedule": "x"}, {"schedule": "TZ=UTC * * * * *"}, {"concurrencyPolicy": "foo"})]),
    Case("StatefulSets: updates", *[post(SETS, named("s", **SELECTED, updateStrategy=strategy), compare=(*SAID, "spec.updateStrategy")) for strategy in rows(None, {}, {"type": "RollingUpdate"}, {"type": "OnDelete"}, {"type": "OnDelete", "rollingUpdate": {"partition": 1}}, {"type": "foo"}, {"type": "foo", "rollingUpdate": {"partition": 2, "maxUnavailable": 1}}, {"rollingUpdate": {}}, {"rollingUpdate": {"partition": -1}}, {"rollingUpdate": {"maxUnavailable": 0}}, {"rollingUpdate": {"maxUnavailable": "x"}})]),
    Case("StatefulSets: fields", *all_of(SETS, *[named("s", **{**SELECTED, **fields}) for fields in rows(
         {"podManagementPolicy": "foo"}, {"podManagementPolicy": ""}, {"serviceName": "a.b"}, {"serviceName": "x" * 64}, {"serviceName": "A"}, {"ordinals": {"start": -1}}, {"ordinals": {}}, {"replicas": -1, "minReadySeconds": -1, "revisionHistoryLimit": -1},
         {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "foo"}}, {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "foo", "whenDeleted": "bar"}}, {"selector": {"matchLabels": {"a": "other"}}}, {"selector": {}}, {"selector": {"matchLabels": {"a b": "c"}}}, {"selector": None},
         {"template": template(hostname="A_b", subdomain="A_b")}, {"template": template(restartPolicy="Never", activeDeadlineSeconds=5)}, {"template": {**template(), "metadata": {"labels": {**LABELS, "a b": "c d"}, "annotations": {"a b": "c"}}}},
         {"volumeClaimTemplates": [{}]}, {"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["foo"]}}]}, {"volumeClaimTemplates": [CLAIM, {**CLAIM, "metadata": {"name": "v"}}]}, {"volumeClaimTemplates": [{**CLAIM, "metadata": {"name": "A_b"}}]})])),
    Case("StatefulSets: changes", post(f"{APPS}/statefulsets", named("s", **SELECTED, replicas=0, serviceName="s"), compare=("kind", "message")), *[merge(f"{APPS}/statefulsets/s?{DRY}", {"spec": change}, compare=SAID) for change in rows({"serviceName": "other"}, {"serviceName": "A b"}, {"podManagementPolicy": "Parallel"}, {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}, {"updateStrategy": {"type": "OnDelete"}}, {"ordinals": {"start": 3}}, {"volumeClaimTemplates": [CLAIM]}, {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}})]),
    Case("DaemonSets: updates", *[post(DAEMONS, named("d", **SELECTED, updateStrategy=strategy), compare=(*SAID, "spec.updateStrategy")) for strategy in rows(None, {}, {"type": "OnDelete"}, {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "x"}}, {"type": "foo"}, {"type": "foo", "rollingUpdate": {"maxUnavailable": "50%"}},
         *[{"rollingUpdate": rolling} for rolling in rows({}, {"maxUnavailable": 0}, {"maxUnavailable": 0, "maxSurge": 1}, {"maxSurge": 1}, {"maxSurge": "0%"}, {"maxUnavailable": "0%", "maxSurge": "5%"}, {"maxUnavailable": "101%"}, {"maxUnavailable": "x"}, {"maxUnavailable": "5"}, {"maxUnavailable": -1}, {"maxUnavailable": 0, "maxSurge": "200%"}, {"maxUnavailable": "1e3", "maxSurge": "5"})])]),
    Case("DaemonSets: fields", *all_of(DAEMONS, *[named("d", **{**SELECTED, **fields}) for fields in rows({"minReadySeconds": -1, "revisionHistoryLimit": -1}, {"selector": {"matchLabels": {"a": "other"}}}, {"selector": {}}, {"selector": None}, {"selector": {"matchLabels": {"a b": "c"}}}, {"template": template(restartPolicy="Never", activeDeadlineSeconds=5)}, {"minReadySeconds": -1, "updateStrategy": {"type": "foo"}, "revisionHistoryLimit": -1})])),
    Case("autoscalers: targets and numbers", *all_of(f"{SCALERS}?{DRY}", *[scaler(scaleTargetRef=reference) for reference in rows({}, {"kind": "a/b", "name": "..", "apiVersion": "apps/v1"}, {"kind": "D", "name": "d"}, {"kind": "D", "name": "d", "apiVersion": "v1"}, {"kind": "D", "name": "d", "apiVersion": "a/b/c"}, {"kind": "D", "name": "d", "apiVersion": "apps/"}, {"kind": "D", "name": "d", "apiVersion": "/v1"}, {"kind": "D", "name": "d", "apiVersion": "/"}, {"kind": "ReplicationController", "name": "r"}, {"kind": "ReplicationController", "name": "r", "apiVersion": "v2"}, {"kind": "ReplicationController", "name": "r", "apiVersion": "a/b/c"})],
         *[scaler(**numbers) for numbers in rows({"minReplicas": 0}, {"minReplicas": 0, "metrics": METRICS[3:4]}, {"minReplicas": 3}, {"maxReplicas": 0}, {"minReplicas": -1, "maxReplicas": -2})])),
    Case("autoscalers: behavior", *[post(f"{SCALERS}?{DRY}", scaler(behavior=behavior), compare=(*SAID, "spec.behavior")) for behavior in rows({}, {"scaleUp": {}}, {"scaleDown": None}, {"scaleUp": {"policies": []}}, {"scaleUp": {"policies": None}}, {"scaleUp": {"selectPolicy": "foo"}}, {"scaleUp": {"selectPolicy": ""}}, {"scaleDown": {"stabilizationWindowSeconds": -1}}, {"scaleDown": {"stabilizationWindowSeconds": 3601}}, {"scaleDown": {"stabilizationWindowSeconds": 3600}, "scaleUp": {"stabilizationWindowSeconds": 0}}, {"scaleUp": {"tolerance": "-1"}}, {"scaleUp": {"policies": [{}]}}, {"scaleUp": {"policies": [{"type": "foo", "value": -1, "periodSeconds": 1801}, *POLICIES]}}, {"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 0}]}})]),
    Case("autoscalers: kinds of metrics", *all_of(f"{SCALERS}?{DRY}", *[scaler(metrics=[one]) for one in rows({}, {"type": "foo"}, {"type": "foo", "resource": {"name": "cpu", "target": SHARE}}, {"type": "Resource"}, {"type": "Pods"}, {"type": "Object"}, {"type": "External"}, {"type": "ContainerResource"}, {"type": "Pods", "resource": {"name": "cpu", "target": SHARE}}, {"type": "Resource", "resource": {"name": "cpu", "target": SHARE}, "pods": {}}, {"type": "Pods", "pods": {}, "object": {}})])),
    Case("autoscalers: sources of metrics", *all_of(f"{SCALERS}?{DRY}",
         *[metric("Resource", "resource", **fields) for fields in rows({}, {"name": "cpu"}, {"name": "foo", "target": SHARE}, {"name": "cpu", "target": {**SHARE, "averageValue": "1"}}, {"name": "cpu", "target": {"type": "foo", "averageUtilization": 0}}, {"name": "cpu", "target": VALUE}, {"name": "cpu", "target": AVERAGE}, {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0"}}, {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "-1"}})],
         *[metric("ContainerResource", "containerResource", **fields) for fields in rows({}, {"name": "foo", "container": "A_b", "target": SHARE}, {"name": "a.b/c", "container": "c", "target": SHARE}, {"name": "a b", "container": "c", "target": SHARE}, {"name": "cpu", "container": "c", "target": {**SHARE, "averageValue": "1"}}, {"name": "cpu", "container": "c", "target": VALUE})],
         *[metric("Pods", "pods", **fields) for fields in rows({}, {"metric": {"name": "a/b"}, "target": AVERAGE}, {"metric": METRIC, "target": VALUE}, {"metric": {"name": "m", "selector": {"matchLabels": {"a b": "c"}}}, "target": AVERAGE})],
         *[metric("Object", "object", **fields) for fields in rows({}, {"metric": METRIC, "describedObject": {"kind": "Service", "name": "s"}, "target": VALUE}, {"metric": METRIC, "describedObject": {"kind": "a%b", "name": ".", "apiVersion": "a/b/c"}, "target": {**VALUE, "averageValue": "1"}}, {"metric": METRIC, "describedObject": TARGET, "target": SHARE})],
         *[metric("External", "external", **fields) for fields in rows({}, {"metric": METRIC, "target": {**VALUE, "averageValue": "1"}}, {"metric": METRIC, "target": SHARE}, {"metric": METRIC, "target": VALUE}, {"metric": {"name": ""}, "target": {"type": "Value", "value": "0"}})])),
    Case("autoscalers: changes", post(SCALERS, scaler(), compare=("kind", "message")), *[merge(f"{SCALERS}/h?{DRY}", {"spec": change}, compare=SAID) for change in rows({"minReplicas": 0}, {"scaleTargetRef": {"apiVersion": "v1"}}, {"scaleTargetRef": {"name": "a/b"}}, {"behavior": {}}, {"metrics": []}, {"metrics": [{}]})]),
    Case("claims: fields", *[post(CLAIMS, claim(**fields), compare=(*SAID, "spec")) for fields in rows(
         {"accessModes": None, "resources": None}, {"accessModes": ["foo", "ReadWriteOncePod"]}, {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, {"volumeMode": "foo"}, {"volumeMode": "Block"}, {"storageClassName": "A_b"}, {"storageClassName": ""}, {"volumeAttributesClassName": "A_b"}, {"selector": {"matchLabels": {"a b": "c"}}}, {"selector": {}},
         *[{"resources": {"requests": {"storage": size}}} for size in ("0", "-1", "1500m", "1Gi", "x")], {"resources": {"requests": {"cpu": "1"}, "limits": {"storage": "-1"}}})]),
    Case("images: pulled always or where they are not there", *[post(f"{PODS}?{DRY}", pod("p", containers=[{**CONTAINER, "image": image}]), compare=(*SAID, "spec.containers.0.imagePullPolicy")) for image in ("x", "x:latest", "x:1", "A_b", "ü", "x:", "a b", "x" * 300, "0" * 64, f"x@sha256:{'0' * 64}", f"x:latest@sha256:{'0' * 64}", f"x:1@sha256:{'0' * 64}", f"x:latest@md5:{'0' * 32}", "localhost:5000/a", "localhost:5000/a:1", "HOST/a", "a_b/c", "q.io/a//b", "[::1]:5000/x", f"q.io/{'x/' * 130}x")]),
    Case("devices: of volumes and of claims", *all_of(f"{PODS}?{DRY}", *[pod("p", **fields) for fields in rows(
         *[{"resourceClaims": [claimed]} for claimed in ({}, {"name": "A"}, {"name": "a", "resourceClaimName": "b"}, {"name": "a", "resourceClaimName": "B_", "resourceClaimTemplateName": ""}, {"name": "a", "resourceClaimTemplateName": "c"})], {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}] * 2},
         *[{"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}], "containers": [{**CONTAINER, **used}]} for used in rows({"volumeDevices": [{}]}, {"volumeDevices": [{"name": "x", "devicePath": "/x"}]}, {"volumeDevices": [{"name": "e", "devicePath": "/x"}]}, {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}, {"volumeDevices": [{"name": "v", "devicePath": "/x/../y"}]},
           {"volumeDevices": [{"name": "v", "devicePath": "/x"}] * 2}, {"volumeDevices": [{"name": "v", "devicePath": "/x"}], "volumeMounts": [{"name": "v", "mountPath": "/x"}]})])])),
    Case("Deployments: strategies", *all_of(f"{APPS}/deployments?{DRY}", *[named("d", **SELECTED, strategy=strategy) for strategy in rows({"type": "foo"}, {"type": "foo", "rollingUpdate": {"maxSurge": "5%"}}, {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}, {"type": ""})])),
    Case("bindings: groups of subjects", *all_of(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{{{{ns}}}}/rolebindings?{DRY}", *[{"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "a"}, "subjects": [subject]} for subject in rows({"kind": "User", "name": "a", "apiGroup": "x"}, {"kind": "User", "name": "a", "apiGroup": ""}, {"kind": "Group", "name": "a", "apiGroup": "x"}, {"kind": "ServiceAccount", "name": "a", "namespace": "n", "apiGroup": "x"}, {"kind": "foo", "name": "a", "apiGroup": "x"})])),
    Case("Pods: probes of two kinds", *all_of(f"{PODS}?{DRY}", *[pod("p", containers=[{**CONTAINER, "readinessProbe": probe}]) for probe in rows({"exec": {}, "httpGet": {"port": 80}}, {"httpGet": {"port": 0}, "exec": {"command": ["a"]}, "tcpSocket": {"port": 1}})])),
    Case("priorities: an empty policy", post(f"/apis/scheduling.k8s.io/v1/priorityclasses?{DRY}", {"metadata": {"name": "p"}, "value": 1, "preemptionPolicy": ""}, compare=SAID), post(f"{PODS}?{DRY}", pod("p", preemptionPolicy=""), compare=SAID)),
    Case("warnings: of Pods", post(f"{PODS}?{DRY}", pod("p", terminationGracePeriodSeconds=-1), compare=("spec.terminationGracePeriodSeconds",)), *all_of(f"{PODS}?{DRY}", *[pod("p", **fields) for fields in WARNED], pod("a.b"), pod("x" * 64), {"metadata": {"name": "p", "annotations": ANNOTATED}, "spec": pod("p")["spec"]})),
    Case("warnings: of templates", *all_of(f"{APPS}/deployments?{DRY}", *[named("d", **{**SELECTED, "template": template(**fields)}) for fields in WARNED], named("a.b", **SELECTED)), *all_of(f"{APPS}/replicasets?{DRY}", named("a.b", **{**SELECTED, "template": template(**WARNED[0])})),
         *all_of(SETS, named("s", **{**SELECTED, "revisionHistoryLimit": -1, "template": template(**WARNED[0]), "volumeClaimTemplates": [{**CLAIM, "spec": claim(resources={"requests": {"storage": "1500m"}})["spec"]}]})), *all_of(DAEMONS, named("a.b", **{**SELECTED, "template": template(**WARNED[0])})),
         *all_of(JOBS, named("j", template=template(restartPolicy="Never", **WARNED[0])), indexed("j", 100_001, parallelism=10_001)), *all_of(CRON_JOBS, cron_job("a.b", jobTemplate={"spec": {"template": template(restartPolicy="Never", **WARNED[0])}})),
         *all_of(f"{CORE}/replicationcontrollers?{DRY}", named("a.b", selector=LABELS, template=template(**WARNED[0]))), *all_of(f"{CORE}/podtemplates?{DRY}", {"metadata": {"name": "t"}, "template": template(**WARNED[0])}), *all_of(CLAIMS, claim(resources={"requests": {"storage": "1500m"}, "limits": {"storage": "2500m"}}))),
    Case("warnings: of changes", *[step for plural, change in ((f"{APPS}/deployments", {"replicas": 0}), (f"{APPS}/statefulsets", {"replicas": 0}), (f"{CORE}/pods", {"activeDeadlineSeconds": 100})) for obj in ([pod("w", **WARNED[0])] if plural.endswith("pods") else [named("w", **{**SELECTED, "replicas": 1, "template": template(**WARNED[0])})])
         for step in (post(plural, obj, compare=("message",)), merge(f"{plural}/w?{DRY}", {"metadata": {"labels": {"x": "y"}}}, compare=("message",)), merge(f"{plural}/w?{DRY}", {"spec": change}, compare=("message",)))]),
    Case("claims: sources", *[post(CLAIMS, claim(**fields), compare=(*SAID, "spec")) for fields in rows(
         {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}, {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a"}}, {"dataSource": {"kind": "VolumeSnapshot", "name": "a", "apiGroup": "snapshot.storage.k8s.io"}}, {"dataSource": {"kind": "Foo", "name": "a", "apiGroup": "a.b"}}, {"dataSourceRef": {"kind": "Foo", "name": "a", "apiGroup": "a.b"}}, {"dataSourceRef": {"kind": "Foo", "name": "a", "apiGroup": "A_b"}}, {"dataSourceRef": {"kind": "Foo", "name": "a"}}, {"dataSource": {"kind": "Foo", "name": "a"}, "dataSourceRef": {"kind": "Foo"}},
         {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"}}, {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"}}, {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"}}, {"dataSource": {}}, {"dataSourceRef": {}})]),
]  # fmt: skip
