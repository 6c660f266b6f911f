# ruff: noqa: E501 - a table is read by its rows
"""Rows of what must be served that no other file has: reviews, protobuf, kinds, namespaces, subresources, access."""

from collections.abc import Mapping

from steelyard_common.types import Json
from tests.kubernetes_differential.case import PROTOBUF, Case, Until, delete, get, merge, post, put
from tests.kubernetes_differential.samples import (
    APPS,
    BATCH,
    CORE,
    DRY,
    LABELS,
    PODS,
    container,
    cron_job,
    deployment,
    job,
    pod,
    service,
    template,
)

Fields = Mapping[int, "Value | list[Value]"]
Value = int | str | bytes | Fields


def encoded(fields: Fields) -> bytes:
    """A message of protobuf: numbers as varints, texts, and messages."""
    content = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                content += varint(number << 3) + varint(value)
                continue
            raw = (
                value.encode()
                if isinstance(value, str)
                else value
                if isinstance(value, bytes)
                else encoded(value)
            )
            content += varint(number << 3 | 2) + varint(len(raw)) + raw
    return content


def varint(value: int) -> bytes:
    content = bytearray()
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    content.append(value)
    return bytes(content)


def envelope(version: str, kind: str, fields: Fields) -> bytes:
    return b"k8s\0" + encoded({1: {1: version, 2: kind}, 2: encoded(fields), 3: "", 4: ""})


def labels(**pairs: str) -> list[Value]:
    return [{1: key, 2: value} for key, value in pairs.items()]


PB_TEMPLATE: Fields = {1: {11: labels(app="a")}, 2: {2: {1: "main", 2: "localhost/none:1"}}}
PB_ONCE: Fields = {1: {11: labels(app="a")}, 2: {2: {1: "main", 2: "localhost/none:1"}, 3: "Never"}}
DEPLOYMENTS, JOBS, SERVICES = f"{APPS}/deployments", f"{BATCH}/jobs", f"{CORE}/services"
CRON_JOBS = f"{BATCH}/cronjobs"
WORDS = ("message", "reason", "details", "code", "kind", "spec")
KINDS: dict[str, tuple[str, Json]] = {
    "StatefulSet": (f"{APPS}/statefulsets", {"spec": {"replicas": 0, "serviceName": "s", "selector": {"matchLabels": LABELS}, "template": template()}}),
    "DaemonSet": (f"{APPS}/daemonsets", {"spec": {"selector": {"matchLabels": LABELS}, "template": template()}}),
    "ControllerRevision": (f"{APPS}/controllerrevisions", {"revision": 1, "data": {"a": 1}}),
    "CronJob": (f"{BATCH}/cronjobs", {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}}}),
    "ReplicationController": (f"{CORE}/replicationcontrollers", {"spec": {"replicas": 0, "selector": LABELS, "template": template()}}),
    "Endpoints": (f"{CORE}/endpoints", {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]}),
    "PersistentVolumeClaim": (f"{CORE}/persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    "ResourceQuota": (f"{CORE}/resourcequotas", {"spec": {"hard": {"pods": "2"}}}),
    "LimitRange": (f"{CORE}/limitranges", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}),
    "PodTemplate": (f"{CORE}/podtemplates", {"template": template()}),
    "Ingress": ("/apis/networking.k8s.io/v1/namespaces/{{ns}}/ingresses", {"spec": {"rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1/namespaces/{{ns}}/networkpolicies", {"spec": {"podSelector": {}}}),
    "PodDisruptionBudget": ("/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets", {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}}),
    "CSIStorageCapacity": ("/apis/storage.k8s.io/v1/namespaces/{{ns}}/csistoragecapacities", {"storageClassName": "x"}),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2/namespaces/{{ns}}/horizontalpodautoscalers", {"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
    "Lease": ("/apis/coordination.k8s.io/v1/namespaces/{{ns}}/leases", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5}}),
    "Role": ("/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles", {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}, "subjects": []}),
    "IngressClass": ("/apis/networking.k8s.io/v1/ingressclasses", {"spec": {"controller": "a.b/c"}}),
    "StorageClass": ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "a.b/c"}),
    "PersistentVolume": ("/api/v1/persistentvolumes", {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}}),
    "CSIDriver": ("/apis/storage.k8s.io/v1/csidrivers", {"spec": {}}),
    "RuntimeClass": ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "x"}),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 5}),
    "MutatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", {"webhooks": []}),
    "ValidatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"webhooks": []}),
    "ValidatingAdmissionPolicy": ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["foos"]}]}, "validations": [{"expression": "true"}]}}),
    "APIService": ("/apis/apiregistration.k8s.io/v1/apiservices", {}),
}  # fmt: skip


def kept(kind: str, path: str, obj: Json) -> Case:
    name = "{{ns}}" if "{{ns}}" not in path else "a"
    one = f"{path}/{name}"
    return Case(f"kinds: {kind}", post(path, obj | {"metadata": {"name": name}}, compare=("kind", "apiVersion", "spec", "message", "reason", "metadata.generation", "status")), get(one, compare=("kind", "apiVersion")), get(f"{path}?fieldSelector=metadata.name={name}", compare=("kind", "apiVersion", "items.0.metadata.name")),
                merge(one, {"metadata": {"labels": {"a": "b"}}}, compare=("metadata.labels", "message")), post(f"{path}?{DRY}", {"metadata": {"name": "b"}, "spec": 5}), delete(one, compare=("kind", "status", "message")))  # fmt: skip


def specs(*rows: Json) -> tuple[Json, ...]:
    return rows


REVIEW = "/apis/authorization.k8s.io/v1"
CASES = [
    *[kept(kind, path, obj) for kind, (path, obj) in KINDS.items()],
    Case("reviews: access", *[post(f"{REVIEW}/selfsubjectaccessreviews", {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}, compare=("kind", "apiVersion", "spec", "status.allowed", "message", "reason")) for spec in specs(
         {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}, {"nonResourceAttributes": {"path": "/x", "verb": "get"}}, {}, {"resourceAttributes": {}, "nonResourceAttributes": {}})]),
    Case("reviews: others", post(f"{REVIEW}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, compare=("kind", "status.incomplete", "message")), post(f"{REVIEW}/selfsubjectrulesreviews", {"spec": {}}, compare=("kind", "message")), post(f"{REVIEW}/subjectaccessreviews", {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}, compare=("kind", "status.allowed", "message")),
         post(f"{REVIEW}/namespaces/{{{{ns}}}}/localsubjectaccessreviews", {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{{ns}}"}}}, compare=("kind", "status.allowed", "message")), post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, compare=("kind", "apiVersion")), post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}, compare=("kind", "status.authenticated", "status.error", "message")),
         post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}, compare=("kind", "message"))),
    Case("access: tokens", Until(f"{CORE}/serviceaccounts/default", compare=("kind",)), post(f"{CORE}/serviceaccounts/default/token", {"spec": {}}, name="made", compare=("kind", "apiVersion", "spec.expirationSeconds")), get(PODS, token="{{made:status.token}}"), get("/version", token="{{made:status.token}}", compare=("major",)),
         post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "{{made:status.token}}"}}, compare=("status.authenticated", "status.user.username", "status.user.groups")), post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token="{{made:status.token}}", compare=("status.userInfo.username", "status.userInfo.groups"))),
    Case("access: nobody", get(PODS, token=""), get(PODS, token="wrong"), get("/version", token="", compare=("major",)), get("/healthz", token=""), get("/api", token="")),
    Case("access: a role for an account", post(f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}}, compare=("kind",)), post(f"{CORE}/serviceaccounts/a/token", {"spec": {}}, name="made", compare=("kind",)), get(PODS, token="{{made:status.token}}"),
         post("/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles", {"metadata": {"name": "r"}, "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]}, compare=("kind",)),
         post("/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/rolebindings", {"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "{{ns}}"}]}, compare=("kind",)),
         get("/api/v1/namespaces/kube-public", compare=("kind",)), get(PODS, token="{{made:status.token}}", compare=("kind", "message")), get(f"{CORE}/services", token="{{made:status.token}}"), delete(PODS, token="{{made:status.token}}")),
    Case("protobuf: bodies", post("/api/v1/namespaces", envelope("v1", "Namespace", {1: {2: "pb-"}}), type=PROTOBUF), post(f"{CORE}/configmaps", envelope("v1", "ConfigMap", {1: {1: "a", 11: labels(x="y")}, 2: labels(k="v")}), type=PROTOBUF), post(f"{CORE}/secrets", envelope("v1", "Secret", {1: {1: "a"}, 2: labels(k="v"), 3: "Opaque"}), type=PROTOBUF),
         post(DEPLOYMENTS, envelope("apps/v1", "Deployment", {1: {1: "d"}, 2: {1: 2, 2: {1: labels(app="a")}, 3: PB_TEMPLATE}}), type=PROTOBUF, compare=WORDS), post(JOBS, envelope("batch/v1", "Job", {1: {1: "j"}, 2: {6: PB_ONCE, 10: 1}}), type=PROTOBUF, compare=("kind", "spec.suspend", "spec.parallelism", "message")),
         post(f"{CORE}/configmaps", b"k8s\0\xff\xff", type=PROTOBUF), post(f"{CORE}/configmaps", b"{}", type=PROTOBUF)),
    Case("protobuf: answers", get(f"{CORE}/configmaps", accept=f"{PROTOBUF},application/json", compare=("x",)), get(f"{CORE}/configmaps/absent", accept=f"{PROTOBUF},application/json", compare=("x",)), get("/api/v1", accept=f"{PROTOBUF},application/json", compare=("x",))),
    Case("namespaces: contents", Until(f"{CORE}/serviceaccounts/default", compare=("kind", "metadata.name")), Until(f"{CORE}/configmaps/kube-root-ca.crt", compare=("metadata.annotations",)), get("/api/v1/namespaces/{{ns}}", compare=("spec", "status", "metadata.labels"))),
    Case("namespaces: of the system", *[get(path, compare=("kind", "metadata.name", "metadata.labels", "spec.ports", "message")) for path in ("/api/v1/namespaces/default", "/api/v1/namespaces/kube-public", "/api/v1/namespaces/kube-node-lease", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default/services/kubernetes")], delete("/api/v1/namespaces/default"), delete("/api/v1/namespaces/kube-system"), namespaced=False),
    Case("namespaces: ended", post("/api/v1/namespaces", {"metadata": {"name": "{{ns}}-x"}}), post("/api/v1/namespaces/{{ns}}-x/configmaps", {"metadata": {"name": "a", "finalizers": ["a.b/c"]}}, compare=("kind",)), delete("/api/v1/namespaces/{{ns}}-x", compare=("kind", "status.phase")), Until("/api/v1/namespaces/{{ns}}-x", {"status.phase": "Terminating"}, compare=("status.phase",)),
         post("/api/v1/namespaces/{{ns}}-x/configmaps", {"metadata": {"name": "b"}}), merge("/api/v1/namespaces/{{ns}}-x/configmaps/a", {"metadata": {"finalizers": None}}, compare=("kind",)), Until("/api/v1/namespaces/{{ns}}-x", status=404, seconds=55)),
    Case("namespaces: finalize", post("/api/v1/namespaces", {"metadata": {"name": "{{ns}}-y"}, "spec": {"finalizers": ["a.b/c", "kubernetes"]}}), delete("/api/v1/namespaces/{{ns}}-y", compare=("kind",)), put("/api/v1/namespaces/{{ns}}-y/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{ns}}-y"}, "spec": {"finalizers": []}}, compare=("kind", "message")), Until("/api/v1/namespaces/{{ns}}-y", status=404)),
    Case("subresources: scale", post(DEPLOYMENTS, deployment("d", replicas=0), compare=("kind",)), get(f"{DEPLOYMENTS}/d/scale", compare=("kind", "apiVersion", "spec", "metadata.name")), merge(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}), put(f"{DEPLOYMENTS}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 0}}, compare=("kind", "spec")), get(f"{DEPLOYMENTS}/absent/scale")),
    Case("subresources: binding", post(PODS, pod("p"), compare=("kind",)), post(f"{PODS}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": ""}}), post(f"{PODS}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "absent"}}),
         get(f"{PODS}/p", compare=("spec.nodeName", "status.conditions.0.type", "status.conditions.0.status")), post(f"{PODS}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "other"}}), get(f"{PODS}/p/log"), get(f"{PODS}/absent/log"), get(f"{PODS}/p/log?container=x"), get(f"{PODS}/p/log?tailLines=-1")),
    Case("subresources: eviction", post(PODS, pod("p"), compare=("kind",)), post(f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}), post(f"{PODS}/absent/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "absent"}}), post(f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}})),
    Case("subresources: ephemeral containers", post(PODS, pod("p"), compare=("kind",)), merge(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}, compare=("spec.ephemeralContainers", "message")), merge(f"{PODS}/p", {"spec": {"ephemeralContainers": [{"name": "f", "image": "x"}]}}, compare=("message",))),
    Case("services: ports", *[post(f"{SERVICES}?{DRY}", service("s", *ports), compare=WORDS) for ports in ([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}], [{"port": 80, "name": "a"}, {"port": 80, "name": "b", "protocol": "UDP"}], [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}], [{"port": 80}, {"port": 81}], [{"port": 0}], [{"port": 80, "targetPort": "A_b"}],
         [{"port": 80, "targetPort": 70000}], [{"port": 80, "protocol": "foo"}], [{"port": 80, "nodePort": 30000}], [{"port": 80, "name": "A"}], [{"port": 80, "appProtocol": "a b"}])]),
    Case("services: types", *[post(f"{SERVICES}?{DRY}", service("s", **spec), compare=WORDS) for spec in specs({"type": "NodePort"}, {"type": "LoadBalancer"}, {"type": "ExternalName", "externalName": "a.b", "ports": []}, {"type": "ExternalName"}, {"type": "foo"}, {"clusterIP": "None"}, {"clusterIP": "x"}, {"clusterIP": "1.2.3.4"}, {"clusterIP": ""}, {"sessionAffinity": "ClientIP"},
         {"sessionAffinity": "foo"}, {"externalIPs": ["127.0.0.1"]}, {"externalIPs": ["1.2.3.4"]}, {"ipFamilyPolicy": "RequireDualStack"}, {"internalTrafficPolicy": "Local"}, {"publishNotReadyAddresses": True}, {"selector": {"a b": "c"}}, {"externalTrafficPolicy": "Local"}, {"loadBalancerIP": "x"}, {"healthCheckNodePort": 5}, {"trafficDistribution": "PreferClose"})]),
    Case("pods: defaults", post(PODS, pod("p")), post(f"{PODS}?{DRY}", container(image="a/b@sha256:" + "0" * 64)), post(f"{PODS}?{DRY}", container(livenessProbe={"httpGet": {"port": 80}})), post(f"{PODS}?{DRY}", container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})), post(f"{PODS}?{DRY}", pod("q", initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always"}])),
         post(f"{PODS}?{DRY}", pod("q", volumes=[{"name": "a", "configMap": {"name": "x"}}, {"name": "b", "secret": {"secretName": "x"}}, {"name": "c"}, {"name": "d", "downwardAPI": {"items": []}}, {"name": "e", "projected": {"sources": []}}, {"name": "f", "hostPath": {"path": "/x"}}]))),
    Case("pods: scheduling", *[post(f"{PODS}?{DRY}", pod("p", **spec), compare=WORDS) for spec in specs({"schedulingGates": [{"name": "a"}]}, {"schedulingGates": [{"name": "A_ b"}]}, {"schedulingGates": [{"name": "a"}], "nodeName": "x"}, {"hostNetwork": True}, {"priority": 5}, {"priorityClassName": "absent"}, {"priorityClassName": "system-node-critical"}, {"runtimeClassName": "absent"},
         {"serviceAccountName": "absent"}, {"automountServiceAccountToken": False}, {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}]}, {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}, {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}},
         {"tolerations": [{"key": "a", "operator": "foo"}]}, {"tolerations": [{"operator": "Equal", "value": "x"}]}, {"hostAliases": [{"ip": "x"}]}, {"dnsPolicy": "None"}, {"dnsPolicy": "foo"}, {"os": {"name": "foo"}}, {"setHostnameAsFQDN": True, "hostname": "A"}, {"shareProcessNamespace": True, "hostPID": True}, {"preemptionPolicy": "foo"}, {"overhead": {"cpu": "1"}}, {"resources": {"limits": {"cpu": "1"}}})]),
    Case("jobs: defaults and rules", *[post(f"{JOBS}?{DRY}", job("j", **spec), compare=("message", "reason", "details", "code", "spec", "metadata.labels", "status")) for spec in specs({}, {"completions": 5, "completionMode": "Indexed"}, {"backoffLimitPerIndex": 0}, {"backoffLimitPerIndex": 0, "completions": 2, "completionMode": "Indexed"}, {"maxFailedIndexes": 1}, {"podFailurePolicy": {"rules": []}},
         {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}}, {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}, {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}, {"successPolicy": {"rules": [{"succeededIndexes": "0-3", "succeededCount": 9}]}, "completions": 3, "completionMode": "Indexed"},
         {"managedBy": "a.b/c"}, {"managedBy": "x"}, {"podReplacementPolicy": "Failed"}, {"podReplacementPolicy": "foo"}, {"selector": {"matchLabels": LABELS}}, {"manualSelector": True, "selector": {"matchLabels": LABELS}}, {"backoffLimit": -1}, {"template": template()}, {"template": template(restartPolicy="Never", schedulingGates=[{"name": "a"}])})]),
    Case("jobs: policies", *[post(f"{JOBS}?{DRY}", job("j", **spec), compare=WORDS) for spec in specs(
        *({"podFailurePolicy": {"rules": [rule]}} for rule in (
            {"action": "FailJob"}, {"action": "Sleep", "onExitCodes": {"operator": "In", "values": [1]}}, {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "FailJob", "onExitCodes": {"operator": "Near", "values": [1]}}, {"action": "FailJob", "onExitCodes": {"operator": "In", "values": []}},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0, 3, 2, 2]}}, {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "other"}},
            {"action": "Count", "onPodConditions": [{"type": "A b"}]}, {"action": "Count", "onPodConditions": [{"type": "Ready", "status": "Maybe"}]},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}, "onPodConditions": [{"type": "Ready"}]},
        )),
        {"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}, {"podFailurePolicy": {"rules": []}, "template": template(restartPolicy="OnFailure")},
        *({"completions": 3, "completionMode": "Indexed", **more} for more in specs(
            {"successPolicy": {"rules": []}}, {"successPolicy": {"rules": [{}]}}, {"successPolicy": {"rules": [{"succeededIndexes": "2-1"}]}}, {"successPolicy": {"rules": [{"succeededIndexes": "1,0"}]}},
            {"successPolicy": {"rules": [{"succeededIndexes": "a"}]}}, {"successPolicy": {"rules": [{"succeededIndexes": "0-1-2"}]}}, {"successPolicy": {"rules": [{"succeededCount": -1}]}},
            {"maxFailedIndexes": 4, "backoffLimitPerIndex": 1}, {"maxFailedIndexes": 1}, {"completions": 100001, "backoffLimitPerIndex": 1, "parallelism": 10001},
        )),
        {"managedBy": ""}, {"managedBy": "a.b/" + "c" * 70},
    )]),
    Case("cron jobs: schedules", *[post(f"{CRON_JOBS}?{DRY}", cron_job(**spec), compare=WORDS) for spec in specs(
        *({"schedule": text} for text in ("", "* * * *", "60 * * * *", "* * 0 * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *", "1/2/3 * * * *", "1-2-3 * * * *", "x * * * *", "@often", "@every day", "@every 90s", "TZ=UTC * * * * *", "0 0 * jan mon-fri")),
        *({"timeZone": zone} for zone in ("", "Europe/Berlin", "Mars/Olympus", "local", "../etc")),
        {"concurrencyPolicy": "Maybe"}, {"startingDeadlineSeconds": -1}, {"successfulJobsHistoryLimit": -1},
    )]),
    Case("jobs: changed", post(JOBS, job("j"), compare=("kind",)), *[merge(f"{JOBS}/j?{DRY}", {"spec": spec}, compare=("message", "reason", "details")) for spec in specs({"completions": 3}, {"parallelism": 3}, {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}, {"template": {"metadata": {"labels": {"a": "b"}}}}, {"selector": None}, {"backoffLimit": 2}, {"suspend": False}, {"completionMode": "Indexed"}, {"ttlSecondsAfterFinished": 1}, {"activeDeadlineSeconds": 5})]),
    Case("deployments: changed", post(DEPLOYMENTS, deployment("d", replicas=0), compare=("kind",)), *[merge(f"{DEPLOYMENTS}/d?{DRY}", {"spec": spec}, compare=("message", "reason", "details", "spec", "metadata.generation")) for spec in specs({"selector": {"matchLabels": {"b": "c"}}}, {"replicas": None}, {"template": None}, {"strategy": {"type": "Recreate", "rollingUpdate": None}}, {"template": {"metadata": {"labels": {"app": "b"}}}}, {"paused": True})]),
    Case("events: forms", *[post(f"{path}?{DRY}", obj) for path, obj in ((f"{CORE}/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "{{ns}}"}}), (f"{CORE}/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "other"}}), (f"{CORE}/events", {"metadata": {"name": "e"}}),
         ("/apis/events.k8s.io/v1/namespaces/{{ns}}/events", {"metadata": {"name": "e"}, "regarding": {"namespace": "{{ns}}"}}), ("/apis/events.k8s.io/v1/namespaces/{{ns}}/events", {"metadata": {"name": "e"}, "regarding": {"namespace": "{{ns}}"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "type": "Normal", "reportingController": "a.b/c", "reportingInstance": "i"}))]),
    Case("secrets: forms", *[post(f"{CORE}/secrets?{DRY}", {"metadata": {"name": "s"}, **obj}) for obj in ({"data": {"a": "eA=="}}, {"data": {"a": "eA=\n="}}, {"data": {"a": "x"}}, {"data": {"a": None}}, {"stringData": {"a": "b"}, "data": {"a": "eA=="}}, {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": ""}}, {"type": "kubernetes.io/dockerconfigjson"},
         {"type": "kubernetes.io/basic-auth"}, {"type": "kubernetes.io/ssh-auth"}, {"type": "kubernetes.io/service-account-token"}, {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}, {"data": {"a b": "eA=="}})]),
]  # fmt: skip
