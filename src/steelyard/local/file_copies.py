"""Files of a storage that was lost, copied back from its mirror. `steelyard restore --files` calls this."""

import asyncio
import tempfile
from pathlib import Path

from steelyard.local.engines import IMPORTED
from steelyard.services.identity import IDENTITY
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.checked import DigestMismatch, EntityDigests, check_digest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import Store


async def restore_files(source: Store, storage: Store) -> int:
    """Copy the files that the storage lacks; return their number. Raises Refused for a file of another digest."""
    digests, count = EntityDigests(source), 0
    # The identity is that of the earlier log; the storage gets its own.
    present = {info.key async for info in storage.list()} | {IDENTITY, IMPORTED}
    with tempfile.TemporaryDirectory(prefix="steelyard-restore-") as folder:
        scratch = Path(folder) / "file"
        async for info in source.list():
            if info.key in present:
                continue
            await source.download(info.key, scratch)
            digest = await asyncio.to_thread(file_sha256, scratch)
            try:
                check_digest(source, info.key, digest, await digests.find(info.key))
            except DigestMismatch as error:
                raise Refused(str(error)) from error
            await storage.put_file(info.key, scratch)
            count += 1
    return count
