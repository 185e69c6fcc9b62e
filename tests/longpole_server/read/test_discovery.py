from longpole_server.model.discovery import ScrapeTarget
from longpole_server.read.discovery import list_scrape_targets
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS


def test_the_newest_registration_of_a_page_counts(opened: OpenedStore) -> None:
    old = ScrapeTarget("rollout", "node-7:1", BASE_NS, {"replica": "0"})
    new = ScrapeTarget("rollout", "node-7:1", BASE_NS + 9 * SECOND_NS, {"replica": "1"})
    of_node = ScrapeTarget("rollout", "127.0.0.1:1", BASE_NS, {}, "node-8", "")
    of_sender = ScrapeTarget("rollout", "127.0.0.1:1", BASE_NS, {}, "", "10.0.0.9")
    opened.writer.write_scrape_targets([new, of_node])
    opened.writer.write_scrape_targets([old, of_sender])
    assert list_scrape_targets(opened.pool, BASE_NS) == [of_sender, of_node, new]
    assert list_scrape_targets(opened.pool, BASE_NS + SECOND_NS) == [new]
