"""Typed queries on the store. SQL never leaves this package."""

from longpole_server.read.engines import EngineBin
from longpole_server.read.gpu_columns import GpuColumns
from longpole_server.read.gpus import GpuWork
from longpole_server.read.reader import AttemptRow, Reader, open_reader
from longpole_server.read.samples import SampleColumns

__all__ = [
    "AttemptRow",
    "EngineBin",
    "GpuColumns",
    "GpuWork",
    "Reader",
    "SampleColumns",
    "open_reader",
]
