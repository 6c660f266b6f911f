"""Definitions of Kueue's kinds, `kueue.x-k8s.io/v1beta1` and `v1beta2`.

One schema holds for both versions: fields that one of them renames are there by both names.
"""

from collections.abc import Sequence

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.building import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    TIME,
    age,
    array,
    column,
    definition,
    enum_schema,
    integer,
    is_true,
    kind_schema,
    map_schema,
    obj,
    version,
)

_GROUP = "kueue.x-k8s.io"
_STOP = enum_schema("None", "Hold", "HoldAndDrain", default="None")


def kueue_definitions() -> list[Json]:
    return [_cluster_queue(), _cohort(), _local_queue(), _resource_flavor(), _workload(), _priority_class()]


def _definition(
    kind: str, names: Json, schema: Json, columns: Sequence[Json], *, namespaced: bool, status: bool
) -> Json:
    versions = [
        version("v1beta2", schema, columns, status=status),
        version("v1beta1", schema, columns, stored=False, status=status),
    ]
    return definition(_GROUP, kind, names, versions, namespaced=namespaced)


def _usage() -> Json:
    resource = obj(("name",), name=STRING, total=QUANTITY, borrowed=QUANTITY)
    return array(obj(("name",), name=STRING, resources=array(resource, "name")), "name")


def _counts() -> dict[str, Json]:
    return {
        "conditions": CONDITIONS,
        "pendingWorkloads": INT32,
        "reservingWorkloads": INT32,
        "admittedWorkloads": INT32,
        "flavorsReservation": _usage(),
        "flavorsUsage": _usage(),
        "fairSharing": ANYTHING,
    }


def _groups() -> Json:
    resource = obj(
        ("name", "nominalQuota"),
        name=STRING,
        nominalQuota=QUANTITY,
        borrowingLimit=QUANTITY,
        lendingLimit=QUANTITY,
    )
    flavor = obj(("name", "resources"), name=STRING, resources=array(resource, "name"))
    group = obj(
        ("coveredResources", "flavors"),
        coveredResources=array(STRING),
        flavors=array(flavor, "name"),
    )
    return array(group)


def _cohort() -> Json:
    spec = obj(parentName=STRING, resourceGroups=_groups(), fairSharing=ANYTHING)
    columns = [column("Parent", ".spec.parentName"), age()]
    schema = kind_schema(
        "ClusterQueues that lend each other quota.", spec=spec, status=obj(fairSharing=ANYTHING)
    )
    names = {"plural": "cohorts"}
    return _definition("Cohort", names, schema, columns, namespaced=False, status=True)


def _cluster_queue() -> Json:
    spec = obj(
        resourceGroups=_groups(),
        cohort=STRING,
        cohortName=STRING,
        queueingStrategy=enum_schema("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
        namespaceSelector=ANYTHING,
        flavorFungibility=ANYTHING,
        preemption=obj(
            reclaimWithinCohort=STRING,
            borrowWithinCohort=ANYTHING,
            withinClusterQueue=enum_schema(
                "Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"
            ),
        ),
        admissionChecks=array(STRING),
        admissionChecksStrategy=ANYTHING,
        admissionScope=ANYTHING,
        stopPolicy=_STOP,
        fairSharing=ANYTHING,
    )
    columns = [
        column("Cohort", ".spec.cohort"),
        column("Strategy", ".spec.queueingStrategy", wide=True),
        column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer", wide=True),
    ]
    status = obj(**_counts(), pendingWorkloadsStatus=ANYTHING)
    schema = kind_schema("A pool of quotas, by resource and flavour.", spec=spec, status=status)
    names = {"plural": "clusterqueues", "shortNames": ["cq"]}
    return _definition("ClusterQueue", names, schema, columns, namespaced=False, status=True)


def _local_queue() -> Json:
    columns = [
        column("ClusterQueue", ".spec.clusterQueue"),
        column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
    ]
    flavor = obj(
        name=STRING, resources=array(STRING), nodeLabels=map_schema(STRING), nodeTaints=array(ANYTHING)
    )
    # v1beta1 says flavorUsage, v1beta2 flavorsUsage.
    status = obj(**_counts(), flavorUsage=_usage(), flavors=array(flavor))
    spec = obj(clusterQueue=STRING, stopPolicy=_STOP, fairSharing=ANYTHING)
    schema = kind_schema("A namespace's way to a ClusterQueue.", spec=spec, status=status)
    names = {"plural": "localqueues", "shortNames": ["queue", "queues", "lq"]}
    return _definition("LocalQueue", names, schema, columns, namespaced=True, status=True)


def _resource_flavor() -> Json:
    spec = obj(
        nodeLabels=map_schema(STRING),
        nodeTaints=array(ANYTHING),
        tolerations=array(ANYTHING),
        topologyName=STRING,
    )
    schema = kind_schema("A sort of nodes, for quotas of their own.", spec=spec)
    names = {"plural": "resourceflavors", "shortNames": ["flavor", "flavors", "rf"]}
    return _definition("ResourceFlavor", names, schema, [age()], namespaced=False, status=False)


def _workload() -> Json:
    pod_set = obj(
        ("name", "template", "count"),
        name=STRING,
        template=ANYTHING,
        count=integer(0),
        minCount=INT32,
        topologyRequest=ANYTHING,
    )
    spec = obj(
        podSets=array(pod_set, "name"),
        queueName=STRING,
        active={**BOOLEAN, "default": True},
        priority=INT32,
        priorityClassName=STRING,
        priorityClassSource=STRING,
        priorityClassRef=obj(group=STRING, kind=STRING, name=STRING),
        maximumExecutionTimeSeconds=INT32,
    )
    assignment = obj(
        ("name",),
        name=STRING,
        flavors=map_schema(STRING),
        resourceUsage=map_schema(QUANTITY),
        count=INT32,
        topologyAssignment=ANYTHING,
        delayedTopologyRequest=STRING,
    )
    status = obj(
        conditions=CONDITIONS,
        admission=obj(("clusterQueue",), clusterQueue=STRING, podSetAssignments=array(assignment, "name")),
        requeueState=obj(count=INT32, requeueAt=TIME),
        reclaimablePods=array(obj(("name",), name=STRING, count=INT32), "name"),
        admissionChecks=array(ANYTHING),
        resourceRequests=array(obj(("name",), name=STRING, resources=map_schema(QUANTITY)), "name"),
        schedulingStats=ANYTHING,
        accumulatedPastExexcutionTimeSeconds=INT32,
        accumulatedPastExecutionTimeSeconds=INT64,
    )
    columns = [
        column("Queue", ".spec.queueName"),
        column("Reserved in", ".status.admission.clusterQueue"),
        column("Admitted", is_true("Admitted")),
        column("Finished", is_true("Finished")),
        age(),
    ]
    schema = kind_schema("What a queue admits: the Pods of one job.", spec=spec, status=status)
    names = {"plural": "workloads", "shortNames": ["wl"]}
    return _definition("Workload", names, schema, columns, namespaced=True, status=True)


def _priority_class() -> Json:
    columns = [column("Value", ".value", "integer")]
    schema = kind_schema("A priority in queues.", ("value",), value=INT32, description=STRING)
    names = {"plural": "workloadpriorityclasses"}
    return _definition("WorkloadPriorityClass", names, schema, columns, namespaced=False, status=False)
