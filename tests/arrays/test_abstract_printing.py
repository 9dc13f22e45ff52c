"""Numbers of arrays as text and as Python's numbers in a run without values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bsp
import bsp.arrays as ba

MACHINE = bsp.Machine(p=3)


@pytest.mark.parametrize(
    "text",
    [str, lambda x: f"{x:.3f}" if x.ndim == 0 else f"{x}", lambda x: str(x[:2] if x.ndim else x)],
    ids=["str", "format", "part"],
)
@pytest.mark.parametrize("shape", [(7, 5), (60, 40)])
def test_printing_takes_the_supersteps_that_it_takes_with_values(
    text: Callable[[ba.Array], str], shape: tuple[int, int]
) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.ones(shape).persist()
        print(text(x[1, 2]), text(x))

    real, abstract = (bsp.predict(main, nprocs=3, machine=MACHINE, abstract=each) for each in (False, True))
    assert real.supersteps == abstract.supersteps > 0
    assert [row["h_received"] for row in real] == [row["h_received"] for row in abstract]


@pytest.mark.parametrize(("name", "convert"), [("float", float), ("int", int), ("item", lambda x: x.item())])
def test_a_conversion_without_values_is_told_to_compute_on_every_process_first(
    name: str, convert: Callable[[ba.Array], object]
) -> None:
    def asks(proc: bsp.Process) -> None:
        x = ba.ones((7, 5)).persist()
        convert(x[1, 2])

    def advised(proc: bsp.Process) -> list[str]:
        value = ba.ones((7, 5)).persist()[1, 2].compute()
        return [f"{value:.1f}"] if proc.pid == 0 else []

    with pytest.raises(bsp.ValueNeeded, match=rf"^{name}\(\) needs .*call \.compute\(\) on every process first"):
        bsp.predict(asks, nprocs=3, machine=MACHINE, abstract=True)
    assert bsp.predict(advised, nprocs=3, machine=MACHINE, abstract=True).supersteps == 2
    assert bsp.run(advised, nprocs=3) == [["1.0"], [], []]
