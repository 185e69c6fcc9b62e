"""A process that raises numbered alerts and delivers them until it is killed.

Arguments: directory, port of the fake Slack, number of the first alert. Prints each number once
its event is stored.
"""

import itertools
import sys
import time
from pathlib import Path

from longpole_server.delivery.outbox import Pace
from longpole_server.delivery.slack import SlackWebhook
from longpole_server.read.alerts import open_alert_reader
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.alert_delivery import AlertDeliverer
from longpole_server.store import StoreConfig, open_store
from support.alert_events import make_event
from support.fake_slack import SECRET_PATH

PACE = Pace(group_wait_s=0.05, group_interval_s=0.05, spacing_s=0.02)


def main() -> None:
    store = open_store(StoreConfig(directory=Path(sys.argv[1])))
    alert_store = AlertStore(open_alert_reader(store), store.new_alert_writer())
    webhook = SlackWebhook(f"http://127.0.0.1:{sys.argv[2]}{SECRET_PATH}", timeout_s=60)
    deliverer = AlertDeliverer([webhook], alert_store, dict, pace=PACE)
    deliverer.start()
    for number in itertools.count(int(sys.argv[3])):
        now_ns = time.time_ns()
        event = make_event(
            number,
            summary=f"number {number}",
            run_id=f"run-{number % 3}",
            ts_ns=now_ns,
            decided_ns=now_ns,
        )
        alert_store.writer.write_events([event])
        deliverer.on_events([event])
        print(number, flush=True)
        time.sleep(0.03)


if __name__ == "__main__":
    main()
