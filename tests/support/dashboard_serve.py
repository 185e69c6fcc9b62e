"""Serves the dashboards on a pretend service, to look at them: `python -m support.dashboard_serve`.

The clock of the pretend cluster runs at `--speed`; `--port 0` takes a free port.
"""

import argparse
import threading
import time

import uvicorn
from fastapi import FastAPI

from longpole_dashboards.app import mount
from support.dashboard_fake_service import FakeService


def make_api(service: FakeService) -> FastAPI:
    """Return an application with the dashboards on it."""
    api = FastAPI()
    mount(api, service, clock_ns=service.now_ns)
    return api


def _advance(service: FakeService, speed: float, period_s: float = 0.5) -> None:
    while True:
        time.sleep(period_s)
        service.advance(period_s * speed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--empty", action="store_true")
    options = parser.parse_args()
    service = FakeService(time.time_ns(), specs=() if options.empty else None)
    threading.Thread(target=_advance, args=(service, options.speed), daemon=True).start()
    uvicorn.run(make_api(service), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
