"""tree.py: sums and merges in an order that depends only on the cut, not on arrival or on which rank computed it.

A binary tree combines the values of leaves 0 .. count-1: node (level, index) stands for the leaves from index << level
up to those of the next node. A node whose sibling has no value on any rank passes its own value up.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Tuple

Node = Tuple[int, int]


class Tree:
    """Combines values as soon as both sides of a node are present."""

    def __init__(self, count: int, leaves: FrozenSet[int], combine: Callable[[Any, Any], Any]) -> None:
        """leaves: those that have a value, on any rank."""
        self._top = max(count - 1, 0).bit_length()
        self._filled = {(level, leaf >> level) for leaf in leaves for level in range(self._top + 1)}
        self._combine = combine
        self.waiting: Dict[Node, Any] = {}  # values whose sibling has not arrived

    def put(self, node: Node, value: Any) -> None:
        level, index = node
        while level < self._top:
            sibling = (level, index ^ 1)
            if sibling in self._filled:
                if sibling not in self.waiting:
                    break
                other = self.waiting.pop(sibling)
                value = self._combine(other, value) if index & 1 else self._combine(value, other)
            level, index = level + 1, index >> 1
        self.waiting[level, index] = value

    def root(self) -> Any:
        """The combined value of all leaves; None if there is none."""
        return self.waiting.get((self._top, 0))


def nodes_of(count: int, leaves: FrozenSet[int], own: FrozenSet[int]) -> List[Node]:
    """The nodes that stay waiting after the leaves `own` of all `leaves` are put in: what their owner sends to the
    rank that sums."""
    tree = Tree(count, leaves, lambda left, right: None)
    for leaf in sorted(own & leaves):
        tree.put((0, leaf), None)
    return sorted(tree.waiting)
