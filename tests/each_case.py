"""Many small cases of one test: each is checked, and each that fails is named, without the price of a test of its own.

A parametrised case costs some milliseconds in every process of the tests, most of them before it runs. That is well
spent where a case has a memory or a process; for a text and what a function says of it, it is many times the work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Check = Callable[..., None]

_Named = type(pytest.param())


def each_case(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check all cases in one test, with the fixtures of one: only where no case changes what another sees.

    Args:
        names: as of ``pytest.mark.parametrize``, but a tuple where there are several.
        cases: as of ``pytest.mark.parametrize``.
    """
    wanted = (names,) if isinstance(names, str) else names
    given = [
        tuple(case.values) if isinstance(case, _Named) else (case,) if isinstance(names, str) else tuple(case)
        for case in cases
    ]
    assert given

    def decorate(check: Check) -> Check:
        def check_all(subtests: pytest.Subtests, **fixtures: Any) -> None:
            for values in given:
                case = dict(zip(wanted, values, strict=True))
                with subtests.test(**case):
                    check(**case, **fixtures)

        parameters = inspect.signature(check).parameters
        assert set(wanted) <= set(parameters)
        own = [one for one in parameters.values() if one.name not in wanted]
        asked = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        check_all.__signature__ = inspect.Signature([*own, asked])  # type: ignore[attr-defined]
        check_all.__name__, check_all.__doc__ = check.__name__, check.__doc__
        check_all.__module__, check_all.__qualname__ = check.__module__, check.__qualname__
        return check_all

    return decorate
