"""One rule says who may call an agent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.ids import NodeId
from reachp2p.core.registry.access import ACCESS, CALLERS_MAX, Access, check_access, may_call
from reachp2p.errors import InvalidIdentifier

NODE, OTHER = NodeId(bytes([1]) * 32), NodeId(bytes([2]) * 32)


@pytest.mark.parametrize(
    ("access", "callers", "offered", "allowed"),
    [
        ("public", [], [], True),
        ("private", [], [], False),
        ("private", [], ["nlp/other"], True),
        ("private", [], ["nlpx/other"], False),
        ("private", [], ["shop/nlp"], False),
        ("restricted", ["shop"], ["shop/cart"], True),
        ("restricted", ["shop"], ["shop2/cart"], False),
        ("restricted", ["shop"], ["nlp/summarizer"], False),
        ("restricted", ["shop/cart"], ["shop/cart"], True),
        ("restricted", ["shop/cart"], ["shop/cart2"], False),
        ("restricted", ["x", NODE.hex()], [], True),
        ("restricted", [OTHER.hex()], ["shop/cart"], False),
    ],
)
def test_who_may_call(access: str, callers: list[str], offered: list[str], allowed: bool) -> None:
    assert may_call(ACCESS[access], callers, "nlp/summarizer", NODE, offered) is allowed


names = st.sampled_from(["a", "b", "a/x", "a/y", "b/x", NODE.hex()])
agents = st.sampled_from(["a/x", "a/y", "b/x", "c/z"])


@given(st.sampled_from(Access), st.lists(names), st.lists(agents), st.lists(agents))
def test_to_offer_more_never_takes_a_right_away(
    access: Access, callers: list[str], offered: list[str], more: list[str]
) -> None:
    if may_call(access, callers, "a/x", NODE, offered):
        assert may_call(access, callers, "a/x", NODE, offered + more)


def test_a_declaration_is_checked() -> None:
    check_access("public", ())
    check_access("restricted", ("shop", "shop/cart", NODE.hex(), *("n",) * (CALLERS_MAX - 3)))
    check_access("private", ())
    with pytest.raises(InvalidIdentifier, match=r"caller 7: .*64 hex digits of a node id \[1707\]"):
        check_access("restricted", (7,))  # type: ignore[arg-type]
