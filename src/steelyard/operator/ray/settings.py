"""Settings of the platform's side of Ray clusters; all of it is off unless an administrator asks for it."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steelyard.telemetry.monitoring import Listen


class RaySettings(BaseModel):
    """Ray clusters, which another controller runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    dashboard: Literal["", "auto", "ingress", "route", "httproute"] = Field(
        default="",
        description="The object that makes a cluster's dashboard reachable; empty: none; auto: a Route where the API "
        "has them, an HTTPRoute where it has them and a gateway is given, else an Ingress.",
    )
    domain: str = Field(
        default="",
        description="Domain of the dashboards: ray-dashboard-NAME-NAMESPACE.DOMAIN; a hash follows the namespace where "
        "a name has a hyphen or is long. A Route needs none.",
    )
    ingress_class: str = Field(
        default="", description="Class of the Ingresses; empty: the cluster's default."
    )
    tls_secret: str = Field(
        default="",
        description="Secret in a cluster's namespace with the certificate of its Ingress; empty: plain HTTP.",
    )
    annotations: Mapping[str, str] = Field(
        default={},
        description="Annotations of Ingresses, Routes and HTTPRoutes, such as those that ask for a login.",
    )
    gateway: str = Field(default="", description="NAMESPACE/NAME of the Gateway of the HTTPRoutes.")
    login: Listen = Field(
        default="",
        description="HOST:PORT where the operator serves the dashboards to those who may see them: it asks for a token "
        "of Kubernetes, and the API whether its user may get the RayCluster, or update it where a request changes "
        "something. Ingresses, Routes and HTTPRoutes then lead there. Empty: they lead to the dashboard itself.",
    )
    network_policy: bool = Field(
        default=False,
        description="Let only a cluster's own Pods reach its Pods, and others its dashboard and its clients' port.",
    )
    open_to_namespaces: Mapping[str, str] = Field(
        default={},
        description="Labels of further namespaces that may reach dashboards and clients' ports, such as that of the "
        "ingress controller; the cluster's own namespace always may.",
    )
    certificates: bool = Field(
        default=False,
        description="Encrypt the traffic between the Pods of a cluster, and of its clients, with certificates of both "
        "sides (RAY_USE_TLS). It holds for clusters that are made while it is on.",
    )
    certificate_days: int = Field(
        default=365,
        ge=2,
        le=3650,
        description="Days that a Pod's certificate lasts at least; at most twice as many. It is fixed when the "
        "platform's key is made.",
    )
    client_days: int = Field(
        default=30, ge=1, le=3650, description="Days that a certificate of a client lasts."
    )
    client_authorities: bool = Field(
        default=False,
        description="Make a Secret NAME-ca-secret-steelyard for each cluster, with which codeflare-sdk signs "
        "certificates of clients. Who may read it has power over this one cluster.",
    )
    certificate_image: str = Field(
        default="localhost/steelyard/steps",
        description="Image of the container that asks for a Pod's certificate.",
    )
    admission: bool = Field(
        default=False,
        description="Check RayClusters, RayJobs and AppWrappers before they are kept, by webhooks of the operator.",
    )
    listen: Listen = Field(
        default=":9443",
        description="HOST:PORT where the operator serves webhooks and Pods' requests for certificates, over TLS.",
    )
    service: str = Field(
        default="steelyard/steelyard-ray",
        description="NAMESPACE/NAME of the Service in front of the operator's Pods: port 443 leads to `listen`, port "
        "80 to `login`. The platform's key is a Secret of the same name.",
    )
    url: str = Field(
        default="",
        description="https://HOST:PORT by which the API and Pods reach `listen`, where it is not by the Service. With "
        "`steelyard up` it is known.",
    )

    @property
    def enabled(self) -> bool:
        return bool(self.dashboard) or self.network_policy or self.serves

    @property
    def serves(self) -> bool:
        """Return whether the operator has to be asked by others: the API, Pods, browsers."""
        return self.certificates or self.admission or bool(self.login)

    @property
    def namespace(self) -> str:
        """The namespace of the Service and of the platform's key."""
        return self.service.partition("/")[0]

    @property
    def service_name(self) -> str:
        return self.service.partition("/")[2]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.namespace or not self.service_name or "/" in self.service_name:
            raise ValueError(f"service: {self.service!r} should be NAMESPACE/NAME")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"url: {self.url!r} should begin with https://")
        if self.login and self.dashboard and not self.domain:
            raise ValueError("domain: is needed where login is served through a dashboard's object")
        if self.dashboard == "httproute" and not self.gateway:
            raise ValueError("gateway: is needed for HTTPRoutes")
        return self
