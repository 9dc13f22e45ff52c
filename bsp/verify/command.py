"""The command `bsp verify`: the promises of a file, checked one after the other."""

from __future__ import annotations

import sys
import traceback

from bsp.errors import BspError
from bsp.verify.distributions import Unlawful
from bsp.verify.equivalence import Counterexample
from bsp.verify.mutants import Mutation, mutated
from bsp.verify.promises import promises_of

LEAST = 0.95  # share of the mutants that the checks of a file must find


class NothingPromised(BspError):
    """A file, or a name in it, has no function that `spec` decorates."""


def verified(file: str, limit: int | None, mutate: bool, orders: int | None = None) -> int:
    """Check the promises of a file, or the one that FILE::name names; print a line for each, and return the status.

    mutate : also check their mutants.  limit, orders : those of `equivalent`, instead of those of the promises.
    A function that cannot be checked (its specification raises, there is no case) is reported; the next one follows.
    Status: 0 if all hold (and, with mutants, at least 95 % of all of these are found), else 1.
    """
    path, _, wanted = file.partition("::")
    try:
        promises = promises_of(path)
    except SystemExit as left:
        raise NothingPromised(f"{path}: it calls sys.exit({left.code!r}) when it is imported") from None
    if wanted:
        promises = {name: promise for name, promise in promises.items() if name == wanted}
    if not promises:
        raise NothingPromised(f"{file}: no function here is decorated with bsp.verify.spec(reference)")
    status = 0
    every = Mutation([])
    given = {name: value for name, value in (("limit", limit), ("orders", orders)) if value is not None}
    for name, promise in promises.items():
        options = promise.options | given
        promise.options = options
        try:
            print(f"{name}: {promise.check()}")
            if mutate:
                mutants = mutated(promise.program, promise.specification, **options)
                print(f"{name}: {mutants}")
                every.mutants.extend(mutants.mutants)
        except (Counterexample, Unlawful) as wrong:
            print(f"{name}: refuted\n{wrong}")
            status = 1
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the other functions are still to be checked
            print(f"{name}: not checked\n{''.join(traceback.format_exception_only(error)).rstrip()}")
            status = 1
    if mutate:
        killed, count = len(every.mutants) - len(every.survivors), len(every.mutants)
        print(f"all: {killed} of {count} mutants found ({every.share:.0%}); at least {LEAST:.0%} are asked for")
        status = status or int(every.share < LEAST)
    sys.stdout.flush()
    return status
