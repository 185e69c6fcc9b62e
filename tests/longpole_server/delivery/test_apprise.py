import logging

import pytest

from longpole_server.delivery.apprise import AppriseChannel
from longpole_server.errors import DeliveryError
from support.alert_events import make_notice
from support.fake_slack import running_slack

# A plugin of apprise loads a module that later versions of Python lack.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def test_a_service_gets_title_and_text_and_a_failure_tells_no_secret():
    with running_slack() as server:
        channel = AppriseChannel(f"json://127.0.0.1:{server.port}/secret", 1)
        server.script.append("drop")
        with pytest.raises(DeliveryError) as caught:
            channel.send(make_notice())
        assert "secret" not in caught.value.message
        (body,) = server.taken
    assert body["title"] == "team/run: Loss is not a number"
    assert "Likely cause: Something slow." in body["message"]
    assert body["type"] == "failure"


def test_an_answer_that_leads_elsewhere_is_not_followed():
    """It may lead to where only this server can reach."""
    with running_slack() as server:
        channel = AppriseChannel(f"json://127.0.0.1:{server.port}/secret", 1)
        server.script.append("redirect")
        with pytest.raises(DeliveryError):
            channel.send(make_notice())
        assert server.num_led_elsewhere == 0


def test_no_log_of_the_client_below_shows_the_address(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with running_slack() as server:
        channel = AppriseChannel(f"json://127.0.0.1:{server.port}/secret-word", 1)
        for behaviour in ("500", "garbage"):
            server.script.append(behaviour)
            with pytest.raises(DeliveryError):
                channel.send(make_notice())
    assert "secret-word" not in caplog.text
