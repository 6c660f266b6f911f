"""Definition of AppWrapper, `workload.codeflare.dev/v1beta2`."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.building import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    INT32,
    STRING,
    age,
    array,
    column,
    definition,
    enum_schema,
    is_true,
    kind_schema,
    map_schema,
    obj,
    version,
)

PHASES = ("Suspended", "Resuming", "Running", "Resetting", "Suspending", "Succeeded", "Failed", "Terminating")


def app_wrapper_definition() -> Json:
    pod_set = obj(("path",), replicas=INT32, path=STRING, annotations=map_schema(STRING))
    template = {**ANYTHING, "x-kubernetes-embedded-resource": True}
    component = obj(
        ("template",),
        annotations=map_schema(STRING),
        podSets=array(pod_set),
        podSetInfos=array(ANYTHING),
        template=template,
    )
    status = obj(
        phase=enum_schema("", *PHASES),
        resettingCount=INT32,
        conditions=CONDITIONS,
        componentStatus=array(
            obj(name=STRING, kind=STRING, apiVersion=STRING, podSets=array(pod_set), conditions=CONDITIONS)
        ),
    )
    spec = obj(("components",), components=array(component), suspend=BOOLEAN, managedBy=STRING)
    columns = [
        column("Status", ".status.phase"),
        column("Quota Reserved", is_true("QuotaReserved")),
        column("Resources Deployed", is_true("ResourcesDeployed")),
        column("Unhealthy", is_true("Unhealthy")),
        age(),
    ]
    schema = kind_schema("Resources that are admitted, made and removed as one.", spec=spec, status=status)
    names = {"plural": "appwrappers"}
    return definition("workload.codeflare.dev", "AppWrapper", names, [version("v1beta2", schema, columns)])
