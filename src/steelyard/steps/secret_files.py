"""Secrets of a step: files in the folder that `STEELYARD_SECRETS` names, one for each purpose.

A value must not reach a log, an error or a file that stays: `scrub` takes it out of texts of libraries.
"""

import os
from pathlib import Path

from steelyard.steps.common import StepFailed
from steelyard_schema.secrets import SecretPurpose

FOLDER = "STEELYARD_SECRETS"
SHORTEST = 8
"""Characters of a value from which on it is taken out of texts: a shorter one is a part of ordinary words."""


def secret_value(purpose: SecretPurpose) -> str | None:
    """Return the value of the workflow's secret, None without a secret. Raises StepFailed if it cannot be read.

    Blanks and line breaks around it are left out: a file that was made with an editor ends with one.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    try:
        value = (Path(folder) / purpose).read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        message = f"secrets.{purpose}: the secret cannot be read: {type(error).__name__}"
        raise StepFailed("SecretUnreadable", message, permanent=False) from None
    if not value:
        raise StepFailed("SecretUnreadable", f"secrets.{purpose}: the secret is empty", permanent=True)
    return value


def scrub(text: str, value: str | None) -> str:
    """Return the text without the value, which a library may have quoted."""
    return text.replace(value, "***") if value and len(value) >= SHORTEST else text
