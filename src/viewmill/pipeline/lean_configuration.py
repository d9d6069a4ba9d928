"""Hadoop's configuration, cheap to send along.

takes  a classic session that was just made
does   forgets which file each of the thousand settings came from; the settings stay

Spark sends the configuration to the tasks of every scan, and Hadoop compresses the origin of each
setting on its own: 3 ms of a batch to write and 3 ms to read, for a text that nobody asks for.
"""

from __future__ import annotations

import logging
from typing import Any

_LOG = logging.getLogger("viewmill")

_CLASS, _FIELD = "org.apache.hadoop.conf.Configuration", "updatingResource"
_LATE = "org.apache.hadoop.mapred.JobConf"  # adds its defaults, with origins, when it is loaded


def forget_origins(spark: Any) -> int:
    """How many origins were forgotten; 0 where Hadoop keeps them otherwise."""
    try:
        load = spark._jvm.java.lang.Class.forName
        load(_LATE)
        origins = load(_CLASS).getDeclaredField(_FIELD)
        origins.setAccessible(True)
        conf = spark._jsc.hadoopConfiguration()
        conf.size()  # settings are read from their files when they are first asked for
        held = origins.get(conf)
        count = int(held.size())
        held.clear()
    except Exception as why:  # noqa: BLE001 (another Hadoop: it works without)
        _LOG.debug("Hadoop's configuration stays as it is: %s", why)
        return 0
    return count
