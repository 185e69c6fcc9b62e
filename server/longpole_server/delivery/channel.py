"""What a channel is."""

from typing import Protocol

from longpole_server.delivery.notice import Notice


class Channel(Protocol):
    """Takes notices to people. Called by one thread at a time."""

    @property
    def name(self) -> str:
        """Unique among the channels, and no secret."""
        ...

    @property
    def kind(self) -> str:
        """`slack_webhook`, `slack_bot`, or the service's name."""
        ...

    def send(self, notice: Notice) -> str:
        """Deliver a notice; return what the channel calls it, empty when it does not say.

        Raises:
            DeliveryError: It was not taken, or nobody knows.
        """
        ...
