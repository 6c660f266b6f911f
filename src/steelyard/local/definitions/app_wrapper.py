"""Definition of AppWrapper, `workload.codeflare.dev/v1beta2`."""

from steelyard.local.definitions.building import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    INT32,
    STRING,
    age,
    array,
    column,
    definition,
    is_true,
    kind_schema,
    mapping_of,
    obj,
    one_of,
    version,
)
from steelyard_common.types import Json

PHASES = ("Suspended", "Resuming", "Running", "Resetting", "Suspending", "Succeeded", "Failed", "Terminating")


def app_wrapper_definition() -> Json:
    pod_set = obj(("path",), replicas=INT32, path=STRING, annotations=mapping_of(STRING))
    template = {**ANYTHING, "x-kubernetes-embedded-resource": True}
    component = obj(
        ("template",),
        annotations=mapping_of(STRING),
        podSets=array(pod_set),
        podSetInfos=array(ANYTHING),
        template=template,
    )
    status = obj(
        phase=one_of("", *PHASES),
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
