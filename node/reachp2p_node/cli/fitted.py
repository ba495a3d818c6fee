"""A table that fits its terminal: first it does without its less important columns, then it wraps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from reachp2p.runtime.text import plain

CELL_MAX = 120
GAP = 3
"""Characters between two columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. Of a table that is too wide, the least important go first; without `importance` it stays."""

    name: str
    importance: int = 0
    right: bool = False
    flexible: int = 0
    """If not 0: its text may be wrapped, down to this many characters."""


class Fitted:
    """A table that fits a width, if need be without some columns: their names are in `left_out`."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[str | Text]],
        width: int,
        dim: Sequence[bool] = (),
    ) -> None:
        cells = [[one if isinstance(one, Text) else cell(one) for one in row] for row in rows]
        kept = [place for place, column in enumerate(columns) if not column.name or _is_told(cells, place)]
        sizes = [_size(column, [row[place] for row in cells]) for place, column in enumerate(columns)]
        self.left_out: list[str] = []
        while _total(sizes, kept) > width:
            minor = [place for place in kept if columns[place].importance]
            if not minor:
                break
            least = min(minor, key=lambda place: columns[place].importance)
            kept.remove(least)
            self.left_out.append(columns[least].name)
        fits = _total(sizes, kept) <= width
        self.table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for place in kept:
            column = columns[place]
            self.table.add_column(
                column.name,
                justify="right" if column.right else "left",
                overflow="fold",
                no_wrap=fits and not column.flexible,
            )
        for number, row in enumerate(cells):
            self.table.add_row(*(row[place] for place in kept), style="dim" if dim and dim[number] else "")


def _is_told(cells: Sequence[Sequence[Text]], place: int) -> bool:
    """Whether any row has something in this column."""
    return any(row[place].plain for row in cells)


def _size(column: Column, cells: Sequence[Text]) -> int:
    longest = max((one.cell_len for one in cells), default=0)
    return max(len(column.name), min(longest, column.flexible) if column.flexible else longest)


def _total(sizes: Sequence[int], kept: Sequence[int]) -> int:
    return sum(sizes[place] for place in kept) + GAP * (len(kept) - 1)


def cell(text: object) -> Text:
    """Foreign text as a cell: one line, no controls, no markup."""
    return Text(plain(text, CELL_MAX))
