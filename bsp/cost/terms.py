"""The terms of the cost model: the rates that `bsp probe` measures, machine files hold, and prices multiply by counts.

Machine files, the probe's messages and its report are made from this table.  A term also has a field of its name in
`Machine` or `Level` and a count in `Load` or `Traffic` (`model`), and a point of `probe.program` and a formula of
`probe.fit` by which it is measured; tests fail for a term that lacks one of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """A rate, in flop-times.

    meaning : what takes that long, in a machine file.
    of_machine, of_levels : whether [machine] and [[levels]] of a machine file have it.
    required : whether a machine file must have it there.
    certain : the same in the probe's messages, if no file is written while its interval contains 0; else "", because
        it is a difference of others.
    """

    name: str
    meaning: str
    of_machine: bool
    of_levels: bool
    required: bool
    certain: str = ""


TERMS = (
    Term("g", "a word of 8 bytes in a large block", True, True, True, "a word in a large block"),
    Term("L", "a superstep; inside an element, a process's turn in one", True, True, True, "a superstep"),
    Term("o", "a message", True, True, True, "a message"),
    Term("fine", "a word put one by one", False, True, False, "a word put one by one"),
    Term("staged", "more for a word that is staged: sends, gets, strided puts", False, True, False),
    Term("registration", "more for a superstep that registers coarrays", True, False, False, "making a coarray"),
    Term("fresh", "more for a word that lands in memory used for the first time", True, False, False),
)
OF_MACHINE = tuple(term for term in TERMS if term.of_machine)
OF_LEVELS = tuple(term for term in TERMS if term.of_levels)
