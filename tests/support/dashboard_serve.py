"""Serves the dashboards on a pretend service, to look at them: `python -m support.dashboard_serve`.

Prints one line of JSON with its port once it listens. The clock of the pretend cluster runs at
`--speed`; at speed 0 it stands still until `POST /fake/advance?seconds=` or `POST
/fake/finish-step?run=` moves it.
"""

import argparse
import json
import socket
import threading
import time

import uvicorn
from fastapi import FastAPI

from longpole_dashboards.app import mount
from longpole_server.api.security_headers import SecurityHeadersMiddleware
from support.dashboard_fake_alarms import fill_each_rule
from support.dashboard_fake_service import FakeService
from support.dashboard_large_service import LargeService
from support.dashboard_push import PushDoor


def make_api(service: FakeService) -> PushDoor:
    """Return an application with the dashboards on it, and the controls of what is pretended."""
    api = FastAPI()

    def advance(seconds: float) -> dict[str, int]:
        service.advance(seconds)
        return {"now_ns": service.now_ns()}

    def finish_step(run: str) -> dict[str, int]:
        return {"step": service.advance_past_step(run)}

    def slow(seconds: float) -> dict[str, float]:
        service.slow_down(seconds)
        return {"seconds": seconds}

    def links() -> dict[str, str]:
        return {alert.rule: alert.link for alert in service.alerts.list_alerts()}

    # In the event loop, whose tasks it ends.
    async def set_push(works: bool) -> dict[str, bool]:
        if works:
            door.reopen()
        else:
            door.shut()
        return {"works": works}

    api.add_api_route("/fake/push", set_push, methods=["POST"])
    api.add_api_route("/fake/links", links)
    api.add_api_route("/fake/slow", slow, methods=["POST"])
    api.add_api_route("/fake/advance", advance, methods=["POST"])
    api.add_api_route("/fake/finish-step", finish_step, methods=["POST"])
    mount(api, service, clock_ns=service.now_ns)
    # As in the program: what browsers would refuse there they refuse here.
    api.add_middleware(SecurityHeadersMiddleware)
    door = PushDoor(api)
    return door


def _advance(service: FakeService, speed: float, period_s: float = 0.5) -> None:
    while True:
        time.sleep(period_s)
        service.advance(period_s * speed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--empty", action="store_true", help="without any run")
    parser.add_argument("--large", action="store_true", help="with one very large run")
    parser.add_argument("--spare-nodes", type=int, default=2, help="nodes that no run uses")
    parser.add_argument("--each-rule", action="store_true", help="an alert of every rule")
    options = parser.parse_args()
    specs = () if options.empty else None
    now_ns = time.time_ns()
    service = (
        LargeService(now_ns) if options.large else FakeService(now_ns, specs, options.spare_nodes)
    )
    if options.each_rule:
        fill_each_rule(service.alerts, now_ns)
    if options.speed:
        threading.Thread(target=_advance, args=(service, options.speed), daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(make_api(service), log_level="warning"))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", options.port))
        listener.listen(128)
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
