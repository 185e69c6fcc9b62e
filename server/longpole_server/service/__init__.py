"""The one facade that the API and the dashboards call, and what keeps it up to date."""

from longpole_server.service.alerts_interface import Alerts, ChannelTest
from longpole_server.service.asking import what_is_seen, who_asks
from longpole_server.service.changes import Change, ChangeFeed
from longpole_server.service.interface import (
    MetricSeries,
    Service,
    StepDetail,
    StepRange,
    TrajectoryDistribution,
    TrajectorySort,
)
from longpole_server.service.memory import Memory

__all__ = [
    "Alerts",
    "Change",
    "ChangeFeed",
    "ChannelTest",
    "Memory",
    "MetricSeries",
    "Service",
    "StepDetail",
    "StepRange",
    "TrajectoryDistribution",
    "TrajectorySort",
    "what_is_seen",
    "who_asks",
]
