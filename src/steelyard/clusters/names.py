"""Labels and annotations of training jobs that are read or written here; the operator has the same words."""

PREFIX = "training.kubeflow.org/"
JOB_NAME = f"{PREFIX}job-name"
REPLICA_TYPE = f"{PREFIX}replica-type"
REPLICA_INDEX = f"{PREFIX}replica-index"
JOB_ROLE = f"{PREFIX}job-role"

ATTEMPT = "steelyard/attempt"
RESTART_SCOPE = "steelyard/restart-scope"
OUTPUT_MODEL = "steelyard/output-model"
OUTPUT_CLAIM = "steelyard/output-claim"
OUTPUT_REGISTER = "steelyard/output-register"
CODE_DIGEST = "steelyard/code-digest"
PROGRAM = "steelyard/program"
"""Annotation of a job made by `steelyard train run`: the command, as its user wrote it."""

NAME_LIMIT = 63
"""Characters of a Pod's name, which is its host name: a DNS label."""
MAX_REPLICAS = 10_000
"""Maximum replicas of one type, as the definitions of the kinds have it."""
MAX_NUMBER = 2**31 - 1
"""Maximum of the other numbers of a job, as v1 has it; numbers of seconds may be larger."""
