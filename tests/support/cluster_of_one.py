"""The embedded engine as a cluster of one node: all but replication works."""

from pathlib import Path

from longpole_server.store import StoreConfig

_ENGINE_CONFIG = """<clickhouse>
  <tcp_port>9000</tcp_port>
  <macros><shard>1</shard><replica>a</replica></macros>
  <remote_servers><one><shard><internal_replication>true</internal_replication>
    <replica><host>127.0.0.1</host><port>9000</port></replica>
  </shard></one></remote_servers>
</clickhouse>"""


def make_cluster_of_one(directory: Path) -> StoreConfig:
    """Return the place of a store in a directory. Nothing listens on the port that it names."""
    file = directory / "engine.xml"
    file.write_text(_ENGINE_CONFIG)
    options = {"config-file": str(file)}
    return StoreConfig(directory=directory, cluster="one", engine_options=options)
