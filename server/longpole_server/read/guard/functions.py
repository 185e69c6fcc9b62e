"""Which functions people's own SQL may call: those whose category the database says only computes.

Closed by default: a category or a function that a newer database brings is refused until it
stands here. Functions that users defined are refused, whatever they do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Categories of `system.functions` in which nothing reads files, reaches the network, runs
# programs, sleeps, or looks at the server.
_CATEGORIES = frozenset(
    {
        "Aggregate Functions", "Arithmetic", "Arrays", "Bit", "Bitmap", "Comparison",
        "Conditional", "Dates and Times", "Distance", "Encoding", "Financial", "Geo",
        "Geo Polygon", "Hash", "IP Address", "JSON", "Logical", "Map", "Mathematical", "Null",
        "NumericIndexedVector", "QBit", "Random Number", "Rounding", "String",
        "String Replacement", "String Search", "String Splitting", "Time Window", "Tuple",
        "Type Conversion", "URL", "UUID",
    }
)  # fmt: skip

# Of the category "Other", which holds `file` and `sleep` as well.
_OTHERS = frozenset(
    {
        "bar", "blockNumber", "blockSize", "byteSize", "connectionID", "connectionId",
        "countDigits", "currentDatabase", "currentSchemas", "currentUser", "defaultValueOfTypeName",
        "digits", "displayName", "errorCodeToName", "finalizeAggregation",
        "formatReadableDecimalSize", "formatReadableQuantity", "formatReadableSize",
        "formatReadableTimeDelta", "FQDN", "getSizeOfEnumType", "getSubcolumn", "hostName",
        "identity", "ignore", "indexHint", "initializeAggregation", "isConstant",
        "isDecimalOverflow", "lowCardinalityIndices", "lowCardinalityKeys", "MACNumToString",
        "MACStringToNum", "MACStringToOUI", "materialize", "minSampleSizeContinuous",
        "minSampleSizeConversion", "neighbor", "parseISO8601Duration", "parseReadableSize",
        "parseReadableSizeOrNull", "parseReadableSizeOrZero", "parseTimeDelta", "partitionId",
        "queryID", "revision", "rowNumberInAllBlocks", "rowNumberInBlock", "runningAccumulate",
        "runningDifference", "runningDifferenceStartingWithFirstValue", "throwIf",
        "toColumnTypeName", "toTypeName", "transform", "variantElement", "variantType", "version",
        "visibleWidth",
    }
)  # fmt: skip

# What the parser and the analyser make of syntax.
_SYNTAX = frozenset(
    {"lambda", "exists", "_CAST", "CAST", "caseWithExpression", "grouping", "untuple"}
)

# In a category of those above, or likely to be in another release, but they reach out.
_REFUSED = frozenset({"file", "reverseDNSQuery", "sleep", "sleepEachRow", "naiveBayesNgrams"})

# Their work grows with the product of their arguments' lengths, or with the square of the rows,
# and in one step: no limit of time ends it.
_ENDLESS = frozenset(
    {
        "arrayLevenshteinDistance", "arrayLevenshteinDistanceWeighted", "arraySimilarity",
        "damerauLevenshteinDistance", "editDistance", "editDistanceUTF8", "jaroSimilarity",
        "jaroWinklerSimilarity", "kolmogorovSmirnovTest", "levenshteinDistance",
        "levenshteinDistanceUTF8",
    }
)  # fmt: skip

_COMBINATORS = (
    "SimpleState", "MergeState", "OrDefault", "Distinct", "Resample", "ForEach", "OrNull",
    "ArgMin", "ArgMax", "Array", "State", "Merge", "Tuple", "Null", "Map", "If",
)  # fmt: skip

# Of what the analyser turns a permitted call into.
_INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class Function:
    """A row of `system.functions`."""

    name: str
    alias_to: str
    categories: str
    case_insensitive: bool
    is_aggregate: bool
    is_builtin: bool


class Functions:
    """The functions of one database, and which of them are permitted.

    Args:
        functions: All that it has.
    """

    def __init__(self, functions: Iterable[Function]) -> None:
        self._by_name: Mapping[str, Function] = {each.name: each for each in functions}
        self._by_lower = {
            each.name.lower(): each for each in self._by_name.values() if each.case_insensitive
        }

    def knows(self, name: str) -> bool:
        """Tell whether there is such a function, permitted or not."""
        return self._find(name) is not None

    def permits(self, name: str) -> bool:
        """Tell whether a query may call a function."""
        if name in _SYNTAX:
            return True
        function = self._find(name)
        if function is not None:
            return _is_safe(self._resolve(function))
        return self._is_combined_aggregate(name)

    def permits_resolved(self, name: str) -> bool:
        """Tell whether a query may hold a function after the analyser has rewritten it."""
        return name.startswith(_INTERNAL_PREFIX) or self.permits(name)

    def _find(self, name: str) -> Function | None:
        return self._by_name.get(name) or self._by_lower.get(name.lower())

    def _resolve(self, function: Function) -> Function:
        return self._by_name.get(function.alias_to, function) if function.alias_to else function

    def _is_combined_aggregate(self, name: str) -> bool:
        for combinator in _COMBINATORS:
            base = name.removesuffix(combinator)
            if not base or base == name:
                continue
            function = self._find(base)
            if function is None:
                if self._is_combined_aggregate(base):
                    return True
            elif function.is_aggregate and _is_safe(self._resolve(function)):
                return True
        return False


def _is_safe(function: Function) -> bool:
    if not function.is_builtin or function.name in _REFUSED | _ENDLESS:
        return False
    return function.categories in _CATEGORIES or function.name in _OTHERS
