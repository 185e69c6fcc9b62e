"""Everything that is not Slack: Feishu, DingTalk, WeCom, Teams, Discord, PagerDuty, e-mail, ..."""
# apprise carries no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging

import apprise

from longpole_server.delivery.notice import Notice, make_text, make_title
from longpole_server.errors import ConfigError, DeliveryError

_TYPES = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
}
_SCHEME_END = "://"
# Who takes messages does not choose where this server connects to; `?redirect=yes` in an address
# lets it.
_ASSET = apprise.AppriseAsset(http_redirects=False)
# Those that name addresses, with what is secret in them: also the client that apprise sends with.
_LOGGERS = ("apprise", "urllib3", "requests")


class AppriseChannel:
    """One service behind apprise.

    Args:
        url: The service's address as apprise writes it; it holds secrets.
        number: Which of the configured ones it is, from 1.

    Raises:
        ConfigError: apprise does not know such an address; the text does not hold it.
    """

    def __init__(self, url: str, number: int) -> None:
        # What it logs of a failure may hold the address.
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        scheme = url.split(_SCHEME_END, 1)[0] if _SCHEME_END in url else "no scheme"
        service = apprise.Apprise.instantiate(url, asset=_ASSET, suppress_exceptions=True)
        if service is None:
            raise ConfigError(
                f"address {number} of LONGPOLE_APPRISE_URLS ({scheme}) is none that apprise knows",
                hint="see its documentation for the form of each service's address",
            )
        self._notifier = apprise.Apprise(asset=_ASSET)
        self._notifier.add(service)
        self.kind = str(service.service_name)
        self.name = f"{scheme}-{number}"

    def send(self, notice: Notice) -> str:
        """Deliver a notice.

        Raises:
            DeliveryError: It was not taken; apprise does not say why.
        """
        kind = apprise.NotifyType.SUCCESS if notice.is_over else _TYPES[notice.severity]
        try:
            is_taken = self._notifier.notify(
                title=make_title(notice), body=make_text(notice), notify_type=kind
            )
        except Exception as error:  # noqa: BLE001 - a plugin of a hundred services may raise anything
            raise DeliveryError(f"{self.kind} failed: {type(error).__name__}") from None
        if not is_taken:
            raise DeliveryError(f"{self.kind} did not take it, or could not be reached")
        return ""
