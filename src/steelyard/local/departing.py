"""Deleted and forgotten entities, read from the log of the settings. `steelyard backup forgotten` calls it."""

from steelyard.broker.log import LogError
from steelyard.broker.open import open_log
from steelyard.engines.addresses import without_password
from steelyard.local.config import not_made_yet
from steelyard.services.reaper.departures import Departure, departures
from steelyard.settings import Settings
from steelyard.sqlite import DatabaseError
from steelyard_common.errors import SteelyardError


async def read_departures(settings: Settings) -> list[Departure]:
    """Return the deleted and forgotten entities. Raises SteelyardError where there is no log, or it cannot be read."""
    if not_made_yet(settings.log):
        raise SteelyardError(
            f"log {without_password(settings.log)}: is not there yet; the first start makes it"
        )
    try:
        log = await open_log(settings.log)
        try:
            return await departures(log)
        finally:
            await log.close()
    except (LogError, DatabaseError) as error:
        raise SteelyardError(str(error)) from error
