"""Names, labels and annotations of training jobs: v1's, and our own.

Contract: Kubeflow Training Operator 1.9 (`training.kubeflow.org/*`).
"""

PREFIX = "training.kubeflow.org/"
JOB_NAME = f"{PREFIX}job-name"
OPERATOR_NAME = f"{PREFIX}operator-name"
REPLICA_TYPE = f"{PREFIX}replica-type"
REPLICA_INDEX = f"{PREFIX}replica-index"
JOB_ROLE = f"{PREFIX}job-role"

ATTEMPT = "steelyard/attempt"
"""Label of a Pod: which attempt of its replica it is, from 0."""
RESTART_SCOPE = "steelyard/restart-scope"
"""Annotation of a job: Pod, ReplicaType or Job, instead of its framework's own."""
FAILURE_RULES = "steelyard/failure-rules"
"""Annotation of a job of a v1 kind: the JSON of what `spec.failureRules` is in a DLJob."""
OUTPUT_MODEL = "steelyard/output-model"
"""Annotation of a job of a v1 kind: the name of the Model that its output becomes."""
OUTPUT_PATH = "steelyard/output-path"
"""Annotation: the folder that the output is written to; a program finds it in $STEELYARD_OUTPUT."""
OUTPUT_REGISTER = "steelyard/output-register"
"""Annotation: Resource (the operator makes the Model) or Platform (a client of the platform will)."""
CODE_DIGEST = "steelyard/code-digest"
"""Annotation: the digest of the program, `sha256:…`, by whoever submits the job."""
DATA_DIGEST = "steelyard/data-digest"
"""Annotation: the digest of what it is trained on."""
FROM_JOB = "steelyard/from-job"
"""Annotation of a Model: `<kind>/<name>` of the job whose output it is."""
PORT_RANGE = "steelyard/port-range"
"""Annotation: `20000-20999`, main ports of replicas on their hosts' network are taken from it."""
NAME_LIMIT = 63
"""Characters of a Pod's name, which is its host name: a DNS label."""
