"""The cause of an error of Spark in one line.

takes  an exception whose text may be hundreds of lines: traces of the JVM, in them traces of Python
gives  what went wrong at the bottom of them
"""

from __future__ import annotations

import re

_CAUSED = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*(?P<kind>[\w$]+)(?:: (?P<said>.*))?$")
_PYTHON = re.compile(r"^(?:[\w]+\.)*(?P<kind>\w*(?:Error|Exception|Interrupt)): (?P<said>.+)$")
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\]\s*")
_WRAPPERS = ("SparkException", "StreamingQueryException", "PythonException", "TaskCompletion",
             "Py4JJavaError")  # fmt: skip
_MOST = 500  # characters


def root_cause(why: BaseException) -> str:
    """The innermost cause that an error tells of, without package, trace and condition."""
    lines = [line for line in str(why).splitlines() if line.strip()]
    said = lines[0] if lines else type(why).__name__
    for line in lines:
        found = _CAUSED.match(line) or _PYTHON.match(line)
        if found is not None and found["said"] and not found["kind"].startswith(_WRAPPERS):
            said = f"{found['kind']}: {_CONDITION.sub('', found['said'])}"
    said = _CONDITION.sub("", said.strip())
    return said if len(said) <= _MOST else f"{said[:_MOST]}..."
