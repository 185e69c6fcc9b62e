"""Who this process is: the resource attributes of everything it sends."""

import functools
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from longpole.clock import Clock
from longpole.conventions import attributes as names
from longpole.conventions.rl_insight import JOB
from longpole.declaration import Declaration
from longpole.pod import read_pod
from longpole.ray_job import find_ray_job
from longpole.values import AttributeValue, to_iteration, to_number

_SERVICE_NAME = "longpole"
_OTEL_RESOURCE_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES"
_OTEL_SERVICE_NAME = "OTEL_SERVICE_NAME"
_JOB_IDS = {"SLURM_JOB_ID": names.SLURM_JOB_ID, "RAY_JOB_ID": names.RAY_JOB_ID}
_GPU_UUID_PREFIXES = ("GPU-", "MIG-")
# A resource travels with every batch, so a model's configuration is kept to what is small.
_MAX_MODEL_CONFIG_LENGTH = 16_384
_MAX_LIST_LENGTH = 256


def build_resource(
    declaration: Declaration,
    environ: Mapping[str, str],
    pid: int,
    process_start_ns: int,
    root: Path = Path("/"),
) -> dict[str, AttributeValue]:
    """Return the resource attributes; what nobody said is absent.

    `OTEL_RESOURCE_ATTRIBUTES` brings what the platform knows (`k8s.*`) and wins over what the
    process finds out of its pod (in files below `root`); arguments win over both.
    """
    resource: dict[str, AttributeValue] = {**read_pod(environ, root)}
    resource.update(_read_otel_attributes(environ))
    resource.update(
        (attribute, environ[variable])
        for variable, attribute in _JOB_IDS.items()
        if environ.get(variable)
    )
    ray_job = find_ray_job(environ, root)
    if ray_job:
        resource[JOB] = ray_job
    resource.setdefault(names.SERVICE_NAME, declaration.system or _SERVICE_NAME)
    resource.setdefault(names.HOST_NAME, environ.get("LONGPOLE_HOST_NAME") or socket.gethostname())
    said = _read_declaration(declaration, environ)
    resource.update((name, value) for name, value in said.items() if value is not None)
    resource[names.PROCESS_PID] = pid
    resource[names.PROCESS_START_NS] = process_start_ns
    return resource


def _read_declaration(
    declaration: Declaration, environ: Mapping[str, str]
) -> dict[str, AttributeValue | None]:
    project = _to_text(declaration.project) or environ.get("LONGPOLE_PROJECT")
    name = _to_text(declaration.name) or environ.get("LONGPOLE_RUN_NAME")
    run_id = _to_text(declaration.run_id) or environ.get("LONGPOLE_RUN_ID")
    if not run_id and project and name:
        run_id = f"{project}/{name}"
    attempt = to_iteration(declaration.attempt)
    if attempt is None:
        attempt = _to_whole(environ.get("LONGPOLE_RUN_ATTEMPT"))
    return {
        names.RUN_ID: run_id or None,
        names.RUN_ATTEMPT: attempt,
        names.RUN_NAME: name or None,
        names.PROJECT: project or None,
        names.SYSTEM: _to_text(declaration.system),
        names.SYSTEM_VERSION: _to_text(declaration.system_version),
        names.ALGORITHM: _to_text(declaration.algorithm),
        names.MODE: _to_text(declaration.mode),
        names.ROLE: _to_text(declaration.role),
        names.GPU_COUNT: to_iteration(declaration.gpu_count),
        names.GPU_IDS: _find_gpu_ids(declaration.gpu_ids, environ),
        names.MODEL_NAME: _to_text(declaration.model_name),
        names.MODEL_CONFIG: encode_model_config(declaration.model_config),
        names.STALENESS_BOUND: to_number(declaration.staleness_bound),
        names.STALENESS_BASIS: _to_text(declaration.staleness_basis),
        names.SERVICE_INSTANCE_ID: _to_text(declaration.instance),
        names.HOST_NAME: _to_text(declaration.host),
    }


def _read_otel_attributes(environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in environ.get(_OTEL_RESOURCE_ATTRIBUTES, "").split(","):
        key, separator, value = pair.partition("=")
        if separator and key.strip():
            found[key.strip()] = unquote(value.strip())
    if environ.get(_OTEL_SERVICE_NAME):
        found[names.SERVICE_NAME] = environ[_OTEL_SERVICE_NAME]
    return found


def _find_gpu_ids(
    gpu_ids: Sequence[str] | None, environ: Mapping[str, str]
) -> tuple[str, ...] | None:
    if gpu_ids is not None:
        return (gpu_ids,) if isinstance(gpu_ids, str) else tuple(str(gpu) for gpu in gpu_ids)
    visible = environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = tuple(device.strip() for device in visible.split(",") if device.strip())
    # Indices are not unique on a node whose processes see different subsets.
    if devices and all(device.startswith(_GPU_UUID_PREFIXES) for device in devices):
        return devices
    return None


def encode_model_config(config: object) -> str | None:
    """Return JSON of the small fields of a Hugging Face configuration, or None.

    Takes a mapping or an object with `to_dict()`. Fields that are no number, text, short list or
    nested `*_config` are left out: FLOPs never need them.
    """
    if config is None:
        return None
    to_dict = getattr(config, "to_dict", None)
    content = to_dict() if callable(to_dict) else config
    if not isinstance(content, Mapping):
        return None
    text = json.dumps(_select_small(cast("Mapping[object, object]", content)))
    return text if len(text) <= _MAX_MODEL_CONFIG_LENGTH else None


def _select_small(config: Mapping[object, object]) -> dict[str, object]:
    selected: dict[str, object] = {}
    for key, value in config.items():
        if isinstance(value, str | bool | int | float):
            selected[str(key)] = value
        elif isinstance(value, Mapping) and str(key).endswith("_config"):
            selected[str(key)] = _select_small(cast("Mapping[object, object]", value))
        elif isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            if len(items) <= _MAX_LIST_LENGTH and all(
                isinstance(item, str | int | float) for item in items
            ):
                selected[str(key)] = list(items)
    return selected


@functools.lru_cache(maxsize=1)
def read_process_start_ns(pid: int, clock: Clock = Clock()) -> int:  # noqa: B008 - immutable
    """Return when this process started, UTC nanoseconds: one answer for its whole life."""
    try:
        # The name in parentheses may hold spaces; starttime is field 22 of proc_pid_stat(5).
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        since_boot_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - since_boot_ns
    except (OSError, ValueError, IndexError, AttributeError):
        age_ns = 0
    return clock.wall_ns() - age_ns


def _to_text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _to_whole(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None
