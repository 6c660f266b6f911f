"""Opens the view that a URL names; the platform process calls it, with its setting `view`."""

from steelyard.engines.addresses import without_password
from steelyard.views.in_memory import MemoryView
from steelyard.views.sqlite.view import SqliteView
from steelyard.views.view import View, ViewError


async def prepare_view(url: str) -> bool:
    """Make the indexes of a view in MongoDB; False for other views, which need none. Raises ViewError."""
    if not url.startswith(("mongodb:", "mongodb+srv:")):
        return False
    view = await open_view(url)  # makes those that are missing
    await view.close()
    return True


async def open_view(url: str) -> View:
    """`sqlite:PATH`, `mongodb://HOST/DATABASE` or `memory:`. Raises ViewError."""
    scheme, colon, path = url.partition(":")
    match scheme + colon, path:
        case "memory:", "":
            return MemoryView()
        case "sqlite:", path if path:
            return await SqliteView.open(path)
        case "mongodb:" | "mongodb+srv:", _:
            # Imported by need: one machine has SQLite, and the driver is an extra.
            try:
                from steelyard.views.mongodb.view import MongoView
            except ImportError as error:
                raise ViewError(
                    f"view: MongoDB needs {error.name}: pip install 'steelyard[mongodb]'"
                ) from error
            return await MongoView.open(url)
    raise ViewError(
        f"view: {without_password(url)!r} should be sqlite:PATH, mongodb://HOST/DATABASE or memory:"
    )
