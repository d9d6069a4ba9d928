"""What `vm.spark` holds: a session, and streams out of files and messages."""

from viewmill.pipeline.files import read_files, read_json
from viewmill.pipeline.session import prepare_environment, session
from viewmill.pipeline.streams import read_stream

__all__ = ["prepare_environment", "read_files", "read_json", "read_stream", "session"]
