"""verl's clients of engines: what engines call a sample's requests, and which replica serves them.

Clients know servers by address alone. The controller, which started them, knows their numbers, and
gives each client it makes a list of both; clients take it along into their processes.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import Any, cast

from longpole.conventions.rl_insight import REPLICA_LANE_PREFIX

_log = logging.getLogger(__name__)

_CLIENTS = ("LLMServerClient", "FullyAsyncLLMServerClient")
_NAMES = "_longpole_replicas"
_NONE: Mapping[str, str] = {}


@dataclass(slots=True)
class Served:
    """What engines did for one sample.

    Attributes:
        request_ids: What they call its requests.
        replicas: The replicas that served them.
    """

    request_ids: list[str] = field(default_factory=list[str])
    replicas: set[str] = field(default_factory=set[str])

    @property
    def replica(self) -> str | None:
        """The replica that served all of it, None where several did or nobody knows."""
        return next(iter(self.replicas)) if len(self.replicas) == 1 else None


served: ContextVar[Served | None] = ContextVar("longpole_served", default=None)


def watch_clients(module: ModuleType) -> None:
    """Record requests and replicas of the clients of a module, as far as it has them."""
    manager = module.__dict__.get("LLMServerManager")
    if hasattr(manager, "get_client"):
        _name_replicas(manager)
    for name in _CLIENTS:
        client: Any = module.__dict__.get(name)
        if not isinstance(client, type):
            continue
        if "_acquire_server" in vars(client):
            _watch_servers(client)
        if "_vllm_request_id" in vars(client):
            _watch_requests(client)


def _name_replicas(manager: Any) -> None:
    get_client = manager.get_client

    @wraps(get_client)
    def recorded_client(self: Any, *args: Any, **kwargs: Any) -> Any:
        client = get_client(self, *args, **kwargs)
        try:
            setattr(client, _NAMES, _list_replicas(self))
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            _log.debug("longpole: %r", error)
        return client

    manager.get_client = recorded_client


def _list_replicas(manager: Any) -> dict[str, str]:
    """Return the replicas by address, as their lanes and their pages are called."""
    return {
        str(replica._server_address): f"{REPLICA_LANE_PREFIX}{int(replica.replica_rank)}"
        for replica in manager.rollout_replicas
    }


def _watch_servers(client: Any) -> None:
    acquire: Callable[..., Awaitable[Any]] = client._acquire_server

    @wraps(acquire)
    async def recorded_server(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer: object = await acquire(self, *args, **kwargs)
        current = served.get()
        if current is not None and isinstance(answer, tuple):
            address = cast("tuple[object, ...]", answer)[0]
            names: Mapping[str, str] = getattr(self, _NAMES, None) or _NONE
            if isinstance(address, str):
                current.replicas.add(names.get(address, address))
        return cast("Any", answer)

    client._acquire_server = recorded_server


def _watch_requests(client: Any) -> None:
    make_id = client._vllm_request_id

    @wraps(make_id)
    def recorded_id(*args: Any, **kwargs: Any) -> Any:
        request_id = make_id(*args, **kwargs)
        current = served.get()
        if current is not None and isinstance(request_id, str):
            current.request_ids.append(request_id)
        return request_id

    is_static = isinstance(inspect.getattr_static(client, "_vllm_request_id"), staticmethod)
    client._vllm_request_id = staticmethod(recorded_id) if is_static else recorded_id
