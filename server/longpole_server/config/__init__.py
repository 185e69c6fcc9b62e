"""Settings of the server: its options, their values, and where they are read from."""

from longpole.host_names import is_loopback
from longpole_server.config.options import Config, UpConfig
from longpole_server.config.reading import is_of_store, read_config, read_config_and_word
from longpole_server.config.values import parse_size

__all__ = [
    "Config",
    "UpConfig",
    "is_loopback",
    "is_of_store",
    "parse_size",
    "read_config",
    "read_config_and_word",
]
