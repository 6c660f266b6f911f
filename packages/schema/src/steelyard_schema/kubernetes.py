"""Rules of Kubernetes' own validation: quantities, names of variables, extended resources.

Requests, custom resources and manifests share them, so that an object is refused when a user sends it, and not by the
cluster afterwards.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from steelyard_schema.bounds import INT64
from steelyard_schema.quantity import amount

QUANTITY_PATTERN = (
    r"^\+?([0-9]{1,19}(\.[0-9]{0,19})?|\.[0-9]{1,19})([KMGTPE]i|[numkMGTPE]|[eE][-+]?(0?[0-9]|1[0-8]))?$"
)
"""Pattern of quantities. Kubernetes computes in 64 bits, and takes longer numbers for others than were written."""
VARIABLE_PATTERN = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
LABEL_VALUE_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
ACCELERATOR_PATTERN = rf"^{_LABEL}(\.{_LABEL})*(/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?)?$"
"""Pattern of accelerators: a domain, and a name after a slash."""
_NATIVE = "kubernetes.io"


def check_quantity(text: str) -> str:
    """Return the quantity. Raises ValueError for one that Kubernetes cannot compute with."""
    if amount(text) > INT64:
        raise ValueError(f"{text!r} is more than {INT64}, the greatest quantity of Kubernetes")
    return text


def check_accelerator(text: str) -> str:
    """Return the type. Raises ValueError for a domain that is Kubernetes' own: no device plugin may serve it."""
    domain = text.partition("/")[0]
    if len(domain) > 253 or domain == _NATIVE or domain.endswith(f".{_NATIVE}"):
        raise ValueError(f"{text!r} should be a type such as nvidia.com/gpu-t4, not of {_NATIVE}")
    return text


Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=64), AfterValidator(check_quantity)]
"""An amount as Kubernetes writes it."""
VariableName = Annotated[str, Field(pattern=VARIABLE_PATTERN, min_length=1, max_length=255)]
"""Name of an environment variable."""
