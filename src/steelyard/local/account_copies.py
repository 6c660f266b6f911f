"""Copies of the accounts database in the backup: `steelyard backup write` makes them, `steelyard restore` reads them.

A copy has accounts, keys, signing keys, webhooks and secrets. It is encrypted with the installation's secret keys: who
reads the backup cannot sign tokens, and only an installation that has the same keys can restore it.
"""

import asyncio
import base64
import gzip
import re
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import orjson
from pydantic import ConfigDict, TypeAdapter

from steelyard.accounts.database import EncryptedSecret
from steelyard.accounts.open import AccountsDatabase
from steelyard.accounts.secrets import SecretKeys, SecretUnreadable
from steelyard.accounts.secrets.secrets import BATCH
from steelyard.services.backup.compressed import unpack_gzip
from steelyard.services.backup.record_files import Damaged
from steelyard_common.errors import Refused
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store, display_name

FOLDER = "accounts/"
LIMIT = 256 << 20
"""Bytes that the content of a copy has at most."""
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"\d{8}T\d{6}Z")
_OWNER = "steelyard backup"
"""Stands in the place of an account's name; no account's secret can be taken for a copy."""
_ANY = ""
"""Id that no key has: all secrets are another key's."""
_SECRETS = TypeAdapter(
    list[EncryptedSecret], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


async def write_copy(
    accounts: AccountsDatabase, keys: SecretKeys, store: Store, now: datetime, limit: int = LIMIT
) -> int:
    """Write a copy of the database as it is; return the number of accounts.

    Raises Refused for a database that is too large: its copy could not be restored.
    """
    name = now.astimezone(UTC).strftime(_TIME)
    contents = await accounts.transfer.dump()
    secrets: list[EncryptedSecret] = []
    after = ("", "")
    while batch := await accounts.secrets.list_other_keys(_ANY, after, BATCH):
        secrets.extend(batch)
        after = (batch[-1].account, batch[-1].name)
    copy = orjson.dumps({"rows": contents, "secrets": _SECRETS.dump_python(secrets, mode="json")})
    if len(copy) > limit:
        raise Refused(
            f"accounts: a copy of the database has {len(copy)} bytes, and at most {limit} can be restored; "
            "keep a dump of the database itself"
        )
    packed = await asyncio.to_thread(gzip.compress, copy, mtime=0)
    encrypted = keys.encrypt(_OWNER, name, base64.b64encode(packed).decode())
    file = {"format": 1, "key": keys.first, "content": base64.b64encode(encrypted).decode()}
    await store.put(f"{FOLDER}{name}.json", orjson.dumps(file))
    return len(contents["accounts"])


async def remove_old_copies(store: Store, keep: timedelta, now: datetime) -> None:
    """Remove copies that are older than `keep`; the newest one stays."""
    for name in (await list_copies(store))[:-1]:
        if now - _time(name) > keep:
            await store.delete(f"{FOLDER}{name}.json")


async def list_copies(store: Store) -> list[str]:
    """Return the names of the copies, the newest last."""
    names = [info.key.removeprefix(FOLDER).removesuffix(".json") async for info in store.list(FOLDER)]
    return sorted(filter(_NAME.fullmatch, names))


async def describe_copies(store: Store) -> str:
    """Return a fact about the backup for `steelyard config check`."""
    copies = await list_copies(store)
    if copies:
        return f"accounts of {_time(copies[-1]).isoformat()}"
    return "no copy of accounts yet: steelyard backup write makes one"


async def restore_accounts(
    accounts: AccountsDatabase,
    store: Store,
    keys: Callable[[], SecretKeys | None],
    until: datetime | None,
) -> int | None:
    """Fill an empty database from the newest copy, or the one of the time `until`; return the number of accounts.

    None where the database has accounts, which stay, or where there is no copy. `keys` is called only where a copy is
    read: it may make a file. Raises Damaged, Refused.
    """
    names = await list_copies(store)
    if not names or await accounts.accounts.list():
        return None
    fitting = [name for name in names if until is None or _time(name) <= until] or names[:1]
    copy = await read_copy(store, fitting[-1], keys())
    secrets = _SECRETS.validate_json(orjson.dumps(copy["secrets"]))
    # Before the accounts: a call that was cut short finds no account, and begins again.
    for secret in secrets:
        await accounts.secrets.put(secret, len(secrets))
    await accounts.transfer.load(copy["rows"])
    return len(copy["rows"]["accounts"])


async def read_copy(store: Store, name: str, keys: SecretKeys | None) -> Json:
    """Return the content of a copy. Raises Damaged, and Refused where the keys are not those that encrypted it."""
    key = f"{FOLDER}{name}.json"
    shown = display_name(store.url, key)
    if keys is None:
        raise Refused(f"{shown}: is encrypted, and secret_keys names no file of keys; nothing was changed")
    try:
        file = orjson.loads(await store.get(key))
        encrypted = base64.b64decode(file["content"], validate=True)
        packed = base64.b64decode(keys.decrypt(_OWNER, name, file["key"], encrypted))
        content: Json = orjson.loads(await asyncio.to_thread(unpack_gzip, packed, LIMIT))
    except SecretUnreadable as error:
        raise Refused(
            f"{shown}: cannot be read with the secret keys of these settings; name the keys of the installation that "
            "wrote it"
        ) from error
    except (ValueError, KeyError, TypeError, EOFError, OSError, zlib.error) as error:
        raise Damaged(f"{shown}: is damaged: it is not a copy of accounts") from error
    return content


def _time(name: str) -> datetime:
    return datetime.strptime(name, _TIME).replace(tzinfo=UTC)
