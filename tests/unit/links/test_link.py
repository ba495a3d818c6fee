"""The states of a link are a table; the page draws that table and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.ids import LinkId
from reachp2p.core.links.incoming import Incoming
from reachp2p.core.links.link import TRANSITIONS, Link, LinkInput, LinkState
from reachp2p.core.links.outgoing import Outgoing
from reachp2p.core.settings import Protocol

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol" / "links.md"


def a_link(state: LinkState) -> Link:
    protocol = Protocol()
    return Link(
        id=LinkId(1),
        state=state,
        handshake=None,
        outgoing=Outgoing(protocol),
        incoming=Incoming(protocol, Counters()),
        opened_at=0.0,
    )


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("happened", LinkInput)
def test_a_link_goes_where_the_table_says_and_nowhere_else(state: LinkState, happened: LinkInput) -> None:
    link = a_link(state)
    if (state, happened) in TRANSITIONS:
        assert link.move(happened) is link.state is TRANSITIONS[state, happened]
    else:
        with pytest.raises(AssertionError):
            link.move(happened)
        assert link.state is state


def test_every_state_can_end_and_a_closed_link_stays_closed() -> None:
    for state in LinkState:
        if state is not LinkState.CLOSED:
            assert TRANSITIONS[state, LinkInput.FAILED] is LinkState.CLOSED
            assert TRANSITIONS[state, LinkInput.TRANSPORT_CLOSED] is LinkState.CLOSED
    assert {after for (before, _), after in TRANSITIONS.items() if before is LinkState.CLOSED} <= {
        LinkState.CLOSED
    }


def test_a_link_is_usable_only_when_proven() -> None:
    assert [state for state in LinkState if a_link(state).is_usable] == [LinkState.PROVEN]


def test_the_page_draws_exactly_this_table() -> None:
    drawn = re.findall(r"^ +([A-Z]+) --> ([A-Z]+) : ([A-Z_]+)$", PAGE.read_text(), re.MULTILINE)
    table = [(before.name, after.name, happened.name) for (before, happened), after in TRANSITIONS.items()]
    assert sorted(drawn) == sorted(table)
