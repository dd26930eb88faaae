"""The view of the audit trail: what commands have done to the index, when, and by whom."""

from __future__ import annotations

import msgspec

from streamer.console.answers import ConsoleData, Limit
from streamer.upkeep.audit_trail import Deed, deeds_of


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest deeds."""

    limit: Limit = 100


class AuditAnswer(msgspec.Struct, frozen=True):
    """What was done to the index, newest first; `has_index` tells whether there is one to ask."""

    has_index: bool
    deeds: list[Deed]


def audit(data: ConsoleData, query: AuditQuery) -> AuditAnswer:
    """Return what was done to the index.

    Raises:
        StoreUnavailable: the trail cannot be read.
    """
    if data.index is None:
        return AuditAnswer(has_index=False, deeds=[])
    return AuditAnswer(has_index=True, deeds=deeds_of(data.index.folder, query.limit))
