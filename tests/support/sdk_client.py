"""A trainer that records through the SDK, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import json, sys
import longpole

endpoint, run_id, samples = json.loads(sys.stdin.read())
longpole.init(run_id, system="tests", endpoint=endpoint)
with longpole.step(1):
    with longpole.stage("gen"):
        for name, start_ns, end_ns, num_input, num_output in samples:
            longpole.trajectory(
                name, start_ns=start_ns, end_ns=end_ns, step=1, input_tokens=num_input,
                output_tokens=num_output, request_ids=[name],
            )
longpole.shutdown("finished", timeout_s=60.0)
"""


def record_samples(
    endpoint: str,
    run_id: str,
    samples: Sequence[tuple[str, int, int, int, int]],
) -> None:
    """Record one step with samples: id, start, end, tokens read and written of each."""
    document = json.dumps([endpoint, run_id, list(samples)])
    subprocess.run([sys.executable, "-c", _PROGRAM], input=document, text=True, check=True)
