"""What a mill can follow: `mill.follow("orders", vm.sources.files("in/*.csv"))`."""

from viewmill.sources.delta import delta
from viewmill.sources.files import files
from viewmill.sources.iceberg import iceberg
from viewmill.sources.kafka import kafka
from viewmill.sources.postgres import postgres

__all__ = ["delta", "files", "iceberg", "kafka", "postgres"]
