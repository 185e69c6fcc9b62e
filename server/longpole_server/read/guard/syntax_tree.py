"""The syntax tree of a statement, as the database's own parser prints it (`EXPLAIN AST`)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_LINE = re.compile(r"(?P<indent> *)(?P<kind>\S+)(?: (?P<rest>.*))?", re.DOTALL)
_CHILDREN = re.compile(r"(?:^| )\(children (\d+)\)$")
_ALIAS = " (alias "


@dataclass(slots=True)
class Node:
    """One node. `label` is what the parser prints beside its kind, without an alias."""

    kind: str
    label: str
    num_children: int
    children: "list[Node]" = field(default_factory=list["Node"])

    def walk(self) -> "Iterator[Node]":
        """Return this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def parse_tree(lines: Sequence[str]) -> Node:
    """Return the root.

    Raises:
        ValueError: The lines are no tree: a name with a line break in it pretends to be a node.
    """
    roots: list[Node] = []
    # The path from the root to the newest node, with how far each is indented.
    path: list[tuple[int, Node]] = []
    for line in lines:
        depth, node = _parse_line(line)
        while path and path[-1][0] >= depth:
            path.pop()
        (path[-1][1].children if path else roots).append(node)
        path.append((depth, node))
    if len(roots) != 1:
        raise ValueError(f"{len(roots)} roots")
    _check_counts(roots[0].walk())
    return roots[0]


def _parse_line(line: str) -> tuple[int, Node]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"no node: {line!r}")
    rest: str = match["rest"] or ""
    count = _CHILDREN.search(rest)
    if count is not None:
        rest = rest[: count.start()]
    label = f" {rest}".partition(_ALIAS)[0].strip()
    return len(match["indent"]), Node(match["kind"], label, int(count[1]) if count else 0)


def _check_counts(nodes: Iterable[Node]) -> None:
    for node in nodes:
        if len(node.children) != node.num_children:
            raise ValueError(f"{node.kind} has {len(node.children)} children, not as it says")
