"""Writes the built-in kinds' schemas, as a real API server publishes them, into the embedded one's data file.

`python -m tests.kubernetes_api.generate_builtin`, by hand, when the version of Kubernetes changes; `kubectl` must
reach a real server.
"""

import gzip
import re
import subprocess
from pathlib import Path

import orjson

from steelyard.kube.resource import BUILT_IN, HORIZONTAL_POD_AUTOSCALERS, ROLE_BINDINGS, ROLES
from steelyard.types import Json

TARGET = Path("src/steelyard/local/apiserver/builtin.json.gz")
SERVED = [*BUILT_IN, ROLES, ROLE_BINDINGS, HORIZONTAL_POD_AUTOSCALERS]
DOCUMENTS = {
    f"apis/{resource.group}/{resource.version}" if resource.group else "api/v1" for resource in SERVED
}
DOCUMENTS |= {"apis/scheduling.k8s.io/v1", "apis/autoscaling/v1"}
DOCUMENTS |= {"apis/events.k8s.io/v1", "apis/authorization.k8s.io/v1", "apis/authentication.k8s.io/v1"}
DOCUMENTS |= {"apis/admissionregistration.k8s.io/v1", "apis/certificates.k8s.io/v1"}
NAMES = {*(resource.kind for resource in SERVED), "PriorityClass", "ClusterRole", "ClusterRoleBinding"}
NAMES |= {"LimitRange", "ResourceQuota", "CertificateSigningRequest"}
NAMES |= {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
NAMES |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
KINDS = NAMES | {f"{name}List" for name in NAMES} | {"Scale"}
KINDS |= {
    "SelfSubjectAccessReview",
    "SubjectAccessReview",
    "LocalSubjectAccessReview",
    "SelfSubjectRulesReview",
}
KINDS |= {"SelfSubjectReview", "TokenRequest", "TokenReview"}
KINDS |= {"Binding", "DeleteOptions", "Status"}
REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')


def closure(schemas: Json, names: set[str]) -> Json:
    """The named schemas and all that they refer to."""
    documents: Json = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name not in documents:
            documents[name] = schemas[name]
            waiting += REFERENCE.findall(orjson.dumps(schemas[name]).decode())
    return dict(sorted(documents.items()))


def published(document: str) -> Json:
    command = ["kubectl", "get", "--raw", f"/openapi/v3/{document}"]
    answer = subprocess.run(command, capture_output=True, check=True).stdout
    schemas: Json = orjson.loads(answer)["components"]["schemas"]
    return schemas


def _is_served(name: str) -> bool:
    """Version 1 of everything, but of what is at version 2 by now."""
    version = ".v2." if "HorizontalPodAutoscaler" in name else ".v1."
    return version in name


def main() -> None:
    schemas: Json = {}
    for document in sorted(DOCUMENTS):
        schemas |= published(document)
    wanted = {name for name in schemas if name.rpartition(".")[2] in KINDS and _is_served(name)}
    content = orjson.dumps(closure(schemas, wanted))
    TARGET.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{len(content)} bytes of JSON, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main()
