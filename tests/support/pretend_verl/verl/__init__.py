"""The parts of verl that the plugin touches, with its names and in its order of imports."""

import importlib
import os

__version__ = "0.9.1"

for _plugin in os.environ.get("PRETEND_VERL_PLUGINS", "").split():
    importlib.import_module(_plugin)
