"""What notebooks and terminals are shown of an array."""

from __future__ import annotations

import re

import numpy as np
import pytest

import bsp
import bsp.arrays as ba


def drawn(shape: tuple[int, ...], grid: tuple[int, ...] | None, p: int) -> str:
    pages = bsp.run(lambda proc: ba.zeros(shape, grid=grid)._repr_html_(), nprocs=p)
    assert len(set(pages)) == 1
    return pages[0]


def test_each_block_is_drawn_with_its_owner() -> None:
    page = drawn((1000, 600), (4, 3), 6)
    assert "<b>float64[1000, 600]</b> 4x3 blocks on 3x2 processes, 4.8 MB" in page
    assert re.findall(r">(\d)</text>", page) == list("010232454010")
    assert page.count("<rect") == 12
    assert "<title>block 2, 1 of process 5</title>" in page


def test_of_many_axes_the_two_with_most_blocks_are_drawn() -> None:
    assert drawn((500, 40, 40), (6, 1, 1), 6).count("<rect") == 6
    assert drawn((40, 40, 40), (2, 1, 3), 6).count("<rect") == 6
    assert drawn((10,), (3,), 3).count("<rect") == 3
    assert "(the first blocks)" in drawn((500,), (100,), 2)


@pytest.mark.parametrize(("shape", "grid"), [((500,), (100,)), ((500, 40), (100, 2)), ((30, 9000), (1, 300))])
def test_the_first_blocks_of_many_fill_the_drawing(shape: tuple[int, ...], grid: tuple[int, ...]) -> None:
    page = drawn(shape, grid, 2)
    ends = [float(x) + float(w) for x, w in re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', page)]
    width = float(re.findall(r'<svg width="([0-9]+)"', page)[0])
    assert max(ends) == pytest.approx(width - 2, abs=1)
    tall = [float(y) + float(h) for y, h in re.findall(r' y="([0-9.]+)" width="[0-9.]+" height="([0-9.]+)"', page)]
    assert max(tall) == pytest.approx(float(re.findall(r' height="([0-9]+)" viewBox', page)[0]) - 2, abs=1)


def test_what_every_process_has_is_one_grey_block_and_what_is_empty_none() -> None:
    page = drawn((8, 8), None, 3)
    assert page.count("<rect") == 1
    assert 'fill="#ddd"' in page
    assert "all</text>" in page
    assert "<svg" not in drawn((0, 5), None, 3)


@pytest.mark.parametrize("shape", [(), (3,), (7, 5), (1200,), (40, 50), (5, 6, 70)])
def test_arrays_print_as_numpys_and_bring_only_the_edges_together(shape: tuple[int, ...]) -> None:
    data = np.arange(float(np.prod(shape))).reshape(shape) * 1.5 - 3

    def main(proc: bsp.Process) -> tuple[str, int]:
        x = ba.asarray(data, grid=(2,) * len(shape))
        before = proc.superstep
        return f"{x}|{x!r}", proc.superstep - before

    for text, _ in bsp.run(main, nprocs=3):
        said, _, told = text.partition("|")
        assert said == str(data)
        assert told.startswith(f"<float64{list(shape)} ")
    words = bsp.predict(lambda proc: print(ba.asarray(data, grid=(2,) * len(shape))), nprocs=3).words
    assert words <= 2 * 8 ** len(shape) + 64


def test_a_block_and_what_is_lazy_are_told_in_the_picture() -> None:
    assert "4.8 MB; a block at most 250 x 200, 400 KB<br>" in drawn((1000, 600), (4, 3), 6)
    assert "a block at most 3, 24 B" in drawn((7,), (3,), 2)
    (page, *_) = bsp.run(lambda proc: (ba.zeros((10, 4), grid=(2, 1)) + 1)._repr_html_(), nprocs=2)
    assert "; a block at most 5 x 4, 160 B; lazy: nothing is computed yet<br>" in page
    assert "lazy" not in drawn((10, 4), (2, 1), 2)


@pytest.mark.parametrize(("shape", "grid"), [((7,), (3,)), ((7, 5), (2, 2)), ((2, 7, 5), (1, 2, 2)), ((0, 4), (1, 2))])
def test_repr_shows_a_block_that_is_here_and_which_part_of_the_array_it_is(
    shape: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    data = np.arange(float(np.prod(shape))).reshape(shape)

    def main(proc: bsp.Process) -> tuple[str, str, int, bool]:
        x = ba.asarray(data, grid=grid)
        before = proc.superstep
        told = repr(x), repr(x + 1), proc.superstep - before
        return *told, any(block.size for block in x.to_local().values())

    for told, lazy, supersteps, here in bsp.run(main, nprocs=4):
        assert supersteps == 0
        assert lazy == f"<float64{list(shape)} lazy>"
        assert ("; here [" in told) is here
        if not here:
            continue
        part, text = re.search(r"; here \[(.*?)\]:\s(.*)>$", told, re.DOTALL).groups()  # type: ignore[union-attr]
        index = tuple(slice(*map(int, each.split(":"))) if ":" in each else int(each) for each in part.split(", "))
        assert text == np.array2string(data[index], separator=", ", threshold=60, edgeitems=3)


def test_plans_show_at_a_prompt_as_lines() -> None:
    def main(proc: bsp.Process) -> list[tuple[str, str]]:
        x = ba.ones((30, 8))
        told = ((x.T @ x).explain(), ba.explain(x + 1), x.plan().explain(), ba.forecast(ba.sort, x))
        return [(repr(each), str(each)) for each in told]

    for shown, text in bsp.run(main, nprocs=2)[0]:
        assert shown == text
        assert "\\n" not in shown
