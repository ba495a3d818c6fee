"""The part of a node that is about routing rules: its own file, and those of the cluster (docs/protocol/rules.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reachp2p._arguments import check_text
from reachp2p.core.views import RulesView
from reachp2p.errors import LocalProtocolError

if TYPE_CHECKING:  # naming `Node` loads no event loop
    from trio import TaskStatus

    from reachp2p.core.engine import Engine
    from reachp2p.runtime.driver import Driver
    from reachp2p.runtime.rules_file import RulesFile


class Governed:
    """What a `Node` can say about rules. Its methods may be called from any task of the node's trio run."""

    _rules_file: RulesFile | None

    @property
    def _driver(self) -> Driver:
        raise NotImplementedError  # a node has one once it has started

    def _check_running(self) -> None:
        raise NotImplementedError  # raises `LocalProtocolError` before the start and after the end

    def rules(self) -> RulesView:
        """The rules that this node goes by: of its own file, then of the cluster, with their history."""
        return self._driver.engine.rules()

    async def apply_rules(self, rules: Mapping[str, Any], comment: str = "") -> int:
        """Let the whole cluster go by these rules, in place of its former ones; returns their version.

        `rules`: what a TOML file of rules says, `{"rule": [{…}]}`. `comment` is shown beside them. Raises
        `RulesInvalid` (1704) with everything that is wrong, and nothing has changed.
        """
        self._check_running()
        check_text("comment", comment, "carts stay where they are")
        version = self._driver.engine.apply_rules(rules, comment, self._driver.now)
        await self._driver.give_way()
        return version

    async def reload_rules(self) -> bool:
        """Read the own file of rules now; false if it says what it said before.

        Raises `ConfigurationInvalid` (1704), and nothing has changed, or `LocalProtocolError` if there is no such file.
        """
        self._check_running()
        if self._rules_file is None:
            raise LocalProtocolError("this node has no file of rules: start it with rules=… (--rules FILE)")
        has_changed = await self._rules_file.load(self._driver.engine)
        await self._driver.give_way()
        return has_changed

    async def _load_rules(self, engine: Engine) -> None:
        if self._rules_file is not None:
            await self._rules_file.load(engine)

    async def _watch_rules(self, *, task_status: TaskStatus[None]) -> None:
        assert self._rules_file is not None, "this service runs if there is one"
        task_status.started()
        await self._rules_file.watch(self._driver.engine, self._driver.wake)
