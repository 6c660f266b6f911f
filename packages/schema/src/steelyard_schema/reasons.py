"""Reasons of statuses, one word each: what they say, and what helps. The reference is generated from them."""

REASONS: dict[str, str] = {
    "BadImage": (
        "The image of the runner or of a step is missing, or it cannot be pulled. Check its name, its "
        "digest and the registry's password."
    ),
    "BadRequest": (
        "The request of the entity cannot be carried out as it stands, or the service has refused a "
        "row. The message names the field or the row; make another entity."
    ),
    "BoundToAllAddresses": (
        "The runner listens on all addresses. It has to listen on $(POD_IP) alone; set its argument "
        "for the host."
    ),
    "BuildFailed": "The specification of the service does not parse. The message names the field.",
    "ClientFailed": (
        "The client that asks the rows has ended without success. Its log and the message say why; a "
        "rerun begins again."
    ),
    "DataSourceMissing": (
        "The data source of a dataset is not there, or was deleted. Create the dataset from another one."
    ),
    "DeleteCommand": "A client has deleted the entity or the account.",
    "DigestMismatch": (
        "A stored file has changed: its content has another digest than was recorded. The message names "
        "the file. Create the entity again, or restore the file from the mirror."
    ),
    "Expired": (
        "Files were not uploaded and finalized in time. Create another entity, and upload them to it."
    ),
    "FailedCreate": (
        "The API of Kubernetes does not accept the workflow's resource at the moment: a quota of the "
        "namespace, a webhook, a missing right. It is tried again."
    ),
    "FailedDependency": (
        "Something that the entity needs has failed, was terminated or was deleted; of a run or a "
        "submission, one of its workflows. Mend or rerun that first, then rerun this one."
    ),
    "FetchFailed": (
        "The files of a model or a data source could not be fetched. The message names the address "
        "and the answer."
    ),
    "Forgotten": "The workflow of a run was deleted for good; nothing is known of it but its id.",
    "Incomplete": "The evaluation is being prepared or answered, and not all rows have an answer yet.",
    "IngestFailed": (
        "The rows of a dataset could not be made of the files of its data source. The message names the file."
    ),
    "MethodFailed": (
        "The code of the method has ended with an error. The message is the last line of its traceback, "
        "with the last place in the method's own modules; the log has the rest."
    ),
    "MethodMissing": (
        "The function, the rubric or the notebook of the method is not in its modules. The message names it."
    ),
    "NameConflict": (
        "An object of this name exists in the namespace and belongs to somebody else. Remove it, and "
        "rerun the workflow."
    ),
    "NoSuchEvaluation": "The evaluation of a report was deleted.",
    "NoSuchModel": "The model of an inference service was deleted.",
    "NoSuchRubric": "The rubric is not known, or has no such argument.",
    "NotImplemented": (
        "This platform cannot carry out what the entity asks for; the message says what is possible."
    ),
    "OutputInvalid": (
        "The outputs of the evaluation are not complete or not unique: verification has found rows "
        "that are missing or doubled. A rerun begins again. Of a measurement or a safety case: what the "
        "method has written is not what it says it makes; the message names the file."
    ),
    "ProviderRefused": (
        "The platform's settings do not allow calls to the provider of a hosted model. An "
        "administrator can allow its address."
    ),
    "Quarantined": "A message of the entity cannot be applied. An administrator releases or drops it.",
    "QuotaLimit": (
        "The entity waits for a free quota. The message names the quota and the entity's place in the queue."
    ),
    "RateLimitExceeded": (
        "More entities were created in a time than a quota or the limit of a challenge allows; this "
        "one does not run."
    ),
    "ReactivateCommand": "An administrator has reactivated the account.",
    "Restarted": "An attempt of the client has failed, and the next one continues where it ended.",
    "RunnerCrashed": (
        "A replica has crashed and is started again. The message has the last error of its log."
    ),
    "RunnerFailed": (
        "The runner crashes again and again, or cannot be started. Its log and the message say why."
    ),
    "SessionEnded": "The session that an evaluation refers to ended before all rows had an answer.",
    "SessionExpired": "The session has reached the time at which it was to end.",
    "SessionFailed": "The session of an evaluation has failed or expired. The message has its own reason.",
    "SpendCapReached": (
        "The spending cap of a hosted model is reached, or leaves no room for the next call. Raise it, or use "
        "another service, and rerun the evaluation."
    ),
    "StartDeadline": (
        "No replica was ready within the time of the setting operator.session_start_seconds. The "
        "message says what the replicas waited for."
    ),
    "Starting": "The replicas of a session start, and none is ready yet.",
    "StepFailed": (
        "A step of a report, an audit or an analysis has ended without success. Its log and the message say why."
    ),
    "SuspendCommand": "An administrator has suspended the account.",
    "TerminateCommand": "A client has terminated the workflow, or the run that it belongs to.",
    "Timeout": "A step took longer than it may. The message has the time.",
    "UnsatisfiedDependency": "Something that the entity needs is not ready yet. The message names it.",
    "Unverified": "All rows have answers, which are being verified.",
    "UploadFailed": (
        "A file changed while its upload was finalized. Create another entity, and upload the files to it."
    ),
    "WaitingForDataSource": "The data source of the dataset is not ready yet.",
    "WaitingForEvaluation": "The evaluation of the report is not complete yet.",
    "WaitingForModel": "The model of the service is not ready yet.",
    "WaitingForSecret": (
        "The account has no secret of the name that the entity gives, or it cannot be read. Set it, "
        "and the workflow begins."
    ),
}
"""Sentences about each reason that an entity, a run or an account may have, in the order of the alphabet."""
