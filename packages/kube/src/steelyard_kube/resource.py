"""Resources of the API: where their objects live and what they are called.

Everything that speaks REST names its resource with one of the constants below.
"""

from typing import NamedTuple

from steelyard_common.types import Json


class Resource(NamedTuple):
    """One kind of object: enough to build every URL of its API. A tuple: a quick key of every cache."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path of one object, or of the collection; without a namespace, of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root = f"{root}/namespaces/{namespace}"
        elif self.namespaced and name:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        path = f"{root}/{self.plural}"
        if name:
            path = f"{path}/{name}"
        return f"{path}/{subresource}" if subresource else path


PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
EVENTS = Resource("", "v1", "events", "Event")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

EVALUATIONS = Resource("dyff.io", "v1alpha1", "evaluations", "Evaluation")
MODELS = Resource("dyff.io", "v1alpha1", "models", "Model")
INFERENCE_SERVICES = Resource("dyff.io", "v1alpha1", "inferenceservices", "InferenceService")
INFERENCE_SESSIONS = Resource("dyff.io", "v1alpha1", "inferencesessions", "InferenceSession")
REPORTS = Resource("dyff.io", "v1alpha1", "reports", "Report")
ANALYSES = Resource("dyff.io", "v1alpha1", "analyses", "Analysis")
AUDITS = Resource("dyff.io", "v1alpha1", "audits", "Audit")
DATA_SOURCES = Resource("dyff.io", "v1alpha1", "datasources", "DataSource")
DATASETS = Resource("dyff.io", "v1alpha1", "datasets", "Dataset")

BUILT_IN = (
    PODS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    EVENTS,
    SERVICE_ACCOUNTS,
    NODES,
    NAMESPACES,
    JOBS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    ENDPOINT_SLICES,
    POD_DISRUPTION_BUDGETS,
    LEASES,
    CRDS,
)
DYFF = (
    EVALUATIONS,
    MODELS,
    INFERENCE_SERVICES,
    INFERENCE_SESSIONS,
    REPORTS,
    ANALYSES,
    AUDITS,
    DATA_SOURCES,
    DATASETS,
)

TF_JOBS = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MX_JOBS = Resource("kubeflow.org", "v1", "mxjobs", "MXJob")
JAX_JOBS = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob")
XGBOOST_JOBS = Resource("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob")
PADDLE_JOBS = Resource("kubeflow.org", "v1", "paddlejobs", "PaddleJob")
MPI_JOBS = Resource("kubeflow.org", "v1", "mpijobs", "MPIJob")
DL_JOBS = Resource("dyff.io", "v1alpha1", "dljobs", "DLJob")
FRAMEWORKS = Resource("dyff.io", "v1alpha1", "frameworks", "Framework", namespaced=False)
TRAINING = (TF_JOBS, PYTORCH_JOBS, MX_JOBS, JAX_JOBS, XGBOOST_JOBS, PADDLE_JOBS, MPI_JOBS, DL_JOBS)

RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAY = (RAY_CLUSTERS, RAY_JOBS)
APP_WRAPPERS = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
RESOURCE_FLAVORS = Resource(
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False
)
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
WORKLOAD_PRIORITY_CLASSES = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)
COHORTS = Resource("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", namespaced=False)
KUEUE = (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, WORKLOAD_PRIORITY_CLASSES)

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute")
_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = Resource(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
FOREIGN = (
    ROLES,
    ROLE_BINDINGS,
    HORIZONTAL_POD_AUTOSCALERS,
    VOLCANO_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    INGRESSES,
    NETWORK_POLICIES,
    ROUTES,
    HTTP_ROUTES,
    VALIDATING_WEBHOOKS,
    MUTATING_WEBHOOKS,
)

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in (*BUILT_IN, *DYFF, *TRAINING, FRAMEWORKS, *RAY, APP_WRAPPERS, *KUEUE, *FOREIGN)
}


def find_resource(obj: Json) -> Resource:
    """The resource of an object, by its apiVersion and kind; KeyError for one not listed here."""
    return _BY_KIND[(obj["apiVersion"], obj["kind"])]
