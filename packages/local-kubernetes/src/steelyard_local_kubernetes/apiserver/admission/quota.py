"""ResourceQuotas: what a write may still use, charged in the turn of the write; and the controller of their status.

Nothing is awaited between reading `status.used` and writing it, so two creates at once cannot both take what is left.
"""

import logging

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.admission.usage import (
    IGNORED,
    PODS,
    growth,
    in_scope,
    unsaid,
    usage,
    usage_buckets,
    usage_names,
)
from steelyard_local_kubernetes.apiserver.amounts import Amount, Amounts, add, amount, amounts, texts
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.faults import Faults

log = logging.getLogger(__name__)
BUCKET = "resourcequotas"
_GROWING = frozenset(["services", "persistentvolumeclaims"])  # whose updates may use more


class QuotaExceeded(Exception):
    """A quota that refuses a write; the text says why."""


def charge(quota: Json, bucket: str, obj: Json, old: Json | None) -> Amounts | None:
    """Return what a quota has in use after a write, None where the write does not touch it; raises QuotaExceeded."""
    hard = amounts(mapping(quota, "status", "hard"))
    names = usage_names(bucket, hard)
    if not names or not in_scope(quota, bucket, obj):
        return None
    name = quota["metadata"]["name"]
    used = amounts(mapping(quota, "status", "used"))
    if bucket == PODS and (said := unsaid(obj, names)):
        raise QuotaExceeded(f"failed quota: {name}: {said}")
    if any(resource not in used for resource in names):
        raise QuotaExceeded(f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")
    requested = usage(bucket, obj)
    # What the quota did not count before is new to it as a whole.
    before = usage(bucket, old) if old is not None and in_scope(quota, bucket, old) else {}
    requested = {key: value for key, value in growth(requested, before).items() if key in hard}
    if not requested:
        return None
    after = add(used, requested)
    over = sorted(key for key in requested if after[key].number > hard[key].number)
    if over:
        text = f"exceeded quota: {name}, requested: {_amounts_text(requested, over)}, used: {_amounts_text(used, over)}"
        raise QuotaExceeded(f"{text}, limited: {_amounts_text(hard, over)}")
    return after


def _amounts_text(values: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={values[name]}" for name in names)


def is_charged(bucket: str, obj: Json, old: Json | None) -> bool:
    """Return whether a write of this kind can use more of a quota."""
    if bucket in IGNORED:
        return False
    if bucket == PODS and old is not None:
        # With a deadline a Pod moves from one scope to the other.
        return _is_bounded(obj) != _is_bounded(old)
    return old is None or bucket in _GROWING


def _is_bounded(pod: Json) -> bool:
    return (pod["spec"].get("activeDeadlineSeconds") or -1) >= 0


class QuotaAdmission:
    """Charges the quotas of a namespace with a write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, kind: ResourceType, obj: Json, old: Json | None, options: Options) -> None:
        # Most servers have none at all: no write pays for it there.
        if not kind.namespaced or not self._store.bucket(BUCKET).size:
            return
        if not is_charged(kind.bucket, obj, old):
            return
        metadata = obj["metadata"]
        charged: list[tuple[Json, Amounts]] = []
        for item in self._store.bucket(BUCKET).items(metadata["namespace"]):
            quota = item.parse()
            try:
                used = charge(quota, kind.bucket, obj, old)
            except QuotaExceeded as error:
                raise errors.forbidden(kind.group, kind.plural, metadata["name"], str(error)) from error
            if used is not None:
                charged.append((quota, used))
        # Only once all of them allow it.
        for quota, used in () if options.dry_run else charged:
            quota["status"]["used"] = texts(used)
            self._store.put(BUCKET, quota)


class QuotaController:
    """Keeps `status` of every quota, as a listener of the store's commits: what ends or goes is given back at once.

    Counts what changes, so that a commit in a namespace of many objects costs no more than in a small one.
    """

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store, self._faults = store, faults
        self._ledgers: dict[Key, _Ledger] = {}
        for item in store.bucket(BUCKET).items():
            self._follow(item)
        store.listeners.append(self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        if not self._ledgers and not any(change.kind == BUCKET for change in changes):
            return
        touched: dict[Key, None] = {}
        for change in changes:
            if change.kind == BUCKET:
                self._ledgers.pop(change.new.key, None) if change.removed else None
                touched[change.new.key] = None
        for ledger in self._ledgers.values():
            # All of them, and not only up to the first one that counts.
            counted = [ledger.apply(change) for change in changes]
            if any(counted):
                touched[ledger.key] = None
        for key in touched:
            item = self._store.get(BUCKET, key)
            if item is not None:
                self._follow(item)

    def _follow(self, item: Item) -> None:
        try:
            self._write(item)
        except Exception:
            log.exception("the quota %s/%s cannot be counted", *item.key)
            self._faults.count("quota", "ResourceQuota")

    def _write(self, item: Item) -> None:
        quota = item.parse()
        ledger = self._ledgers.get(item.key)
        if ledger is None or ledger.spec != quota["spec"]:
            ledger = self._ledgers[item.key] = _Ledger(item.key, quota, self._store)
        status = mapping(quota, "status")
        hard, used = amounts(mapping(quota["spec"], "hard")), ledger.usage()
        if _numbers(status, "hard") == _plain(hard) and _numbers(status, "used") == _plain(used):
            return
        quota["status"] = {"hard": texts(hard), "used": texts(used)}
        self._store.put(BUCKET, quota)


def _numbers(status: Json, field: str) -> object:
    return _plain(amounts(mapping(status, field))) if field in status else None


def _plain(values: Amounts) -> dict[str, object]:
    return {name: value.number for name, value in values.items()}


class _Ledger:
    """The use that each object makes of one quota."""

    def __init__(self, key: Key, quota: Json, store: Store) -> None:
        self.key, self.spec, self._quota = key, quota["spec"], quota
        self._names = list(mapping(quota["spec"], "hard"))
        self._buckets = usage_buckets(self._names)
        self._rows: dict[tuple[str, Key], Amounts] = {}
        self._total: Amounts = {}
        for bucket in sorted(self._buckets):
            for item in store.bucket(bucket).items(key[0]):
                self._set((bucket, item.key), self._usage(bucket, item))

    def usage(self) -> Amounts:
        """The resources that anything here counts; others keep what their quota says of them, which is nothing."""
        counted = [name for bucket in self._buckets for name in usage_names(bucket, self._names)]
        return {name: self._total.get(name, _NOTHING) for name in self._names if name in counted}

    def apply(self, change: Change) -> bool:
        """Return whether a change affects a number that is counted here."""
        if change.kind not in self._buckets or change.new.namespace != self.key[0]:
            return False
        self._set(
            (change.kind, change.new.key), {} if change.removed else self._usage(change.kind, change.new)
        )
        return True

    def _usage(self, bucket: str, item: Item) -> Amounts:
        obj = item.parse()
        if not in_scope(self._quota, bucket, obj):
            return {}
        used = usage(bucket, obj)
        return {name: used[name] for name in usage_names(bucket, self._names) if name in used}

    def _set(self, row: tuple[str, Key], used: Amounts) -> None:
        for name, value in self._rows.pop(row, {}).items():
            self._total[name] -= value
        self._total = add(self._total, used)
        if used:
            self._rows[row] = used


_NOTHING: Amount = amount("0")
