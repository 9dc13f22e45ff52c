"""The page: what is put into it, and what a browser makes of it, offline and from a file."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from made_traces import DEFAULT, MADE, made

from bsp.cost.report.page import page, render, write
from bsp.errors import TraceError


class Reader(HTMLParser):
    """What a browser sees: tags, attributes, and the texts of script elements and of the title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self._within: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._within = dict(attrs).get("id", "script") if tag == "script" else tag

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts[self._within] = self.texts.get(self._within, "") + data


def embedded(text: str) -> dict[str, Any]:
    """The data that the page's script reads."""
    data: dict[str, Any] = json.loads(Reader(text).texts["data"])
    return data


# ------------------------------------------------------------------------------ what is put in


@pytest.mark.parametrize("name", MADE)
def test_rows_travel_as_columns_and_nothing_is_lost(name: str) -> None:
    trace = MADE[name]()
    given = embedded(render(trace))
    for index, row in enumerate(trace["per_superstep"]):
        for key in set(row) - {"compute", "wait", "communicate"}:
            assert given["rows"][key][index] == row[key]
    for key in ("program", "machine", "classical", "costings", "traffic", "per_process", "per_element", "notes"):
        assert given[key] == trace[key]


def test_equal_traces_give_equal_bytes() -> None:
    assert render(made(20, p=4)) == render(made(20, p=4))


def test_nothing_of_a_program_can_leave_its_place() -> None:
    plain = Reader(render(made()))
    nasty = "</script><script>alert(1)</script><!--<b>&amp;\u2028__BSP_DATA__ __BSP_TITLE__"
    trace = made()
    trace["program"] = [nasty]
    for row in trace["per_superstep"]:
        row |= {"label": nasty, "source": nasty, "call": nasty}
    read = Reader(render(trace))
    assert read.tags == plain.tags
    assert read.texts["script"] == plain.texts["script"]
    given = json.loads(read.texts["data"])
    assert given["rows"]["label"] == [nasty] * 10 and given["program"] == [nasty]
    assert read.texts["title"] == f"{nasty}: cost of a run"


def test_the_page_names_nothing_outside_itself() -> None:
    template = resources.files("bsp.cost.report").joinpath("report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in template
    assert not re.search(r"https?:|//\w+\.|@import|url\(|fetch\(|XMLHttpRequest|import\(", template)
    for name, value in Reader(template).attributes:
        if name in ("src", "href"):
            assert value is not None and value.startswith(("#", "data:"))


def test_a_figure_that_json_cannot_carry_is_refused() -> None:
    trace = made()
    trace["seconds"] = float("nan")
    with pytest.raises(ValueError):
        render(trace)


@pytest.mark.parametrize(("by", "key"), [("source", "source"), ("label", "label"), ("call", "call")])
def test_groups_are_sums_over_the_supersteps_of_one_name(by: str, key: str) -> None:
    trace = made(100, p=4)
    groups = page(trace)["groups"][by]
    assert sum(group["times"] for group in groups) == 100
    for group in groups:
        rows = [row for row in trace["per_superstep"] if (row[key] or "") == group["name"]]
        assert group["times"] == len(rows)
        assert group["words"] == sum(max(row["h_sent"], row["h_received"]) for row in rows)
        assert group["messages"] == sum(row["messages"] for row in rows)
        for part, of in (("seconds", "seconds"), ("predicted", "predicted"), ("wait", "wait")):
            assert group[part] == pytest.approx(sum(row[of] for row in rows), rel=1e-12, abs=0)
        split = group["compute"] + group["wait"] + group["communicate"]
        assert split == pytest.approx(group["seconds"], rel=1e-12, abs=0)


# ------------------------------------------------------------------------------ a prediction beside it


def test_a_prediction_made_before_stands_beside_each_superstep() -> None:
    trace, prediction = made(10, p=4), made(10, p=4, kind="prediction")
    before = page(trace, prediction)["before"]
    assert before["rows"] == [row["seconds"] for row in prediction["per_superstep"]]
    assert (before["seconds"], before["differences"]) == (prediction["seconds"], [])


@pytest.mark.parametrize("supersteps", [0, 7, 12])
def test_a_prediction_of_other_length_fills_what_it_can_and_is_named(supersteps: int) -> None:
    prediction = made(supersteps, p=4, kind="prediction")
    before = page(made(10, p=4), prediction)["before"]
    told = [row["seconds"] for row in prediction["per_superstep"]][:10]
    assert before["rows"] == told + [None] * (10 - len(told))
    assert f"supersteps: {supersteps} predicted, 10 run" in before["differences"]


def test_a_prediction_for_something_else_is_named() -> None:
    trace = made(10, p=4)
    prediction = {**trace, "kind": "prediction", "machine": DEFAULT, "processes": 2000, "program": ["other.py"]}
    assert page(trace, prediction)["before"]["differences"] == [
        "program: other.py predicted, solver.py --grid 512 --out a b.npy run",
        "p: 2,000 predicted, 4 run",
        "machine: default predicted, desk run",
    ]


def test_a_trace_is_no_prediction_and_a_prediction_no_run() -> None:
    with pytest.raises(TraceError, match="is a trace of a run: `bsprun --predict` makes a prediction"):
        render(made(), made())
    with pytest.raises(TraceError, match="a prediction has no run to stand beside: give the trace of a run first"):
        render(made(kind="prediction"), made(kind="prediction"))


# ------------------------------------------------------------------------------ the file


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    write(made(), file)
    assert file.read_text(encoding="utf-8") == render(made())
    before = file.stat()
    with pytest.raises(TraceError):
        write(made(), file, made())
    assert (file.stat().st_ino, os.listdir(tmp_path)) == (before.st_ino, ["r.html"])
    write(made(5), str(file))
    assert embedded(file.read_text(encoding="utf-8"))["supersteps"] == 5
    assert os.listdir(tmp_path) == ["r.html"]


def test_a_page_that_cannot_take_its_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write(made(), tmp_path / "r.html")
    assert os.listdir(tmp_path) == []


def test_a_link_keeps_pointing_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "there.html")
    write(made(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "there.html").is_file()
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text(encoding="utf-8")))
    reader.start()
    write(made(), tmp_path / "pipe")
    reader.join()
    assert read == [render(made())] and (tmp_path / "pipe").is_fifo()


# ------------------------------------------------------------------------------ in a browser


class Page:
    """A page in the browser, and what a reader does to it."""

    def __init__(self, browser: Any, file: Path) -> None:
        self.browser, self.address = browser, file.as_uri()
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(self.address)
        self.until(lambda: self.script("return document.documentElement.dataset.drawn"))

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.execute_script(text, *arguments)

    def find(self, css: str) -> Any:
        return self.browser.find_element("css selector", css)

    def text(self, css: str) -> str:
        return str(self.script("return document.querySelector(arguments[0]).textContent", css))

    def until(self, holds: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.browser, 30, poll_frequency=0.02).until(lambda _: holds())

    def centre(self, css: str) -> Any:
        """Bring an element into sight; the page has seen the scrolling, which hides tooltips, when this returns."""
        element = self.find(css)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        self.until(lambda: self.script("return new Promise(done => requestAnimationFrame(() => done(true)))"))
        return element

    def keys(self, css: str) -> Callable[[str], None]:
        """What types into an element: it has the focus, and the mouse is out of the way."""
        from selenium.webdriver import ActionChains

        corner = ActionChains(self.browser, duration=0)
        corner.w3c_actions.pointer_action.move_to_location(1, 1)
        corner.perform()
        self.script("arguments[0].focus({preventScroll: true})", self.centre(css))
        return lambda key: ActionChains(self.browser).send_keys(key).perform()

    def move(self, css: str, x: float, y: float) -> Any:
        """Put the mouse at (x, y) of an element, which is brought into sight."""
        from selenium.webdriver import ActionChains

        element = self.centre(css)
        size = element.rect
        actions = ActionChains(self.browser, duration=0)
        actions.move_to_element_with_offset(element, round(x - size["width"] / 2), round(y - size["height"] / 2))
        actions.perform()
        return actions

    def data(self, css: str) -> dict[str, float]:
        """The numbers that a canvas tells about its own layout."""
        told: dict[str, str] = self.script("return {...document.querySelector(arguments[0]).dataset}", css)
        return {key: float(value) for key, value in told.items()}

    def tip(self, key: str, value: Any) -> dict[str, str]:
        """The figures of the tooltip, once it is about `value`."""
        self.until(lambda: self.script(TIP_IS, key) == str(value))
        figures: dict[str, str] = self.script(FIGURES)
        return figures

    def seen(self, table: str, column: str) -> list[str]:
        """The values of a column in the rows that the table has made."""
        values: list[str] = self.script(VALUES, table, column)
        return values

    def sort(self, table: str, column: str) -> str:
        """Click a heading; how the column is then sorted."""
        head = self.find(f"{table} th[data-column={column}]")
        self.script("arguments[0].scrollIntoView({block: 'center'})", head)
        head.find_element("css selector", "button").click()
        return str(head.get_attribute("aria-sort"))

    def requests(self) -> list[str]:
        """Every address that this document asked for (the browser's own pages have their own)."""
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if one["documentURL"] == self.address]


TIP_IS = "const tip = document.getElementById('tip'); return tip.hidden ? null : tip.dataset[arguments[0]]"
FIGURES = """return Object.fromEntries([...document.querySelectorAll('#tip td[data-key]')]
    .map(cell => [cell.dataset.key, cell.dataset.value]))"""
VALUES = """const table = document.querySelector(arguments[0]);
    const k = [...table.querySelectorAll('th')].findIndex(head => head.dataset.column === arguments[1]);
    return [...table.querySelectorAll('tbody tr[data-index]')].map(row => row.children[k].dataset.value)"""

TOO_WIDE = """return [...document.querySelectorAll('.scroll table')]
    .filter(one => one.scrollWidth > one.parentElement.clientWidth + 1).length"""
TILES_TOO_NARROW = """const tiles = [...document.querySelectorAll('.tile')];
    for (const tile of tiles) tile.querySelector('.value').textContent = '66.2 MB';
    return tiles.filter(one => one.scrollWidth > one.clientWidth).length"""
COUNT_PRINTED = """addEventListener('beforeprint', () => {
    window.printed = document.querySelectorAll('#steps-table tr[data-index]').length; })"""

pages = pytest.mark.parametrize("supersteps", [10, 5000])


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """`shown(trace, prediction=None)`: its page.  Whatever the test does there, the console stays empty
    and nothing but the file itself is asked for."""
    opened: list[Page] = []

    def show(trace: dict[str, Any], prediction: dict[str, Any] | None = None) -> Page:
        assert not opened  # one page a test: the next would empty the logs of the first
        write(trace, tmp_path / "r.html", prediction)
        opened.append(Page(browser, tmp_path / "r.html"))
        return opened[0]

    yield show
    assert browser.get_log("browser") == []
    for one in opened:
        assert [address for address in one.requests() if not address.startswith("data:")] == [one.address]


@pytest.mark.jobs
@pytest.mark.parametrize("name", MADE)
def test_every_trace_is_drawn_to_the_end(name: str, shown: Callable[..., Page]) -> None:
    page = shown(MADE[name]())
    assert page.script("return document.documentElement.dataset.drawn") == "yes"
    empty = page.script(
        "return [...document.querySelectorAll('canvas')].filter(one => !one.width || !one.height).length"
    )
    assert empty == 0


@pytest.mark.jobs
@pytest.mark.parametrize("width", [1280, 1200, 800, 320])
@pages
def test_nothing_is_wider_than_the_window(supersteps: int, width: int, shown: Callable[..., Page]) -> None:
    page = shown(made(supersteps, p=4), made(supersteps, p=4, kind="prediction"))
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.until(lambda: page.script("return innerWidth") == width)
        assert page.script("return document.documentElement.scrollWidth") <= width
        assert page.script(TOO_WIDE) == 0
        assert page.script(TILES_TOO_NARROW) == 0
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.jobs
@pytest.mark.parametrize("predicted", [False, True])
@pytest.mark.parametrize("width", [500, 380])
def test_a_narrow_window_shows_where_the_time_went_by_source_line(
    width: int, predicted: bool, shown: Callable[..., Page]
) -> None:
    page = shown(made(10, p=4), *([made(10, p=4, kind="prediction")] if predicted else []))
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.until(lambda: page.script("return innerWidth") == width)
        wide = "return document.querySelector(arguments[0]).getBoundingClientRect().width"
        for cell in ("#lines-table td", "#steps-table td:nth-child(2)", "#steps-table td:nth-child(3)"):
            assert page.browser.execute_script(wide, cell) >= 40, cell
        assert page.script("return document.querySelector('#lines-table td').textContent").endswith(
            tuple(f":{line}" for line in (31, 48, 52, 117))
        )
        assert page.script(TOO_WIDE) == 0
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.jobs
def test_the_number_of_a_line_is_seen_however_long_the_files_name_is(shown: Callable[..., Page]) -> None:
    trace = made(10, p=4)
    for row in trace["per_superstep"]:
        row["source"] = f"folder/{'a very long name ' * 6}{row['source']}"
    page = shown(trace)
    for table in ("lines", "steps"):
        hidden = f"""return [...document.querySelectorAll('#{table}-table .place')].filter(one => {{
            const number = one.lastChild.getBoundingClientRect(), cell = one.closest('td').getBoundingClientRect();
            return !/^:[0-9]+$/.test(one.lastChild.textContent) || number.right > cell.right; }}).length"""
        assert page.script(f"return document.querySelectorAll('#{table}-table .place').length") >= 4
        assert page.script(hidden) == 0


@pytest.mark.jobs
def test_a_narrow_window_shows_all_that_is_said_of_a_default_machine(shown: Callable[..., Page]) -> None:
    page = shown(made(10, p=4, machine=DEFAULT))
    size = {"width": 380, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.until(lambda: page.script("return innerWidth") == 380)
        assert page.script("return document.querySelector('#machine-kind').getBoundingClientRect().right") <= 380
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.jobs
@pytest.mark.parametrize(("kind", "time"), [("trace", "measured"), ("prediction", "predicted")])
def test_shares_of_the_model_and_shares_of_the_time_say_which_they_are(
    kind: str, time: str, shown: Callable[..., Page]
) -> None:
    page = shown(made(10, p=4, kind=kind))
    assert "shares are of this cost of the model" in page.text("#classical")
    assert ("not of the measured time" in page.text("#classical")) is (kind == "trace")
    assert f"Shares are of the {time} time" in page.text("#parts-lead")


def headline(page: Page) -> dict[str, tuple[str, str, str]]:
    """What each tile says: its figure, the figure in full, and the line below."""
    tiles = """return Object.fromEntries([...document.querySelectorAll('.tile')].map(tile => [tile.dataset.figure,
        [tile.children[1].textContent, tile.children[1].title, tile.children[2].textContent]]))"""
    return {key: (text, title, more) for key, (text, title, more) in page.script(tiles).items()}


@pytest.mark.jobs
def test_headline_figures_are_those_of_the_trace_in_words_for_people(shown: Callable[..., Page]) -> None:
    figures = {
        "seconds": 1.5,
        "predicted_seconds": 0.00125,
        "words": 12_345_678,
        "messages": 75,
        "peak_bytes": 88_900_000,
    }
    page = shown(
        {**made(10, p=4, elements=2), **figures}, {**made(10, p=4, elements=2, kind="prediction"), "seconds": 90.2}
    )
    assert headline(page) == {
        "seconds": ("1.50 s", "1.5 s", "1.20 k× the predicted time"),
        "predicted_seconds": ("1.25 ms", "0.00125 s", "from this run's work and traffic"),
        "before": ("1 min 30 s", "90.2 s", "before the run; measured is 0.02× this"),
        "processes": ("4", "p = 4", "on P = 2 elements"),
        "supersteps": ("10", "S = 10", "150 ms each in the mean"),
        "words": ("12.3 M", "12,345,678 words", "sum of the h-relations"),
        "messages": ("75", "75", "7.50 a superstep"),
        "peak_bytes": ("88.9 MB", "88,900,000 bytes", "of the fullest element"),
    }
    assert page.text("#kind") == "measured run"
    assert (page.text("#machine"), page.text("#machine-kind")) == ("desk", "measured")
    assert page.text("#chart-legend") == "measuredpredictedpredicted before the run"


@pytest.mark.jobs
def test_headline_figures_of_5000_supersteps(shown: Callable[..., Page]) -> None:
    trace = made(5000, p=64)
    told = headline(shown(trace))
    assert told["seconds"][:2] == (f"{trace['seconds']:.1f} s", f"{trace['seconds']} s")
    assert told["supersteps"][0] == "5,000"
    assert told["words"][:2] == (f"{trace['words'] / 1e6:.1f} M", f"{trace['words']:,} words")
    assert told["messages"][:2] == (f"{trace['messages'] / 1e3:.0f} k", f"{trace['messages']:,}")
    assert told["peak_bytes"][0] == f"{trace['peak_bytes'] / 1e6:.0f} MB"


@pytest.mark.jobs
@pytest.mark.parametrize(("words", "told"), [(0, "No words were sent"), (4280, "Which process sends to which is not")])
def test_traffic_that_is_not_recorded_is_not_told_to_be_none(words: int, told: str, shown: Callable[..., Page]) -> None:
    """Where a few processes stand for all, a prediction has no words by pairs."""
    trace = made(10, p=4, kind="prediction")
    trace["words"] = words
    trace["traffic"]["words"] = [[0.0] * 4] * 4
    assert shown(trace).text("#traffic-lead").startswith(told)


@pytest.mark.jobs
def test_a_prediction_says_so_and_shows_nothing_measured(shown: Callable[..., Page]) -> None:
    page = shown(MADE["prediction"]())
    assert "nothing has been run and nothing was measured" in page.text("#notes")
    assert "unique: a bound" in page.text("#notes")
    assert page.text("#kind") == "prediction"
    assert "seconds" not in headline(page)
    assert page.text("#chart-title") == "Predicted, by superstep"
    assert page.text("#chart-legend") == "predicted"
    assert page.text("#machine-kind").startswith("default machine: typical figures, not this computer's")
    assert page.text("#classical .lead").startswith("r = ")  # no number of elements: nobody has counted them
    assert not page.script("return document.querySelector('th[data-column=seconds]')")


@pytest.mark.jobs
def test_hovering_the_chart_tells_each_of_10_supersteps(shown: Callable[..., Page]) -> None:
    trace, prediction = made(10, p=4), made(10, p=4, kind="prediction", seed=1)
    page = shown(trace, prediction)
    for chart in ("#chart-plot canvas", "#parts-plot canvas"):
        box = page.data(chart)
        for index, row in enumerate(trace["per_superstep"]):
            page.move(chart, box["left"] + (index + 0.5) * (box["right"] - box["left"]) / 10, 100)
            figures = page.tip("superstep", row["superstep"])
            assert page.text("#tip b") == f"Superstep {row['superstep']}: {row['label'] or row['call']}"
            for key in ("seconds", "predicted", "wait", "communicate", "w"):
                assert float(figures[key]) == row[key]
            assert float(figures["before"]) == prediction["per_superstep"][index]["seconds"]
            for key in ("h_sent", "h_received", "messages", "source", "schedule"):
                assert figures[key] == str(row[key])


@pytest.mark.jobs
def test_hovering_the_chart_of_5000_tells_the_longest_of_the_column_and_a_drag_looks_closer(
    shown: Callable[..., Page],
) -> None:
    trace = made(5000, p=4)
    rows = trace["per_superstep"]
    page, chart = shown(trace), "#chart-plot canvas"
    box = page.data(chart)
    all_columns = int(box["columns"])
    assert all_columns < 5000
    width = (box["right"] - box["left"]) / all_columns
    for column in (0, 3, all_columns // 3, all_columns - 2):
        page.move(chart, box["left"] + (column + 0.5) * width, 100)
        near = []  # the mouse stands on whole pixels: perhaps beside the column that is meant
        for k in range(max(0, column - 1), column + 2):
            within = rows[k * 5000 // all_columns : (k + 1) * 5000 // all_columns]
            near.append(str(max(within, key=lambda row: row["seconds"])["superstep"]))
        page.until(lambda near=near: page.script(TIP_IS, "superstep") in near)
        row = rows[int(page.script(TIP_IS, "superstep"))]
        figures = page.script(FIGURES)
        assert (float(figures["seconds"]), figures["messages"]) == (row["seconds"], str(row["messages"]))

    page.move(chart, box["left"] + 300, 100)
    page.move(chart, box["left"] + 300, 100).click_and_hold().move_by_offset(40, 0).release().perform()
    page.until(lambda: page.data(chart)["columns"] != all_columns)
    foot = re.match(r"Supersteps ([\d,]+) to ([\d,]+) of 5,000\.", page.text("#chart-foot"))
    assert foot is not None
    low, high = (int(text.replace(",", "")) for text in foot.groups())
    seen = high - low + 1
    assert seen == page.data(chart)["columns"]  # a column for each
    assert 5000 * 290 / (box["right"] - box["left"]) < low < high < 5000 * 350 / (box["right"] - box["left"])
    page.move(chart, box["left"] + 10.5 * (box["right"] - box["left"]) / seen, 100)
    figures = page.tip("superstep", low + 10)
    assert float(figures["predicted"]) == rows[low + 10]["predicted"]
    page.find("#chart-buttons .plain").click()
    page.until(lambda: page.data(chart)["columns"] == all_columns)


@pytest.mark.jobs
def test_the_chart_is_read_by_keys_too(shown: Callable[..., Page]) -> None:
    from selenium.webdriver import Keys

    trace = made(5000, p=4)
    page = shown(trace)
    press = page.keys("#chart-plot canvas")
    press(Keys.END)
    page.tip("superstep", 4999)
    press(Keys.ARROW_LEFT)
    assert float(page.tip("superstep", 4998)["seconds"]) == trace["per_superstep"][4998]["seconds"]
    press(Keys.ENTER)
    page.until(lambda: page.script("return document.querySelector('#steps-table tr.shown')?.dataset.index") == "4998")


@pytest.mark.jobs
@pages
@pytest.mark.parametrize("p", [4, 64])
def test_hovering_the_heat_map_tells_pids_and_words(supersteps: int, p: int, shown: Callable[..., Page]) -> None:
    trace = made(supersteps, p=p)
    page = shown(trace)
    box = page.data("#heat canvas")
    for source, dest in ((0, 1), (1, 0), (p - 1, p - 2), (p // 2, p // 2), (0, p - 1)):
        page.move("#heat canvas", box["left"] + (dest + 0.5) * box["cell"], box["top"] + (source + 0.5) * box["cell"])
        page.tip("from", source)
        figures = page.tip("to", dest)
        assert figures["words"] == str(trace["traffic"]["words"][source][dest])
        assert page.text("#tip b") == f"process {source} → process {dest}"


@pytest.mark.jobs
def test_a_cell_of_many_processes_tells_their_range(shown: Callable[..., Page]) -> None:
    trace = made(10, p=300)
    page = shown(trace)
    box = page.data("#heat canvas")
    members = [pid for pid in range(300) if pid * 128 // 300 == 50]
    page.move("#heat canvas", box["left"] + 50.5 * box["cell"], box["top"] + 50.5 * box["cell"])
    figures = page.tip("from", f"{members[0]}–{members[-1]}")
    assert figures["words"] == str(trace["traffic"]["words"][50][50])


COLUMNS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "superstep": lambda row: row["superstep"],
    "label": lambda row: row["label"] or row["call"],
    "seconds": lambda row: row["seconds"],
    "ratio": lambda row: row["seconds"] / row["predicted"],
    "h": lambda row: max(row["h_sent"], row["h_received"]),
    "messages": lambda row: row["messages"],
}


@pytest.mark.jobs
@pages
@pytest.mark.parametrize("column", COLUMNS)
def test_a_heading_sorts_both_ways(supersteps: int, column: str, shown: Callable[..., Page]) -> None:
    trace = made(supersteps, p=4)
    page, key = shown(trace), COLUMNS[column]
    if column == "superstep":
        page.sort("#steps-table", "seconds")  # it is sorted by superstep at first
    ways = []
    for _ in range(2):
        ways.append(page.sort("#steps-table", column))
        rows = sorted(trace["per_superstep"], key=key, reverse=ways[-1] == "descending")
        seen = page.seen("#steps-table", "superstep")
        assert 10 <= len(seen) < 60  # a few rows of the many
        assert seen == [str(row["superstep"]) for row in rows[: len(seen)]]
        page.script("const box = document.querySelector('#steps-table .scroll'); box.scrollTop = box.scrollHeight")
        last = str(rows[-1]["superstep"])
        page.until(lambda last=last: page.seen("#steps-table", "superstep")[-1] == last)
        seen = page.seen("#steps-table", "superstep")
        assert seen == [str(row["superstep"]) for row in rows[-len(seen) :]]
    assert ways == (["ascending", "descending"] if column in ("superstep", "label") else ["descending", "ascending"])


@pytest.mark.jobs
@pages
def test_the_filter_keeps_what_holds_every_word(supersteps: int, shown: Callable[..., Page]) -> None:
    trace = made(supersteps, p=4)
    page = shown(trace)
    box = page.find("#filter")

    def kept(*needles: str) -> list[dict[str, Any]]:
        texts = [(f"{row['label'] or ''} {row['call']} {row['source']}", row) for row in trace["per_superstep"]]
        return [row for text, row in texts if all(needle in text for needle in needles)]

    for words in ("halo", "ALLREDUCE solver.py:52", "mesh"):
        box.clear()
        box.send_keys(words)
        rows = kept(*words.lower().split())
        assert page.text("#filtered").startswith(f"{len(rows):,} of {supersteps:,} supersteps: ")
        seen = page.seen("#steps-table", "superstep")
        assert seen == [str(row["superstep"]) for row in rows[: len(seen)]] and seen
    box.clear()
    box.send_keys("nowhere at all")
    assert page.seen("#steps-table", "superstep") == []
    assert page.text("#filtered").startswith(f"0 of {supersteps:,} supersteps: 0 s measured")


@pytest.mark.jobs
def test_sums_by_source_line_sort_and_lead_to_their_supersteps(shown: Callable[..., Page]) -> None:
    trace = made(5000, p=4)
    page = shown(trace)
    sums: dict[str, float] = {}
    for row in trace["per_superstep"]:
        sums[row["source"]] = sums.get(row["source"], 0) + row["seconds"]
    assert page.seen("#lines-table", "name") == sorted(sums, key=sums.__getitem__, reverse=True)
    assert page.sort("#lines-table", "name") == "ascending"
    assert page.seen("#lines-table", "name") == sorted(sums)
    page.find("#lines-table tbody button").click()
    assert page.text("#filtered").startswith("1,666 of 5,000 supersteps")
    assert set(page.seen("#steps-table", "source")) == {"mesh.py:117"}
    page.find("#lines-buttons button[data-key=label]").click()
    assert sorted(page.seen("#lines-table", "name")) == ["(no label)", "halo", "residual", "scatter rows"]


@pytest.mark.jobs
def test_what_a_program_wrote_is_shown_as_text(shown: Callable[..., Page]) -> None:
    nasty = "<img src=x onerror=alert(1)></script><b>"
    trace = made(10, p=4, notes=(nasty,))
    trace["program"] = [nasty]
    for row in trace["per_superstep"]:
        row |= {"label": nasty, "source": nasty, "call": nasty}
    page = shown(trace)
    assert page.text("#program") == page.text("#notes") == nasty
    assert page.seen("#steps-table", "label") == [nasty] * 10
    assert page.script("return document.querySelectorAll('img').length") == 0


@pytest.mark.jobs
def test_printing_shows_the_first_supersteps_and_leaves_the_page_as_it_was(shown: Callable[..., Page]) -> None:
    page = shown(made(5000, p=4))
    before = page.seen("#steps-table", "superstep")
    page.script(COUNT_PRINTED)
    assert page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    page.until(lambda: not page.script("return document.documentElement.classList.contains('printing')"))
    assert page.script("return window.printed") == 40
    assert page.seen("#steps-table", "superstep") == before
