"""Commands and configuration of the cluster's parts, as values.

Each cluster has a network namespace of its own, so addresses and ports are always the same ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from steelyard_common.types import Json

NODE_NAME = "node"
NODE_ADDRESS = "10.88.0.2"
PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
DNS_ADDRESS = "10.96.0.10"
API_PORT = 6443
CONTAINERD = "/run/containerd/containerd.sock"
PAUSE, BUSYBOX, PYTHON = "localhost/pause:1", "localhost/busybox:1", "localhost/python:3"
USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "apiserver-kubelet": ("apiserver-kubelet", "system:masters"),
}
"""Common name and organization of each client's certificate."""
HOSTS = {
    "apiserver": ("localhost", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1", NODE_ADDRESS),
    "kubelet-serving": (NODE_NAME, NODE_ADDRESS),
}


@dataclass(frozen=True)
class Addition:
    """Additions to a cluster's parts: images, objects, files of its folder, and processes that begin last.

    `{folder}` in any text is the cluster's folder. A file's content is a text, or a value that is written as JSON.
    """

    images: Sequence[str] = ()
    """Paths of archives; before one may stand options of `ctr images import`."""
    objects: Sequence[Json] = ()
    files: Mapping[str, Json | str] = field(default_factory=dict)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further arguments of the cluster's own parts, by their names."""
    ports: Sequence[int] = ()
    """Ports of the processes that are reached from the machine, as `carried_port` says."""

    def write(self, folder: Path) -> None:
        text = json.dumps(asdict(self)).replace("{folder}", str(folder))
        (folder / "addition.json").write_text(text)
        for name, content in json.loads(text)["files"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    @classmethod
    def read(cls, folder: Path) -> "Addition":
        return cls(**json.loads((folder / "addition.json").read_text()))


@dataclass(frozen=True)
class Layout:
    """Folders of one cluster, and the name of its cgroup."""

    folder: Path
    binaries: Path
    coredns: Path
    cni: Path
    images: Path

    @property
    def cgroup(self) -> str:
        return self.folder.name

    @property
    def keys(self) -> Path:
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"


def kubeconfig(layout: Layout, user: str, server: str) -> Json:
    keys = layout.keys
    credentials = {"client-certificate": f"{keys / user}.crt", "client-key": f"{keys / user}.key"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [
            {"name": "real", "cluster": {"server": server, "certificate-authority": str(keys / "ca.crt")}}
        ],
        "users": [{"name": "real", "user": credentials}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
    }


def write(layout: Layout) -> None:
    """All configuration files; the certificates are there."""
    for user in USERS:
        text = json.dumps(kubeconfig(layout, user, f"https://{NODE_ADDRESS}:{API_PORT}"))
        layout.kubeconfig(user).write_text(text)
    folder = layout.folder
    (folder / "containerd.toml").write_text(_containerd(layout))
    (folder / "cni").mkdir()
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni()))
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(layout)))
    (folder / "proxy.yaml").write_text(yaml.safe_dump(_proxy(layout)))
    (folder / "Corefile").write_text(_corefile(layout))
    # No resolver above the cluster's own: there is nothing outside to ask.
    (folder / "resolv.conf").write_text("search .\n")


def commands(layout: Layout) -> dict[str, list[str]]:
    """The command of each part, in no order."""
    run, folder = layout.binaries, layout.folder
    return {
        "etcd": _etcd(layout),
        "apiserver": _api_server(layout),
        "controllers": _controllers(layout),
        "scheduler": [
            str(run / "kube-scheduler"),
            *_as(layout, "scheduler"),
            *("--bind-address=127.0.0.1", "--leader-elect=false"),
            *("--kube-api-qps=500", "--kube-api-burst=1000"),
        ],
        "containerd": ["containerd", "--config", str(folder / "containerd.toml"), "--log-level", "warn"],
        "kubelet": [
            str(run / "kubelet"),
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={layout.kubeconfig('kubelet')}",
            *(f"--hostname-override={NODE_NAME}", f"--node-ip={NODE_ADDRESS}"),
        ],
        "proxy": [str(run / "kube-proxy"), f"--config={folder / 'proxy.yaml'}"],
        "coredns": [str(layout.coredns), "-conf", str(folder / "Corefile")],
    }


def _as(layout: Layout, user: str) -> list[str]:
    path = layout.kubeconfig(user)
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [f"--{name}={path}" for name in names]


def _etcd(layout: Layout) -> list[str]:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        str(layout.binaries / "etcd"),
        *("--name=e", f"--data-dir={layout.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=e={peer}",
        ),
    ]


def _api_server(layout: Layout) -> list[str]:
    keys = layout.keys
    return [
        str(layout.binaries / "kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        *("--bind-address=0.0.0.0", f"--advertise-address={NODE_ADDRESS}", f"--secure-port={API_PORT}"),
        *(f"--service-cluster-ip-range={SERVICES}", "--allow-privileged=true"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
        f"--client-ca-file={keys / 'ca.crt'}",
        *(f"--tls-cert-file={keys / 'apiserver.crt'}", f"--tls-private-key-file={keys / 'apiserver.key'}"),
        *(
            f"--kubelet-certificate-authority={keys / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
        ),
        f"--kubelet-client-certificate={keys / 'apiserver-kubelet.crt'}",
        f"--kubelet-client-key={keys / 'apiserver-kubelet.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
    ]


def _controllers(layout: Layout) -> list[str]:
    keys = layout.keys
    return [
        str(layout.binaries / "kube-controller-manager"),
        *_as(layout, "controllers"),
        *("--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=true"),
        *("--kube-api-qps=500", "--kube-api-burst=1000"),
        *(f"--service-account-private-key-file={keys / 'sa.key'}", f"--root-ca-file={keys / 'ca.crt'}"),
        *("--allocate-node-cidrs=true", f"--cluster-cidr={PODS}", "--node-cidr-mask-size=24"),
        f"--service-cluster-ip-range={SERVICES}",
    ]


def _containerd(layout: Layout) -> str:
    # A negative oom_score_adj, which Guaranteed Pods would get, ends runc where root lacks CAP_SYS_RESOURCE.
    return f"""version = 2
root = "{layout.folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{layout.folder}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{layout.cni}"
    conf_dir = "{layout.folder}/cni"
"""


def _cni() -> Json:
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{**bridge, "ipam": addresses}, ports]}


def _kubelet(layout: Layout) -> Json:
    keys = layout.keys
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}",
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / "kubelet-serving.crt"),
        "tlsPrivateKeyFile": str(keys / "kubelet-serving.key"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": str(layout.folder / "resolv.conf"),
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        # By default 5 requests a second: the status of Pods would lag in a battery that makes many at once.
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
    }


def _proxy(layout: Layout) -> Json:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "oomScoreAdj": 0,
        "clusterCIDR": PODS,
        "hostnameOverride": NODE_NAME,
        # By default a port of the node is open at its first address alone; a link into it has another one.
        "nodePortAddresses": ["0.0.0.0/0"],
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("proxy"))},
        # The kernel's own numbers: they belong to the machine.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _corefile(layout: Layout) -> str:
    return f""".:53 {{
    bind {NODE_ADDRESS}
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {layout.kubeconfig("admin")} real
        pods insecure
        ttl 1
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
    cache 1
    loadbalance
}}
"""


def dns_objects() -> dict[str, Json]:
    """The usual Service of the cluster's DNS, whose one endpoint is a process of the node, by the path to post to."""
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    service = {"clusterIP": DNS_ADDRESS, "ports": ports}
    labels = {"kubernetes.io/service-name": "kube-dns"}
    return {
        "/api/v1/namespaces/kube-system/services": {"metadata": {"name": "kube-dns"}, "spec": service},
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices": {
            "metadata": {"name": "kube-dns-1", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
            "ports": ports,
        },
    }
