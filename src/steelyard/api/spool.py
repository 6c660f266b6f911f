"""The folder for files on their way to and from storage: the setting `api.spool`."""

import tempfile
from contextlib import AbstractContextManager

from steelyard.api.settings import ApiSettings
from steelyard_common.disk_space import no_room


def make_folder(settings: ApiSettings, prefix: str) -> AbstractContextManager[str]:
    """Make a folder for the files of one request; it is removed at the end."""
    return tempfile.TemporaryDirectory(dir=settings.spool or None, prefix=prefix)


def spool_fault(settings: ApiSettings) -> str:
    """Say why the folder takes no files; empty where it does. A full disk does not count: it passes."""
    try:
        with tempfile.TemporaryFile(dir=settings.spool or None):
            return ""
    except (OSError, ValueError) as error:
        if no_room(error):
            return ""
        words = error.strerror if isinstance(error, OSError) else str(error)
        return f"{settings.spool or 'is not set'}: {words}; it should be a folder in which the API may write files"
