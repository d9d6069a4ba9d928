"""SQL text to algebra and back: parse, statements, qualify, lower; render writes engine SQL."""
