"""Errors of views on their way from a worker to the driver, which raises them as they were."""

from __future__ import annotations

import json

from viewmill import errors
from viewmill.errors import ViewmillError


def told(why: ViewmillError) -> str:
    """An error as text."""
    return json.dumps([type(why).__name__, why.message, why.detail, why.hint])


def heard(text: str | bytes) -> ViewmillError:
    """The inverse of `told`; an error of a kind that is not known here is EvaluationFailed."""
    name, message, detail, hint = json.loads(text)
    kind = getattr(errors, name, errors.EvaluationFailed)
    made: ViewmillError = kind(message, detail=detail, hint=hint)
    return made
