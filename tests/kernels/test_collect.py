"""One list names the functions of trigger source; a package that lacks one does not load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import pytest

from viewmill.codegen.source import Source
from viewmill.kernels import plain, structures
from viewmill.kernels.collect import collect
from viewmill.kernels.new_stores import stores_of
from viewmill.program.states import StateKind
from viewmill.program.trigger_functions import ADDS, FUNCTIONS


def test_both_packages_offer_what_the_list_names() -> None:
    assert set(plain.__all__) == set(structures.__all__) == FUNCTIONS
    assert ADDS < FUNCTIONS


def test_every_kind_of_state_has_a_compiled_and_a_plain_store() -> None:
    assert set(stores_of(True)) == set(stores_of(False)) == set(get_args(StateKind))


def test_a_package_that_lacks_functions_does_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "few_functions"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "keyed.py").write_text("def keyed_touch(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match="few_functions does not define") as refused:
        collect("few_functions", [str(package)])
    assert " keyed_add," in str(refused.value)
    assert " keyed_touch," not in str(refused.value)
    for each in ("few_functions", "few_functions.keyed"):
        sys.modules.pop(each, None)


def test_no_column_takes_the_name_of_a_function_of_a_ring() -> None:
    assert Source().name(" Ring_12ab_lift_0") == "v_ring_12ab_lift_0"
