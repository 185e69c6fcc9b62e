"""The words Longpole speaks: one vocabulary from the trainer's span to the label on the chart.

`attributes` holds names of resources, spans and events, `stages` the canonical stages and their
aliases, `metrics` the canonical health metrics and their aliases, `gpus` hardware metrics.
"""

from longpole.conventions import attributes, gpus, metrics, stages

__all__ = ["attributes", "gpus", "metrics", "stages"]
