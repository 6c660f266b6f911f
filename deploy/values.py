"""Values of the Helm chart: names, defaults and words. `python -m deploy.generate` writes the chart's values.yaml, its
schema and its page from these models.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Quantities = dict[str, dict[str, str]]
Mapping = dict[str, Any]


class _Values(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageNames(_Values):
    """Whole names, with a tag or a digest, of single images; empty: registry/NAME:tag."""

    operator: str = Field(default="", description="The operator.")
    platform: str = Field(default="", description="The API and the services of the platform.")
    steps: str = Field(default="", description="The steps of workflows, and runners of kind mock.")
    runnerSklearn: str = Field(default="", description="The runner of classifiers.")
    all: str = Field(default="", description="Everything: `helm test` runs the client in it.")


class Images(_Values):
    """Images of Steelyard, as `make images` makes them."""

    registry: str = Field(default="localhost/steelyard", description="Registry and folder of the images.")
    tag: str = Field(default="", description="Tag of the images; empty: the chart's appVersion.")
    pullPolicy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When a node pulls an image."
    )
    pullSecrets: list[str] = Field(
        default=[],
        description="Names of Secrets that open the registry, of the type kubernetes.io/dockerconfigjson, in the "
        "namespace of the release. The orchestrator keeps a copy in the namespace of each account, for Pods of "
        "workflows.",
    )
    names: ImageNames = Field(default=ImageNames(), description=str(ImageNames.__doc__))
    runners: dict[str, str] = Field(
        default={},
        description="Names of further runners by the name that services give them, such as runner-vllm.",
    )


class Engines(_Values):
    """Addresses of the servers of `small` and `large`. In `standalone` only `backup`, `mirror` and `secret` count."""

    log: str = Field(default="", description="Event log: kafka://HOST:PORT/PREFIX.")
    accounts: str = Field(default="", description="Accounts database: postgresql://USER@HOST/DATABASE.")
    view: str = Field(default="", description="Entity view: mongodb://HOST/DATABASE.")
    storage: str = Field(default="", description="Object storage: s3://…, gs://… or az://….")
    backup: str = Field(
        default="",
        description="Backup of entities: a URL as of the storage. In the shape standalone empty means a folder of the "
        "claim.",
    )
    mirror: str = Field(
        default="",
        description="Second bucket for copies of storage and backup, in every shape; empty: none.",
    )
    secret: str = Field(
        default="",
        description="Secret whose keys are environment variables of the platform: passwords such as PGPASSWORD, keys "
        "of the storage such as AWS_ACCESS_KEY_ID, and settings such as STEELYARD_LOG. Pods read it when they start.",
    )
    storageSecret: str = Field(
        default="",
        description="Secret with the key `credentials`: a JSON object of the environment variables that open the "
        "storage for the steps. The orchestrator keeps a copy in the namespace of each account.",
    )
    addressesInSecret: bool = Field(
        default=False,
        description="Whether the addresses of log, accounts, view and backup are in `secret`, as STEELYARD_LOG and so "
        "on. That of the storage is always a value.",
    )
    prepare: bool = Field(
        default=True, description="Run `steelyard config init` before each install and upgrade."
    )


class Backup(_Values):
    """A CronJob that completes the backup: `steelyard backup write`."""

    schedule: str = Field(
        default="", description='Its schedule, such as "15 3 * * *", in the time of UTC; empty: none.'
    )
    resources: Quantities = Field(
        default={"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        description="Requests and limits of its container.",
    )


class Restore(_Values):
    """A Job that fills an empty installation from a backup before anything starts: `steelyard restore`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    from_: str = Field(
        default="",
        alias="from",
        description="URL of the backup, as in engines.backup of the installation that wrote it; empty: nothing is "
        "restored. It is read by an install, not by an upgrade; remove it afterwards.",
    )
    files: str = Field(
        default="",
        description="URL of a copy of the storage, such as the folder storage of the mirror, from which files are "
        "copied that the storage lacks; empty: none.",
    )
    resources: Quantities = Field(
        default={"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        description="Requests and limits of its container.",
    )


class Persistence(_Values):
    """The claim of the shape `standalone`, which has everything: databases, files and keys."""

    size: str = Field(default="20Gi", description="Size of the claim.")
    storageClass: str = Field(default="", description="Its storage class; empty: the cluster's default.")
    accessMode: str = Field(default="ReadWriteOnce", description="Its access mode.")
    existingClaim: str = Field(default="", description="Name of a claim to use in place of a new one.")
    leaveBehind: bool = Field(
        default=False,
        description="Whether another shape may be installed beside the claim, whose data it does not show.",
    )


class Service(_Values):
    """The Service of the API."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="Type of the Service."
    )
    port: int = Field(default=8000, ge=1, le=65535, description="Its port, which has the name http.")
    nodePort: int | None = Field(default=None, description="Port of the nodes, for the type NodePort.")
    annotations: dict[str, str] = Field(default={}, description="Its annotations.")


class Ingress(_Values):
    """An Ingress for the API."""

    enabled: bool = Field(default=False, description="Whether to make one.")
    className: str = Field(default="", description="Its class; empty: the cluster's default.")
    host: str = Field(default="", description="Host name; empty: any.")
    path: str = Field(default="/", description="Path, with everything below.")
    tlsSecret: str = Field(default="", description="Secret with certificate and key; empty: no TLS.")
    annotations: dict[str, str] = Field(default={}, description="Its annotations.")


class Route(_Values):
    """An HTTPRoute of the Gateway API for the API; TLS ends at the Gateway."""

    enabled: bool = Field(default=False, description="Whether to make one.")
    gateway: str = Field(default="", description="Name of the Gateway.")
    gatewayNamespace: str = Field(default="", description="Its namespace; empty: that of the release.")
    host: str = Field(default="", description="Host name; empty: any.")


class Api(_Values):
    """Addresses at which the API is reached."""

    publicUrl: str = Field(
        default="",
        description="URL at which clients reach the API, without /v0, such as https://steelyard.example.com. Empty: "
        "the host of the Ingress or the route; without one the address of the Service by which a request came.",
    )
    signedUrls: Literal["api", "store"] = Field(
        default="api",
        description="Where URLs of uploads and downloads lead: to the API, or to the object store itself, which "
        "clients then have to reach.",
    )
    service: Service = Field(default=Service(), description=str(Service.__doc__))
    ingress: Ingress = Field(default=Ingress(), description=str(Ingress.__doc__))
    route: Route = Field(default=Route(), description=str(Route.__doc__))


class Part(_Values):
    """A Deployment: how many Pods, and what each gets."""

    replicas: int = Field(default=1, ge=0, description="Pods.")
    resources: Quantities = Field(default={}, description="Requests and limits of its container.")
    extraEnv: list[Mapping] = Field(default=[], description="Further environment variables of its container.")


def _part(replicas: int, memory: str = "128Mi", limit: str = "1Gi") -> Part:
    resources = {"requests": {"cpu": "50m", "memory": memory}, "limits": {"memory": limit}}
    return Part(replicas=replicas, resources=resources)


class Parts(_Values):
    """The Deployments by name. `platform` is all services in one, the others are one service each."""

    operator: Part = Field(
        default=_part(2, "96Mi", "512Mi"), description="The operator: one leads, others wait."
    )
    platform: Part = Field(
        default=_part(2, "256Mi", "2Gi"),
        description="All services of the platform in one process, in the shapes standalone (always one Pod) and small.",
    )
    api: Part = Field(default=_part(2), description="The API, in the shape large.")
    aggregator: Part = Field(default=_part(1), description="The aggregator, in the shape large.")
    viewSink: Part = Field(default=_part(1), description="The sink of the view, in the shape large.")
    backupSink: Part = Field(default=_part(1), description="The sink of the backup, in the shape large.")
    orchestrator: Part = Field(
        default=_part(2), description="The orchestrator, in the shape large: one leads, others wait."
    )
    informer: Part = Field(
        default=_part(2), description="The informer, in the shape large: one leads, others wait."
    )
    reaper: Part = Field(default=_part(1), description="The reaper, in the shape large.")
    webhooks: Part = Field(default=_part(1), description="The sender of webhooks, in the shape large.")
    lineage: Part = Field(
        default=_part(1),
        description="The sender of lineage, in the shape large, where settings.telemetry.openlineage_url names a "
        "receiver.",
    )


SECURITY: Mapping = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Placement(_Values):
    """Labels, places and rights of the Pods of the release."""

    labels: dict[str, str] = Field(default={}, description="Further labels.")
    annotations: dict[str, str] = Field(default={}, description="Further annotations.")
    nodeSelector: dict[str, str] = Field(default={}, description="Labels that their nodes have.")
    tolerations: list[Mapping] = Field(default=[], description="Tolerations of the Pods.")
    affinity: Mapping = Field(
        default={}, description="Their affinity; empty: Pods of one Deployment prefer different nodes."
    )
    priorityClassName: str = Field(default="", description="Their priority class.")
    runtimeClassName: str = Field(default="", description="Their runtime class.")
    securityContext: Mapping = Field(
        default=SECURITY,
        description="Their security context. Where the cluster gives out users itself, as OpenShift does, set "
        "`runAsUser`, `runAsGroup` and `fsGroup` to null.",
    )


class ServiceAccount(_Values):
    """The accounts of the Pods at the Kubernetes API."""

    existing: str = Field(
        default="",
        description="Name of an account to use for all parts, which has its rights "
        "already. Empty: the chart makes one for each, with the least rights.",
    )
    annotations: dict[str, str] = Field(
        default={}, description="Annotations of the accounts, such as those of a cloud's identities."
    )


class Rights(_Values):
    """Rights of the operator that only some kinds of work need, and the bounds of all rights."""

    bounded: bool = Field(
        default=True,
        description="Whether ValidatingAdmissionPolicies bound what the accounts of the release write: nothing outside "
        "of the namespaces of accounts and those of `rights.namespaces`, and no Pod with the rights of a node or of "
        "another account.",
    )
    namespaces: list[str] = Field(
        default=["*"],
        description="Namespaces beside those of accounts in which users make resources by kubectl. In those that are "
        "named Pods get what templates ask for: `hostPath`, `hostNetwork`, `serviceAccountName`. `*` stands for all "
        "others, except those of Kubernetes and the release, and gives none of these.",
    )

    mpi: bool = Field(default=False, description="MPIJobs.")
    elastic: bool = Field(default=False, description="PyTorchJobs with spec.elasticPolicy.metrics.")
    ray: bool = Field(
        default=False,
        description="The platform's side of Ray clusters, with the Service by which it is called; "
        "`settings.operator.ray` switches its parts on.",
    )


class Work(_Values):
    """The namespaces of accounts, in which workflows run."""

    podSecurity: Literal["privileged", "baseline", "restricted"] = Field(
        default="restricted", description="Pod Security standard that their Pods keep to."
    )
    labels: dict[str, str] = Field(default={}, description="Further labels of the namespaces.")
    bounded: bool = Field(
        default=True,
        description="Whether network policies bound what their Pods call. What is set here counts for namespaces that "
        "are made later.",
    )
    publicAddresses: bool = Field(
        default=True,
        description="Whether their Pods may call public addresses: providers of models, the Hugging Face hub, an "
        "object store outside. Private addresses and those of the nodes' metadata are not among them.",
    )
    exceptAddresses: list[str] = Field(
        default=[],
        description="Further ranges that count as private: those of a cluster with public addresses, and of its API.",
    )
    egress: list[Mapping] = Field(
        default=[],
        description="What they may call besides, as rules of egress (NetworkPolicyEgressRule): an object store at a "
        "private address has to be named here.",
    )


class NetworkPolicies(_Values):
    """Network policies: other callers reach no Pod of the release."""

    enabled: bool = Field(default=True, description="Whether they are made.")
    apiFrom: list[Mapping] = Field(
        default=[], description="Peers that may call the API (NetworkPolicyPeer); empty: everybody."
    )
    metricsFrom: list[Mapping] = Field(
        default=[],
        description="Peers that may read the figures (NetworkPolicyPeer); empty: those of the namespace.",
    )


class PodMonitor(_Values):
    """A PodMonitor of the Prometheus operator: it reads the figures of each Pod of the release."""

    enabled: bool = Field(default=False, description="Whether to make one.")
    interval: str = Field(default="30s", description="Pause between two readings.")
    labels: dict[str, str] = Field(default={}, description="Labels by which Prometheus chooses it.")
    tokenSecret: str = Field(
        default="", description="Secret with the token that opens the figures, in the key `token`; needed."
    )


class Existing(_Values):
    """A Secret that is there already."""

    existingSecret: str = Field(
        default="", description="Its name. Empty: the chart makes one, and keeps it over upgrades."
    )


class CertificateAuthorities(_Values):
    """Certificate authorities of the servers that the platform calls, in place of those of the image."""

    configMap: str = Field(
        default="", description="ConfigMap with the certificates; empty: those of the image."
    )
    key: str = Field(default="ca.crt", description="Its key, whose value has the certificates in PEM.")


class Values(_Values):
    """Values of the chart."""

    shape: Literal["standalone", "small", "large"] = Field(
        default="standalone",
        description="`standalone`: one Pod with one claim, no server beside it. `small`: all services in one "
        "Deployment of two Pods, on servers. `large`: a Deployment for each service, on servers.",
    )
    images: Images = Field(default=Images(), description=str(Images.__doc__))
    settings: Mapping = Field(
        default={},
        description="Further settings, as in steelyard.toml; they win over those that the chart makes.",
    )
    engines: Engines = Field(default=Engines(), description=str(Engines.__doc__))
    backup: Backup = Field(default=Backup(), description=str(Backup.__doc__))
    restore: Restore = Field(default=Restore(), description=str(Restore.__doc__))
    persistence: Persistence = Field(default=Persistence(), description=str(Persistence.__doc__))
    administrator: Existing = Field(
        default=Existing(), description="Secret with the first administrator's token, in the key `token`."
    )
    secretKeys: Existing = Field(
        default=Existing(),
        description="Secret with the keys that encrypt secrets of accounts, in the key `secret-keys`, one a line.",
    )
    storageServer: Existing = Field(
        default=Existing(),
        description="Secret of the shape `standalone` with the keys `access-key`, `secret-key` and `credentials`, as "
        "the chart makes it.",
    )
    api: Api = Field(default=Api(), description=str(Api.__doc__))
    parts: Parts = Field(default=Parts(), description=str(Parts.__doc__))
    pods: Placement = Field(default=Placement(), description=str(Placement.__doc__))
    serviceAccount: ServiceAccount = Field(default=ServiceAccount(), description=str(ServiceAccount.__doc__))
    work: Work = Field(default=Work(), description=str(Work.__doc__))
    rights: Rights = Field(default=Rights(), description=str(Rights.__doc__))
    customResourceDefinitions: bool = Field(
        default=True,
        description="Whether the chart installs the custom resource definitions, and updates them with each upgrade.",
    )
    networkPolicies: NetworkPolicies = Field(
        default=NetworkPolicies(), description=str(NetworkPolicies.__doc__)
    )
    disruptionBudgets: bool = Field(
        default=True,
        description="Whether a part with several Pods loses at most one at a time while nodes are drained.",
    )
    podMonitor: PodMonitor = Field(default=PodMonitor(), description=str(PodMonitor.__doc__))
    certificateAuthorities: CertificateAuthorities = Field(
        default=CertificateAuthorities(), description=str(CertificateAuthorities.__doc__)
    )
    global_: Mapping = Field(
        default={}, alias="global", description="Values of charts that this one is part of."
    )
