"""Renders the chart in a process of its own: Helm's library brings Go's runtime with it.

As a program: reads values as JSON a line, writes what Helm makes of them as JSON a line.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

CHART = Path(__file__).parents[2] / "helm" / "longpole"
RELEASE, NAMESPACE = "longpole", "observability"

Document = dict[str, Any]
Values = Mapping[str, Any]


class RefusedError(Exception):
    """Helm refuses these values; the text is what the operator reads."""


class HelmChild:
    """A child process with Helm's library in it. Close it after use."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def lint(self) -> list[Document]:
        """Return Helm's complaints; 3 is the severity of an error."""
        return self._ask("lint")

    def render(self, values: Values) -> list[Document]:
        """Return the objects that the chart makes.

        Raises:
            RefusedError: The values make no sense.
        """
        texts = cast("dict[str, str]", self._ask(values))
        return [
            document
            for name, text in texts.items()
            if name.endswith(".yaml")
            for document in yaml.safe_load_all(text)
            if document
        ]

    def render_notes(self, values: Values) -> str:
        """Return what Helm prints after an installation."""
        texts = cast("dict[str, str]", self._ask(values))
        return next(text for name, text in texts.items() if name.endswith("NOTES.txt"))

    def close(self) -> None:
        """End the child."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        return answer["made"]


def find(documents: list[Document], kind: str, component: str = "") -> Document:
    """Return the one object of a kind whose name ends with a word."""
    (found,) = (
        document
        for document in documents
        if document["kind"] == kind and document["metadata"]["name"].endswith(component)
    )
    return found


def main() -> None:
    """Answer questions until the input ends."""
    import helm_python

    chart = helm_python.Chart.load(str(CHART))
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question == "lint":
                answer: object = {"made": helm_python.lint(str(CHART))["messages"]}
            else:
                made = chart.render(question, name=RELEASE, namespace=NAMESPACE)
                answer = {"made": made}
        except helm_python.HelmError as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
