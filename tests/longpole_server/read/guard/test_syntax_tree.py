import pytest

from longpole_server.read.guard.syntax_tree import parse_tree

LINES = [
    "SelectWithUnionQuery (children 1)",
    " ExpressionList (children 1)",
    "  SelectQuery (children 2)",
    "   ExpressionList (children 2)",
    "    Function sum (alias s) (children 1)",
    "     ExpressionList",
    "    Literal 'x (children 3) y' (alias z (children 1))",
    "   Subquery (alias q)",
]


def test_kinds_labels_and_shape():
    root = parse_tree(LINES)
    assert [(node.kind, node.label) for node in root.walk()] == [
        ("SelectWithUnionQuery", ""),
        ("ExpressionList", ""),
        ("SelectQuery", ""),
        ("ExpressionList", ""),
        ("Function", "sum"),
        ("ExpressionList", ""),
        ("Literal", "'x (children 3) y'"),
        ("Subquery", ""),
    ]
    assert len(root.children[0].children[0].children) == 2


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Identifier a", "Identifier b"],
        ["ExpressionList (children 2)", " Identifier a"],
        ["ExpressionList (children 1)", " Identifier a", " Identifier b"],
        ["Identifier a", " Function file"],
        [""],
    ],
)
def test_what_does_not_add_up_is_refused(lines: list[str]):
    with pytest.raises(ValueError):
        parse_tree(lines)
