"""The commands that set a quota and report how much of it is used."""

from typing import Literal

from steelyard_schema.commands.base import CommandData, EntityCommand, Patch
from steelyard_schema.kubernetes import Quantity
from steelyard_schema.quota import Quota


class QuotaUsagePatch(Patch):
    """Usage of a quota."""

    usage: Quantity
    """Amount that is used now."""


class QuotaUsageData(CommandData):
    """The quota, and its usage."""

    attributes: QuotaUsagePatch
    """Merge patch of the usage."""


class PutQuota(EntityCommand):
    """Sets a quota, which may be there with another limit."""

    command: Literal["PutQuota"] = "PutQuota"
    data: Quota


class UpdateQuotaUsage(EntityCommand):
    """Reports how much of a quota is used."""

    command: Literal["UpdateQuotaUsage"] = "UpdateQuotaUsage"
    data: QuotaUsageData
