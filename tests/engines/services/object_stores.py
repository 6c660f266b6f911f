"""The kinds of object stores that the suites run on, each with a server that they start."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.engines.services.azure import azure, wait_until_kept
from tests.engines.services.azure import client_environment as azure_environment
from tests.engines.services.folder import client_environment as folder_environment
from tests.engines.services.folder import folder
from tests.engines.services.gcs import another_account, gcs
from tests.engines.services.gcs import client_environment as gcs_environment
from tests.engines.services.s3 import client_environment as s3_environment
from tests.engines.services.s3 import s3
from tests.engines.services.service import Service

CHOSEN = "STEELYARD_TEST_STORE"
"""Name of the variable that chooses the kind, by its name."""


@dataclass(frozen=True)
class Kind:
    """One kind of object store."""

    name: str
    url: str
    start: Callable[[], AbstractContextManager[Service]]
    client_environment: Callable[[Service], Mapping[str, str]]
    wrong: Callable[[Service], tuple[str, str]]
    """Name and value of a wrong credential."""
    refusal: str
    """Code with which the server refuses it."""
    wait_until_kept: Callable[[Service, str], None] = lambda service, key: None
    """Returns once a kill does not lose an object any more."""
    urls_copy: bool = False
    """True where signed URLs copy objects that their holders may not read: a fault of the server of the tests."""
    keeps_at_once: bool = True
    """True if confirmed writes survive a kill."""

    @property
    def variable(self) -> str:
        """Name of the variable with the URL of an empty bucket that is there already.

        Its credentials come from the environment, as they do for the product.
        """
        return f"STEELYARD_TEST_{self.name.upper()}"

    @contextmanager
    def bucket(self) -> Iterator[Mapping[str, str]]:
        """Start a server; gives the variables with which the tests find its bucket."""
        with self.start() as service:
            yield {self.variable: self.url, **self.client_environment(service)}


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "s3",
            "s3://steelyard",
            s3,
            s3_environment,
            lambda _: ("AWS_SECRET_ACCESS_KEY", "wrong"),
            "403 Forbidden: SignatureDoesNotMatch",
        ),
        Kind(
            "folder",
            "s3://steelyard",
            folder,
            folder_environment,
            lambda _: ("AWS_SECRET_ACCESS_KEY", "wrong"),
            "403 Forbidden: SignatureDoesNotMatch",
        ),
        Kind(
            "gcs",
            "gs://steelyard",
            gcs,
            gcs_environment,
            lambda service: ("GOOGLE_SERVICE_ACCOUNT_KEY", another_account(service)),
            "403 Forbidden: AccessDenied",
        ),
        Kind(
            "azure",
            "az://steelyard",
            azure,
            azure_environment,
            lambda _: ("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc="),
            "403 Forbidden: AuthorizationFailure",
            wait_until_kept,
            urls_copy=True,
            keeps_at_once=False,
        ),
    )
}


def chosen() -> Kind:
    """Return the kind that the environment chooses; without a choice, S3."""
    return KINDS[os.environ.get(CHOSEN, "s3")]
