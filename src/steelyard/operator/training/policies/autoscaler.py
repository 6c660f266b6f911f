"""Autoscaler of an elastic job: `elasticPolicy` with metrics makes a HorizontalPodAutoscaler."""

from steelyard.operator.names import owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME
from steelyard.operator.training.model import TrainingJob
from steelyard_common.types import Json, mapping
from steelyard_kube.resource import HORIZONTAL_POD_AUTOSCALERS


def pod_autoscaler(job: TrainingJob) -> Json | None:
    """Make the autoscaler, which has the job's name and acts on its scale subresource; None if the job needs none."""
    policy = mapping(job.spec, "elasticPolicy")
    if not policy.get("metrics") or job.framework.scalable not in job.roles:
        return None
    replicas = job.roles[job.framework.scalable].count
    lowest = policy.get("minReplicas") or replicas
    return {
        "apiVersion": HORIZONTAL_POD_AUTOSCALERS.api_version,
        "kind": HORIZONTAL_POD_AUTOSCALERS.kind,
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label},
            "ownerReferences": [owner_reference(job.resource)],
        },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": job.resource["apiVersion"],
                "kind": job.kind,
                "name": job.name,
            },
            "minReplicas": lowest,
            "maxReplicas": policy.get("maxReplicas") or max(lowest, replicas),
            "metrics": policy["metrics"],
        },
    }
