"""The table of the cluster client's fields: values at the edges of each one's rule, how others are drawn, and the
objects that a configuration with them becomes.

The objects are made without the client's checks, by the client's own code: an API server then says whether it takes
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from steelyard.clusters import (
    ClusterConfig,
    GcsFaultTolerance,
    HeadGroup,
    NewClaim,
    Resources,
    SecretKey,
    Toleration,
)
from steelyard.clusters.ray.manifest import pod_template, ray_cluster
from steelyard.clusters.ray.names import head_service
from steelyard.clusters.ray.volumes import Volume
from steelyard_common.types import Json

Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Field:
    """One field. `checked` makes a configuration with a value or raises BadConfig; `raw` makes it as it is.

    `stricter` lists values that the client refuses although an API server takes them, with the reason.
    """

    checked: Make
    raw: Make
    edges: Sequence[Any]
    drawn: st.SearchStrategy[Any]
    stricter: Callable[[Any], str] = lambda value: ""


def texts(alphabet: str, longest: int = 66) -> st.SearchStrategy[str]:
    """Texts of a few characters that matter for a rule, some of them near its limit of length."""
    short = st.text(alphabet, max_size=8)
    return st.one_of(
        short, st.builds(lambda end, n: "a" * n + end, short, st.integers(longest - 12, longest))
    )


NAME = texts("aZ0-._ é", 256)
LABEL_NAME = texts("az0-._A")
KEY = st.one_of(texts("aA0-._/ é"), st.builds("{}/{}".format, texts("aA0.-", 255), texts("aA0-._")))
VALUE = texts("aA0-._ é/")
VARIABLE = texts("aA0-._ =é", 20)
# With a digit and without blanks around: KubeRay's definition refuses others, as the client does, though the core API
# cuts blanks off and reads a unit alone as 0.
AMOUNT = st.one_of(
    st.builds(
        "{}{}".format,
        st.integers(-2, 5000),
        st.sampled_from(["", "m", "k", "Ki", "Gi", "n", "e3", "E", "X"]),
    ),
    st.text("0123456789.-+eEKMGimu", max_size=6).filter(lambda text: not text or any(map(str.isdigit, text))),
)
NAMES = [
    "a",
    "a-b",
    "a.b",
    "A",
    "a_b",
    "-a",
    "a-",
    "a..b",
    "1a",
    "",
    "é",
    "a" * 63,
    "a" * 64,
    "a" * 253,
    "a" * 254,
]
KEYS = ["a", "A.b_c-1", "example.com/a", "a b", "/a", "a/", "a/b/c", "Example.com/a", "a" * 63, "a" * 64, "", "-a",
        f"{'a' * 253}/b", f"{'a' * 254}/b", "a\n"]  # fmt: skip
VALUES = ["", "a", "A.b_c", "a b", "-a", "a-", "a" * 63, "a" * 64, "é", "a\n"]
AMOUNTS = ["1", "100m", "1.5Gi", "2e3", ".5", "-1", "-1u", "1 Gi", "1gb", "abc", "1Kii", "", "0.1n", "0", "5.", "+1",
           "1e-3", "1E", "1e", "9223372036854775807", "9223372036854775808", "0x1", "1_0", "١"]  # fmt: skip
PATHS = ["/a", "/", "", "a", "/a:b", "/é", "/a/../b"]


def cluster(**values: Any) -> ClusterConfig:
    return ClusterConfig(**{"name": "a", **values})


def raw_cluster(**values: Any) -> ClusterConfig:
    return ClusterConfig.model_construct(**{"name": "a", **values})


def _cluster_field(
    name: str, edges: Sequence[Any], drawn: st.SearchStrategy[Any], of: Make = lambda v: v
) -> Field:
    return Field(lambda v: cluster(**{name: of(v)}), lambda v: raw_cluster(**{name: of(v)}), edges, drawn)


def _head_field(
    name: str, edges: Sequence[Any], drawn: st.SearchStrategy[Any], of: Make = lambda v: v
) -> Field:
    return Field(
        lambda v: cluster(head=HeadGroup(**{name: of(v)})),
        lambda v: raw_cluster(head=HeadGroup.model_construct(**{name: of(v)})),
        edges,
        drawn,
    )


def _resource_field(edges: Sequence[Any], drawn: st.SearchStrategy[Any], of: Make) -> Field:
    return Field(
        lambda v: cluster(head=HeadGroup(resources=Resources(**of(v)))),
        lambda v: raw_cluster(head=HeadGroup.model_construct(resources=Resources.model_construct(**of(v)))),
        edges,
        drawn,
    )


def _toleration_field(edges: Sequence[Any], drawn: st.SearchStrategy[Any], of: Make) -> Field:
    return Field(
        lambda v: cluster(head=HeadGroup(tolerations=(Toleration(**of(v)),))),
        lambda v: raw_cluster(
            head=HeadGroup.model_construct(tolerations=(Toleration.model_construct(**of(v)),))
        ),
        edges,
        drawn,
    )


def _volume_field(
    edges: Sequence[Any],
    drawn: st.SearchStrategy[Any],
    of: Make,
    stricter: Callable[[Any], str] = lambda value: "",
) -> Field:
    """Return the field of a volume; `of` gives the volume's fields for a value."""

    def raw(value: Any) -> ClusterConfig:
        fields = {"name": "a", "mount_path": "/a", "source": {"emptyDir": {}}, **of(value)}
        return raw_cluster(volumes=(Volume.model_construct(**fields),))

    def checked(value: Any) -> ClusterConfig:
        fields = {"name": "a", "mount_path": "/a", "source": {"emptyDir": {}}, **of(value)}
        return cluster(volumes=(Volume(**fields),))

    return Field(checked, raw, edges, drawn, stricter)


def _source_field(name: str, source: Callable[[str], Json]) -> Field:
    sized = "size" in name
    return _volume_field(
        AMOUNTS if sized else NAMES, AMOUNT if sized else NAME, lambda v: {"source": source(v)}
    )


def _claim_field(name: str, edges: Sequence[Any], drawn: st.SearchStrategy[Any]) -> Field:
    return Field(
        lambda v: NewClaim(**{"name": "a", "size": "1Gi", name: v}),
        lambda v: NewClaim.model_construct(**{"name": "a", "size": "1Gi", name: v}),
        edges,
        drawn,
    )


def _redis(value: str, field: str) -> Json:
    return {"redis_address": "redis:6379", "redis_password": {"name": "a", "key": "a", field: value}}


def _raw_redis(value: str, field: str) -> ClusterConfig:
    fields: Json = {"name": "a", "key": "a", field: value}
    password = SecretKey.model_construct(**fields)
    return raw_cluster(
        gcs_fault_tolerance=GcsFaultTolerance.model_construct(
            redis_address="redis:6379", redis_password=password
        )
    )


SOURCES: dict[str, Callable[[str], Json]] = {
    "a claim": lambda v: {"persistentVolumeClaim": {"claimName": v}},
    "a secret": lambda v: {"secret": {"secretName": v}},
    "a config map": lambda v: {"configMap": {"name": v}},
    "a size of scratch space": lambda v: {"emptyDir": {"sizeLimit": v}},
}
PAIR = st.tuples(AMOUNT, AMOUNT)
PAIRS = [("1", "1"), ("2", "1"), ("1000m", "1"), ("1", "0"), ("0", "0"), ("2Gi", "1Gi"), ("1e3", "1k")]
FIELDS: dict[str, Field] = {
    "name": _cluster_field("name", [*NAMES[:11], "a" * 50], texts("az0-._A", 50)),
    "namespace": _cluster_field("namespace", NAMES[:13], LABEL_NAME),
    "queue": _cluster_field("queue", NAMES, NAME),
    "priority_class": _cluster_field("priority_class", NAMES, NAME),
    "key of a label": _cluster_field("labels", KEYS, KEY, lambda v: {v: ""}),
    "value of a label": _cluster_field("labels", VALUES, VALUE, lambda v: {"a": v}),
    "key of an annotation": _cluster_field("annotations", KEYS, KEY, lambda v: {v: ""}),
    "value of an annotation": _cluster_field(
        "annotations", ["é" * 131071, "é" * 131072, "a" * 262143, "a" * 262144], st.text(), lambda v: {"a": v}
    ),
    "variable": _cluster_field("env", ["A", "a.b", "a-b", "", "1a", "a b", "=", "é"], VARIABLE, lambda v: {v: ""}),
    "pull secret": _cluster_field("image_pull_secrets", NAMES, NAME, lambda v: (v,)),
    "service account": _cluster_field("service_account", NAMES, NAME),
    "key of a Pod's label": _head_field("labels", KEYS, KEY, lambda v: {v: ""}),
    "value of a Pod's label": _head_field("labels", VALUES, VALUE, lambda v: {"a": v}),
    "key of a Pod's annotation": _head_field("annotations", KEYS, KEY, lambda v: {v: ""}),
    "key of a node's label": _head_field("node_selector", KEYS, KEY, lambda v: {v: ""}),
    "value of a node's label": _head_field("node_selector", VALUES, VALUE, lambda v: {"a": v}),
    "cpu": _resource_field(AMOUNTS, AMOUNT, lambda v: {"cpu": v}),
    "request and limit of cpu": _resource_field(PAIRS, PAIR, lambda v: {"cpu": v[0], "cpu_limit": v[1]}),
    "accelerator": _resource_field(
        ["nvidia.com/gpu", "gpu", "cpu", "pods", "a b", "hugepages-2Mi", "a.kubernetes.io/b", "kubernetes.io/x",
         "a/b/c", "requests.nvidia.com/gpu", f"a.b/{'c' * 63}", f"a.b/{'c' * 64}", f"{'a' * 243}/b", f"{'a' * 245}/b"],
        KEY, lambda v: {"accelerators": {v: 1}},
    ),
    "key of a toleration": _toleration_field(KEYS, KEY, lambda v: {"key": v}),
    "value of a toleration": _toleration_field(VALUES, VALUE, lambda v: {"key": "a", "value": v}),
    "operator, value and effect of a toleration": _toleration_field(
        [("", "Equal", "", "", None), ("", "Exists", "", "", None), ("a", "Exists", "b", "", None),
         ("a", "Equal", "b", "NoExecute", 5), ("a", "Equal", "b", "NoSchedule", 5),
         ("a", "Exists", "", "NoExecute", -1)],
        st.tuples(st.sampled_from(["", "a"]), st.sampled_from(["Equal", "Exists"]), st.sampled_from(["", "b"]),
                  st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]), st.sampled_from([None, 5, -5])),
        lambda v: dict(zip(("key", "operator", "value", "effect", "seconds"), v, strict=True)),
    ),
    "name of a volume": _volume_field(NAMES, LABEL_NAME, lambda v: {"name": v}),
    "path of a volume": _volume_field(
        ["/a", "/", "", "/a:b", "/é", "/a/../b"], st.text("/a.:", max_size=6).map("/{}".format),
        lambda v: {"mount_path": v},
        lambda v: "the Pod API's own description forbids colons" if ":" in v else "",
    ),
    "path in a volume": _volume_field(
        ["", "a", "/a", "a/../b", "..", "a..b", "a:b"], st.text("/a.:", max_size=6), lambda v: {"sub_path": v}
    ),
    **{name: _source_field(name, source) for name, source in SOURCES.items()},
    "name of a secret with a password": Field(
        lambda v: cluster(gcs_fault_tolerance=GcsFaultTolerance(**_redis(v, "name"))),
        lambda v: _raw_redis(v, "name"), NAMES, NAME,
    ),
    "key of a secret with a password": Field(
        lambda v: cluster(gcs_fault_tolerance=GcsFaultTolerance(**_redis(v, "key"))), lambda v: _raw_redis(v, "key"),
        ["a", "A_b.c-d", "", "a b", "..", "a" * 253, "a" * 254, "é", "/", "."], texts("aA0-._ /é", 256),
    ),
    "name of a claim": _claim_field("name", NAMES, NAME),
    "size of a claim": _claim_field("size", AMOUNTS, AMOUNT),
    "storage class": _claim_field("storage_class", NAMES, NAME),
}  # fmt: skip


def objects(config: Any) -> Iterator[tuple[str, Json]]:
    """Yield the objects of a configuration that an API server checks, each with the path to post it to.

    A RayCluster's Pods and Service are made by its operator: where these are refused, it never starts.
    """
    core = "/api/v1/namespaces/default"
    if isinstance(config, NewClaim):
        yield (
            f"{core}/persistentvolumeclaims",
            {"kind": "PersistentVolumeClaim", **config.manifest("default")},
        )
        return
    if config.namespace is not None:
        yield "/api/v1/namespaces", {"metadata": {"name": config.namespace}}
    for name in _named(config):
        # An object of this name has to be possible: one that is not there yet may come.
        yield f"{core}/configmaps", {"metadata": {"name": name}}
    manifest = ray_cluster(config, "default", config.queue)
    yield "/apis/ray.io/v1/namespaces/default/rayclusters", manifest
    yield f"{core}/configmaps", {"metadata": {**manifest["metadata"], "namespace": "default"}}
    yield (
        f"{core}/services",
        {"metadata": {"name": head_service(config.name)}, "spec": {"ports": [{"port": 1}]}},
    )
    template = pod_template(config, config.head, head=True)
    options = manifest["spec"].get("gcsFaultToleranceOptions", {})
    if password := options.get("redisPassword"):
        template["spec"]["containers"][0]["env"].append({"name": "REDIS_PASSWORD", **password})
    # An account that is not there is refused whatever its name.
    template["spec"].pop("serviceAccountName", None)
    metadata = {"name": "a", **template.get("metadata", {})}
    yield f"{core}/pods", {"metadata": metadata, "spec": template["spec"]}


def _named(config: ClusterConfig) -> Iterator[str]:
    """Yield the names of other objects that a configuration holds."""
    yield from config.image_pull_secrets
    yield from (
        name for name in (config.queue, config.priority_class, config.service_account) if name is not None
    )
    if config.gcs_fault_tolerance is not None and config.gcs_fault_tolerance.redis_password is not None:
        yield config.gcs_fault_tolerance.redis_password.name
    for volume in config.volumes:
        for field, key in (
            ("persistentVolumeClaim", "claimName"),
            ("secret", "secretName"),
            ("configMap", "name"),
        ):
            if field in volume.source:
                yield volume.source[field][key]
