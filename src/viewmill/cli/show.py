"""`viewmill show`: one stage of a view, from SQL to kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from viewmill.cli.arguments import SPEC, MillOption, SpecOption
from viewmill.cli.explain import SubjectArgument
from viewmill.cli.subject import open_subject
from viewmill.cli.terminal import print_text


class Stage(StrEnum):
    """The forms a view passes through."""

    algebra = "algebra"
    plan = "plan"
    program = "program"
    kernel = "kernel"


def show(
    subject: SubjectArgument,
    stage: Annotated[Stage, typer.Option(help="Which form of the view.")] = Stage.plan,
    spec: SpecOption = SPEC,
    mill: MillOption = None,
) -> None:
    """Print a view as algebra, plan, program or kernel."""
    with open_subject(subject, spec, mill) as (opened, name):
        print_text(opened.show(name, stage.value))
