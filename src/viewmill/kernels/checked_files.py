"""The files that Numba caches compiled functions in, with a checksum.

takes  Numba's cache of a function
does   a file that is damaged is taken for absent, before anything in it is unpickled; one that
       cannot be written is left out. Either way the function is compiled again
"""

from __future__ import annotations

import logging
import pickle
from hashlib import sha256
from pathlib import Path
from typing import Any

try:
    from numba.core.caching import IndexDataCacheFile
except ImportError:
    IndexDataCacheFile = None

_LOG = logging.getLogger("viewmill")
_DIGEST_BYTES = 32


def check_files(cache: Any) -> None:
    """Let a cache of Numba's write and read its files through ours."""
    files = getattr(cache, "_cache_file", None)
    if IndexDataCacheFile is not None and type(files) is IndexDataCacheFile:
        files.__class__ = _CheckedFiles


def _content(path: str | Path) -> bytes | None:
    """What was written to a file, None if it is absent or damaged."""
    try:
        body = Path(path).read_bytes()
    except OSError:
        return None
    content = body[_DIGEST_BYTES:]
    if sha256(content).digest() == body[:_DIGEST_BYTES]:
        return content
    _LOG.warning("%s is damaged: what it held is compiled again", path)
    return None


if IndexDataCacheFile is not None:

    class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
        """An index file and its data files, each behind the checksum of its content."""

        def save(self, key: Any, data: Any) -> None:
            """Save a compiled kernel; if the disk is full it is compiled again next time."""
            try:
                super().save(key, data)
            except OSError as why:
                _LOG.warning("a compiled function cannot be kept: %s", why)

        def _dump(self, obj: Any) -> bytes:
            content: bytes = super()._dump(obj)
            return sha256(content).digest() + content

        def _save_index(self, overloads: Any) -> None:
            body = self._dump((self._version, self._source_stamp, overloads))
            with self._open_for_write(self._index_path) as file:
                file.write(body)

        def _load_index(self) -> Any:
            content = _content(self._index_path)
            if content is None:
                return {}
            version, stamp, overloads = pickle.loads(content)
            is_ours = (version, stamp) == (self._version, self._source_stamp)
            return overloads if is_ours else {}

        def _load_data(self, name: str) -> Any:
            content = _content(self._data_path(name))
            if content is None:
                raise OSError(name)  # as if it were not there
            return pickle.loads(content)
