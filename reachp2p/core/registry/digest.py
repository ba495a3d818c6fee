"""One node's line in a digest: what two nodes compare about it, as an entry that travels and as bytes that are hashed.

A line follows from a head, from how complete the node's records are and from our verdict. Most of a digest is the same
from one comparison to the next, so a line is kept with its head.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.ids import LIFE_ID_BYTES, NODE_ID_BYTES
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.cose import head as cbor_head
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import DigestEntry

_FALSE, _TRUE = b"\xf4", b"\xf5"
_ROW_START = cbor_head(0x80, 8) + cbor_head(0x40, NODE_ID_BYTES)
_LIFE_ID_HEAD = cbor_head(0x40, LIFE_ID_BYTES)


class Line(msgspec.Struct, frozen=True, gc=False):
    """`row`: the entry in deterministic CBOR. `ends`: the wall time, in Unix seconds, until which the head is valid."""

    entry: DigestEntry
    row: bytes
    ends: int


def line(checked: Checked[Head], complete: int, dead: bool) -> Line:
    """The line of a head: `complete` is the version through which the node's records are here, `dead` our verdict."""
    known = checked.memo
    if isinstance(known, Line) and known.entry.complete == complete and known.entry.dead is dead:
        return known
    head = checked.fact
    entry = DigestEntry(head.node, head.life, head.left, head.incarnation, head.version, complete, dead)
    made = Line(entry, _row(entry), head.issued_at + head.valid_for)
    checked.keep(made)
    return made


def _row(entry: DigestEntry) -> bytes:
    """[node, epoch, life id, left, incarnation, version, complete, dead]"""
    return b"".join(
        (
            _ROW_START,
            entry.node,
            cbor_head(0, entry.life.epoch),
            _LIFE_ID_HEAD,
            entry.life.life_id,
            _TRUE if entry.left else _FALSE,
            cbor_head(0, entry.incarnation),
            cbor_head(0, entry.version),
            cbor_head(0, entry.complete),
            _TRUE if entry.dead else _FALSE,
        )
    )
