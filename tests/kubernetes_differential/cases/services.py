"""Services whose addresses and families of addresses are given: refusals, completions, and later changes."""

from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, Request, merge, post, put
from tests.kubernetes_differential.samples import CORE, DRY, service

SERVICES = f"{CORE}/services"
WORDS = ("message", "reason", "details", "code", "kind", "spec")
HEADLESS: Json = {"clusterIP": "None"}
ALONE: Json = {"clusterIP": "None", "selector": {}}  # without a selector, too
NAMED: Json = {"type": "ExternalName", "externalName": "a.b", "ports": []}
POLICIES = ("SingleStack", "PreferDualStack", "RequireDualStack")
FAMILIES: list[list[Any]] = [
    ["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"], ["IPv4", "IPv4"], ["ipv4"], [""], [],
    ["IPv4", "IPv6", "IPv4"], ["IPv5", "IPv5"],
]  # fmt: skip
AFFINITIES: list[Json] = [{}, {"clientIP": {}}, {"clientIP": {"timeoutSeconds": 5}}]
TIMES: list[Json] = [
    *({}, {"clientIP": {}}),
    *({"clientIP": {"timeoutSeconds": seconds}} for seconds in (0, 86_400, 86_401)),
]


def tried(*rows: Json) -> list[Request]:
    return [post(f"{SERVICES}?{DRY}", service("s", **row), compare=WORDS) for row in rows]


def changes(*rows: Json) -> list[Request]:
    """Changes of the Service one by one, with the answer to each."""
    return [merge(f"{SERVICES}/s", {"spec": row}, compare=WORDS) for row in rows]


CASES = [
    Case("services: families", *tried(*({"ipFamilies": row} for row in FAMILIES))),
    Case(
        "services: families of headless ones", *tried(*(HEADLESS | {"ipFamilies": row} for row in FAMILIES))
    ),
    Case("services: families without a selector", *tried(*(ALONE | {"ipFamilies": row} for row in FAMILIES))),
    Case(
        "services: policies of families",
        *tried(
            *({"ipFamilyPolicy": policy} for policy in (*POLICIES, "", "foo")),
            *(
                {"ipFamilyPolicy": policy, "ipFamilies": row}
                for policy in POLICIES
                for row in (["IPv4"], ["IPv6"], ["IPv4", "IPv6"])
            ),
            *(ALONE | {"ipFamilyPolicy": policy} for policy in POLICIES),
            *(HEADLESS | {"ipFamilyPolicy": policy} for policy in POLICIES),
            *(
                ALONE | {"ipFamilyPolicy": policy, "ipFamilies": row}
                for policy in POLICIES
                for row in (["IPv6"], ["IPv6", "IPv4"])
            ),
        ),
    ),
    Case(
        "services: families of another name",
        *tried(
            NAMED | {"ipFamilies": ["IPv4"]},
            NAMED | {"ipFamilyPolicy": "SingleStack"},
            NAMED | {"ipFamilyPolicy": ""},
            NAMED | {"ipFamilies": ["foo"], "ipFamilyPolicy": "foo", "clusterIPs": ["x"], "clusterIP": "y"},
            NAMED | {"ipFamilies": [], "internalTrafficPolicy": "foo"},
        ),
    ),
    Case(
        "services: faults of families come alone",
        *tried(
            {"ipFamilies": ["IPv6"], "ports": []},
            {"ipFamilyPolicy": "foo", "sessionAffinity": "foo"},
            {"type": "foo", "ipFamilies": ["foo"], "ipFamilyPolicy": "foo"},
            {"type": "foo"},
            {"type": "NodePort", "clusterIP": "None", "ipFamilies": ["IPv6"]},
        ),
    ),
    Case(
        "services: several addresses",
        *tried(
            {"clusterIPs": ["10.96.7.7"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.8"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "10.96.7.8"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "fd00::1"]},
            {
                "clusterIP": "10.96.7.7",
                "clusterIPs": ["10.96.7.7", "fd00::1"],
                "ipFamilyPolicy": "PreferDualStack",
            },
            {"clusterIP": "fd00::1"},
            {"clusterIP": "fd00::1", "ipFamilies": ["IPv6"]},
            {"clusterIP": "fd00::1", "ipFamilies": ["IPv4"]},
            {"clusterIP": "10.96.7.7", "ipFamilies": ["IPv6"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "x"]},
            {"clusterIP": "None", "clusterIPs": ["None", "10.96.7.7"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "None"]},
            {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "10.96.7.8", "10.96.7.9"]},
            {"clusterIP": "", "clusterIPs": [""]},
            {"clusterIP": "x", "clusterIPs": ["x", "x", "x"]},
            {"clusterIP": "None", "clusterIPs": []},
            {"clusterIPs": ["None"]},
        ),
    ),
    Case(
        "services: changed families",
        post(SERVICES, service("s"), compare=WORDS),
        *changes(
            {"ipFamilies": ["IPv6"]},
            {"ipFamilies": None, "ipFamilyPolicy": None},
            {"ipFamilyPolicy": "RequireDualStack"},
            {"ipFamilyPolicy": "foo"},
            {"ipFamilyPolicy": "PreferDualStack"},
            {"ipFamilyPolicy": None},
            {"ipFamilies": ["IPv4", "IPv6"]},
            {"ipFamilies": ["foo"]},
            {"ipFamilyPolicy": "SingleStack"},
            {"clusterIP": "10.96.201.1"},
            {"clusterIPs": ["10.96.201.1"]},
            {"clusterIP": "10.96.201.1", "clusterIPs": ["10.96.201.1"]},
            {"clusterIP": None, "clusterIPs": None},
            {"clusterIP": ""},
            {"clusterIP": "None"},
            NAMED | {"clusterIP": "", "ports": None},
            {"type": "ClusterIP", "ports": [{"port": 80}], "ipFamilies": ["IPv6"]},
            {"type": "ClusterIP", "ports": [{"port": 80}]},
        ),
        put(f"{SERVICES}/s", service("s"), compare=WORDS),
    ),
    Case(
        "services: changed families without a selector",
        post(SERVICES, service("s", **ALONE), compare=WORDS),
        *changes(
            {"ipFamilies": ["IPv4"]},
            {"ipFamilies": ["IPv6", "IPv4"]},
            {"ipFamilies": None},
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]},
            {"ipFamilyPolicy": "PreferDualStack"},
            {"selector": {"a": "b"}},
            {"ipFamilyPolicy": "SingleStack"},
            {"ipFamilies": ["IPv4"]},
            {"clusterIP": "10.96.201.2"},
        ),
        put(f"{SERVICES}/s", service("s", **HEADLESS), compare=WORDS),
    ),
    Case(
        "services: affinity of sessions",
        *tried(
            *({"sessionAffinityConfig": row} for row in AFFINITIES),
            *({"sessionAffinity": "ClientIP", "sessionAffinityConfig": row} for row in TIMES),
            {"sessionAffinity": "foo", "sessionAffinityConfig": {}},
            {"sessionAffinity": "", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
        ),
    ),
    Case(
        "services: balancers",
        *tried(
            *(
                {"type": kind, "loadBalancerSourceRanges": row}
                for kind in ("LoadBalancer", "ClusterIP")
                for row in (["10.0.0.0/8"], [" 10.0.0.1/8 ", ""], ["x", "10.0.0.0", "fd00::/8"], [])
            ),
            *(
                {"type": kind, "loadBalancerClass": name}
                for kind in ("LoadBalancer", "NodePort")
                for name in ("", "a/b", "a b")
            ),
            *(
                {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
                for port in (-1, 30006)
            ),
            {"type": "LoadBalancer", "externalTrafficPolicy": "foo"},
            {"type": "NodePort", "externalTrafficPolicy": ""},
            {"allocateLoadBalancerNodePorts": False},
            NAMED | {"ports": [{"port": 80, "nodePort": 30005}]},
            NAMED
            | {"externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "foo", "trafficDistribution": "foo"},
        ),
        *[
            post(
                f"{SERVICES}?{DRY}",
                service("s", type=kind) | {"metadata": {"name": "s", "annotations": row}},
                compare=WORDS,
            )
            for kind in ("LoadBalancer", "ClusterIP")
            for row in (
                {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, fd00::/8"},
                {"service.beta.kubernetes.io/load-balancer-source-ranges": "x,"},
                {"service.beta.kubernetes.io/load-balancer-source-ranges": ""},
                {
                    "service.kubernetes.io/topology-mode": "Auto",
                    "service.kubernetes.io/topology-aware-hints": "Disabled",
                },
                {"service.kubernetes.io/topology-aware-hints": "Auto"},
            )
        ],
    ),
    Case(
        "services: addresses outside",
        *tried(
            *(
                {"externalIPs": [address]}
                for address in (
                    "0.0.0.0",
                    "::",
                    "169.254.1.1",
                    "fe80::1",
                    "224.0.0.1",
                    "ff02::1",
                    "::1",
                    "239.1.1.1",
                    "",
                )
            ),
            {
                "externalIPs": ["1.2.3.4"],
                "clusterIP": "None",
                "sessionAffinity": "ClientIP",
                "loadBalancerIP": "5.6.7.8",
            },
        ),
    ),
    Case(
        "services: order of faults",
        *tried(
            {
                "type": "foo",
                "selector": {"": ""},
                "sessionAffinity": "foo",
                "externalIPs": ["x"],
                "internalTrafficPolicy": "foo",
                "trafficDistribution": "foo",
                "loadBalancerClass": "a b",
                "allocateLoadBalancerNodePorts": True,
                "externalTrafficPolicy": "foo",
                "ports": [
                    {"name": "A_b", "port": 0, "protocol": "foo", "targetPort": "A_b", "appProtocol": "a b"},
                    {"name": "A_b", "port": 0, "protocol": "foo", "targetPort": 0},
                ],
            },
            {"type": "NodePort", "clusterIP": "None", "ports": []},
            {
                "ports": [
                    {"name": "a", "port": 80, "nodePort": 30001},
                    {"name": "b", "port": 80, "nodePort": 30001},
                ]
            },
        ),
    ),
    Case(
        "services: a changed class of balancers",
        post(SERVICES, service("b", type="LoadBalancer", loadBalancerClass="a/b"), compare=("kind",)),
        *[
            merge(f"{SERVICES}/b", {"spec": row}, compare=WORDS)
            for row in (
                {"loadBalancerClass": "a/c"},
                {"loadBalancerClass": None},
                {"loadBalancerSourceRanges": ["x"]},
                {"type": "ClusterIP", "loadBalancerClass": "a/c"},
                {"type": "ClusterIP"},
            )
        ],
    ),
]
