"""Where rows come from that a mill follows: `mill.follow("orders", vm.sources.files("in/*.csv"))`."""

from viewmill.sources.files import files

__all__ = ["files"]
