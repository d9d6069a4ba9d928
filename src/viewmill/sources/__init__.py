"""What a mill can follow: `mill.follow("orders", vm.sources.files("in/*.csv"))`."""

from viewmill.sources.delta import delta
from viewmill.sources.files import files

__all__ = ["delta", "files"]
