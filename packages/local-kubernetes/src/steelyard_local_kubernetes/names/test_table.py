"""The table of names and ports of a cluster's Services and Pods."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.names.hosts import SLOT
from steelyard_local_kubernetes.names.table import is_readable, names, table


def make_service(name: str = "s", ip: str = "127.9.128.1", **spec: object) -> Json:
    ports = [{"port": 80, "targetPort": 8000}]
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterIP": ip, "ports": ports, **spec}}


def make_slice(*addresses: str, service: str = "s", ready: bool = True, **endpoint: object) -> Json:
    endpoints = [
        {"addresses": [address], "conditions": {"ready": ready}, **endpoint} for address in addresses
    ]
    return {
        "metadata": {"name": "x", "namespace": "ns", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": endpoints,
        "ports": [{"name": "", "port": 8000}],
    }


def test_a_cluster_ip_has_the_services_name_and_forwards_to_ready_pods() -> None:
    names = table(
        [make_service()], [make_slice("127.9.0.1", "127.9.0.2"), make_slice("127.9.0.3", ready=False)]
    )
    assert names.entries == (("127.9.128.1", ("s.ns.svc.cluster.local", "s.ns.svc", "s.ns")),)
    assert names.forwards == {("127.9.128.1", 80): (("127.9.0.1", 8000), ("127.9.0.2", 8000))}


def test_the_apis_own_service_is_spare_and_no_other() -> None:
    own = make_service("kubernetes", ports=[{"port": 443}])
    assert table([own, make_service(ip="127.9.128.2")], []).spare == frozenset()
    own["metadata"]["namespace"] = "default"
    assert table([own, make_service(ip="127.9.128.2")], []).spare == {("127.9.128.1", 443)}


def test_a_headless_service_is_its_ready_pods() -> None:
    names = table(
        [make_service(ip="None")],
        [make_slice("127.9.0.1", "127.9.0.2"), make_slice("127.9.0.3", ready=False)],
    )
    assert [address for address, _ in names.entries] == ["127.9.0.1", "127.9.0.2"]
    assert names.forwards == {}


def test_a_pods_hostname_stands_below_a_headless_service() -> None:
    service = make_service(ip="None")
    by_name = table([service], [make_slice("127.9.0.1", hostname="demo-0")])
    assert ("127.9.0.1", names(service, "demo-0")) in by_name.entries
    assert names(service, "demo-0")[1] == "demo-0.s.ns.svc"


def test_ports_are_matched_by_name() -> None:
    service = make_service(
        ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}, {"port": 9, "protocol": "UDP"}]
    )
    one = {**make_slice("127.9.0.1"), "ports": [{"name": "b", "port": 9000}]}
    assert table([service], [one]).forwards == {
        ("127.9.128.1", 80): (),
        ("127.9.128.1", 81): (("127.9.0.1", 9000),),
    }


def test_a_node_port_leads_where_the_service_does() -> None:
    service = make_service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    assert table([service], [make_slice("127.9.0.1")]).forwards == {
        ("127.9.128.1", 80): (("127.9.0.1", 8000),),
        ("127.0.0.1", 30080): (("127.9.0.1", 8000),),
    }


def test_ports_of_udp_are_distinguished_and_affinity_has_its_time() -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]
    config = {"clientIP": {"timeoutSeconds": 60}}
    service = make_service(ports=ports, sessionAffinity="ClientIP", sessionAffinityConfig=config)
    behind = {**make_slice("127.9.0.1"), "ports": [{"name": "u", "port": 5353}]}
    names = table([service], [behind])
    assert names.forwards == {("127.9.128.1", 53): ()}
    assert names.datagrams == {("127.9.128.1", 53): (("127.9.0.1", 5353),)}
    assert names.affinity == {("127.9.128.1", 53): 60.0}


def test_another_name_has_the_addresses_of_what_it_names() -> None:
    def alias(name: str, target: str) -> Json:
        return make_service(name=name, ip="", type="ExternalName", externalName=target)

    services = [
        alias("twice", "inner.ns.svc.cluster.local"),
        alias("inner", "s.ns.svc.cluster.local."),
        alias("outer", "Example.com"),
        alias("lost", "lost.ns.svc"),
        make_service(),
    ]
    by_name = table(services, [], outside={"example.com": ("93.184.215.14",)})
    known = {called[-1]: address for address, called in by_name.entries}
    assert known == {
        "s.ns": "127.9.128.1",
        "inner.ns": "127.9.128.1",
        "twice.ns": "127.9.128.1",
        "outer.ns": "93.184.215.14",
    }
    assert ("93.184.215.14", ("outer",)) in by_name.own["ns"]


def test_a_slice_of_another_service_counts_for_nothing() -> None:
    names = table([make_service()], [make_slice("127.9.0.1", service="other")])
    assert names.forwards == {("127.9.128.1", 80): ()}


def make_pod(
    name: str, ip: str | None, *, phase: str = "Running", namespace: str = "ns", **spec: object
) -> Json:
    status = {"phase": phase, **({"podIP": ip} if ip else {})}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}


def test_inside_a_namespace_short_names_do() -> None:
    headless = make_service(name="job", ip="None")
    pods = [
        make_pod("demo-0", "127.9.0.1"),
        make_pod("late", None),
        make_pod("over", "127.9.0.9", phase="Failed"),
        make_pod("host", "127.0.0.1", hostNetwork=True),
        make_pod("x", "127.9.0.3", namespace="other", hostname="given"),
    ]
    names = table(
        [make_service(), headless], [make_slice("127.9.0.1", service="job", hostname="demo-0")], pods
    )
    assert names.own == {
        "ns": (
            ("127.9.0.1", ("demo-0",)),
            ("127.9.0.1", ("demo-0.job",)),
            ("127.9.0.1", ("job",)),
            ("127.9.128.1", ("s",)),
        ),
        "other": (("127.9.0.3", ("given",)),),
    }


def test_a_services_name_goes_before_a_pods() -> None:
    names = table([make_service()], [], [make_pod("s", "127.9.0.1")])
    assert names.own["ns"] == (("127.9.128.1", ("s",)),)


def test_a_pod_is_known_before_its_service_lists_it() -> None:
    names = table([make_service(ip="None")], [], [make_pod("s", "127.9.0.1", phase="Pending")])
    assert names.own["ns"] == (("127.9.0.1", ("s",)),)


def test_the_longest_names_fit_into_their_slot() -> None:
    service = make_service(name="s" * 63, ip="None")
    service["metadata"]["namespace"] = "n" * 63
    longest = " ".join(("127.255.255.255", *names(service, "h" * 63)))
    assert len(longest) < SLOT


def test_what_means_nothing_is_distinguished_from_what_does() -> None:
    pod: Json = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": []}}
    pod["status"] = {"podIP": "127.1.1.1"}
    for good in (make_service(), make_slice("127.9.0.1"), pod):
        assert is_readable(good)
    for bad in (
        {**make_service(), "spec": {"clusterIP": "127.9.128.1", "ports": [{}]}},
        {**make_slice("127.9.0.1"), "endpoints": [{}]},
        {**make_slice("127.9.0.1"), "ports": [{"name": ""}]},
        {**pod, "metadata": {"name": "p"}},
    ):
        assert not is_readable(bad)


def test_a_port_of_the_machine_leads_to_its_pod() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81, "hostPort": 8081, "hostIP": "127.0.0.9", "protocol": "TCP"},
        {"containerPort": 82},
        {"containerPort": 83, "hostPort": 8083, "protocol": "UDP"},
    ]
    spec: Json = {"containers": [{"name": "main", "ports": ports}]}
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"podIP": "127.9.0.1"}}
    there = {("127.0.0.1", 8080): (("127.9.0.1", 80),), ("127.0.0.9", 8081): (("127.9.0.1", 81),)}
    assert table([], [], [pod]).forwards == there
    for change in ({"spec": {**spec, "hostNetwork": True}}, {"status": {**pod["status"], "phase": "Failed"}}):
        assert table([], [], [{**pod, **change}]).forwards == {}
