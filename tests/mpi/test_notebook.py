"""A real notebook in a real kernel: arrays live from cell to cell, `%%bsp` cells, tracebacks, progress, and the end."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import psutil
import pytest
from notebooks import EXECUTE, outputs, printed, result, traceback_of

pytestmark = pytest.mark.jobs

# As `notebooks.EXECUTE`, with an interrupt of the kernel as soon as a cell has printed `interrupt me`.
INTERRUPT = """
import json, sys
from jupyter_client import KernelManager

manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=300)
outputs = []
for cell in json.load(sys.stdin):
    outputs.append([])

    def heard(message):
        kind, content = message["msg_type"], message["content"]
        if kind in ("stream", "error", "execute_result"):
            outputs[-1].append({"output_type": kind, **content})
        if kind == "stream" and "interrupt me" in content["text"]:
            manager.interrupt_kernel()

    client.execute_interactive(cell, allow_stdin=False, timeout=500, output_hook=heard)
client.stop_channels()
manager.shutdown_kernel()
print(json.dumps(outputs))
"""


def width(output: dict[str, Any]) -> int:
    """The width of a picture in pixels."""
    return int.from_bytes(base64.b64decode(output["data"]["image/png"])[16:20])


def shown_frames(text: str) -> list[str]:
    """The frames of a traceback of IPython."""
    return re.findall(r"^(?:Cell |File )(.*?)(?:, line |:)(\d+)", text, re.M)  # type: ignore[return-value]


CELLS = {
    "start": "import bsp, bsp.arrays as ba\n%load_ext bsp\ns = bsp.Session(4, 2)\nprint(s._elements._folder)\ns",
    "make": "x = s.run(lambda proc: ba.arange(4000.0, grid=4))[0]\nx",
    "use": "def total(proc):\n    print('process', proc.pid)\n    return float((2 * x).sum())\ns.run(total)",
    "set": "%%bsp\nimport bsp, bsp.arrays as ba\nproc = bsp.process()\ny = ba.ones((8, 3)) * 4\nprint(proc.pid)",
    "value": "%%bsp\ny.shape, proc.pid",
    "array": "%%bsp\ny",
    "pass on": "s.run(lambda proc, y: float(y.sum()), _)",
    "hidden": "%%bsp\ny;",
    "put": "s.put(x=x, factor=3)",
    "names": "%%bsp s\nfloat((x * factor).sum())",
    "figures": "%%bsp\nfrom matplotlib import pyplot\nif proc.pid in (0, 3):\n"
    "    pyplot.figure(figsize=(2 + proc.pid, 1))\n    pyplot.show()\n    print('between')\n"
    "    pyplot.figure(figsize=(8 + proc.pid, 1))\n    pyplot.plot([1, 2])",
    "later": "def draw(proc):\n    from matplotlib import pyplot\n    if proc.pid == 1:\n"
    "        figure = pyplot.figure(figsize=(2, 1))\n    proc.sync()\n    if proc.pid == 1:\n"
    "        figure.set_size_inches(13, 1)\nwith bsp.Session(4, 2) as other:\n    other.run(draw)",
    "display": "%%bsp\nclass Table:\n    def _repr_html_(self):\n        return f'<b>{proc.pid}</b>'\n"
    "print('before', end=' ')\nif proc.pid in (0, 3):\n    display(Table())",
    "display again": "%%bsp\nfrom IPython.display import HTML, display\nfrom matplotlib import pyplot\n"
    "if proc.pid == 0:\n    place = display('one', display_id=True)\n    place.update(HTML('<i>two</i>'))\n"
    "    drawn = pyplot.figure(figsize=(2, 1))\n    display(drawn)\n    pyplot.close(drawn)",
    "no input": "%%bsp\ntry:\n    line = input('the line? ')\nexcept EOFError:\n    line = None\nline is None",
    "wrong figure": "%%bsp\nif proc.pid == 0:\n    pyplot.title('$\\\\wrong$')\nproc.pid",
    "error": "%%bsp\n\ndef inverse(k):\n    return 1 / k\n\ninverse(factor - 3)",
    "still there": "%%bsp\ninverse(2)",
    "syntax": "%%bsp\nz = (1 +",
    "magic": "%%bsp\n%timeit y\n",
    "compiler": "%%bsp\nz = 1\nreturn 5",
    "function": "def halves(proc):\n    return ba.ones(3).reshape(2, 2)\n\ns.run(halves)",
    "place": "s.run(lambda proc: proc.coarray(1).put(proc.pid, [1.0, 2.0]))",
    "alone": "ba.ones((3, 4)) @ ba.ones((3, 4))",
    "method": "x.sum()",
    "operator": "x + 1",
    "run": "def main(proc):\n    proc.sync()\n    return [1, 2][proc.pid + 1]\n\nbsp.run(main, nprocs=2)",
    "job": "bsp.run(main, nprocs=2, elements=2)",
    "job with progress": "bsp.run(main, nprocs=2, elements=2, progress=True)",
    "mismatch": "bsp.run(lambda proc: proc.pid and proc.sync(), nprocs=2, elements=2)",
    "asyncio": "import asyncio\nbsp.run(lambda proc: asyncio.run(asyncio.sleep(0, proc.pid)), nprocs=3)",
    "progress": "bsp.run(lambda proc: [proc.sync() for _ in range(5)] and proc.pid, nprocs=2, progress=True)",
    "session progress": "with bsp.Session(2, 1, progress=True) as other:\n    other.run(lambda proc: proc.sync())",
    "disagree": "%%bsp\nif proc.pid == 3:\n    raise ValueError('three')\nproc.sync()",
    "ended": "s.run(total)",
    "ended cell": "%%bsp\n1",
    "closed": "s.close()",
    "none open": "%%bsp\n1",
    "no such": "%%bsp nothing\n1",
    "again": "s = bsp.Session(2, 2)\nprint(s._elements._folder)",
    "last": "%unload_ext bsp\n'bsp' in get_ipython().magics_manager.magics['cell']",
}


@pytest.fixture(scope="module")
def notebook() -> dict[str, list[dict[str, Any]]]:
    """Return the output of each cell."""
    return dict(zip(CELLS, outputs(EXECUTE, list(CELLS.values())), strict=True))


def test_arrays_live_from_cell_to_cell(notebook: dict[str, Any]) -> None:
    assert result(notebook["start"]) == "<bsp.Session: 4 processes on 2 elements, superstep 0>"
    assert "<b>float64[4000]</b>" in result(notebook["make"], "text/html")
    assert result(notebook["make"], "text/html").count("<rect") == 4
    assert result(notebook["use"]) == str([2.0 * sum(range(4000))] * 4)
    assert printed(notebook["use"]) == "".join(f"process {pid}\n" for pid in range(4))


def test_cells_run_on_all_processes_and_their_names_live_on(notebook: dict[str, Any]) -> None:
    assert printed(notebook["set"]) == "0\n1\n2\n3\n"
    assert result(notebook["value"]) == "((8, 3), 0)"
    assert "<b>float64[8, 3]</b>" in result(notebook["array"], "text/html")
    assert result(notebook["pass on"]) == str([8 * 3 * 4.0] * 4)
    assert notebook["hidden"] == notebook["put"] == []
    assert result(notebook["names"]) == str(3.0 * sum(range(4000)))


def test_the_figures_of_processes_appear_below_the_cell_once(notebook: dict[str, Any]) -> None:
    shown = [width(each) if each["output_type"] == "display_data" else each["text"] for each in notebook["figures"]]
    first, third, second, fourth = sorted(each for each in shown if isinstance(each, int))
    assert shown.index(first) < shown.index("between\n") < shown.index(second)  # of process 0
    assert shown.index(third) < shown.index(fourth)  # of process 3


def test_a_figure_waits_for_the_end_of_its_own_process(notebook: dict[str, Any]) -> None:
    (shown,) = notebook["later"]
    assert "1300x100" in shown["data"]["text/plain"]


def test_display_shows_values_below_the_cell(notebook: dict[str, Any]) -> None:
    shown = [each["data"]["text/html"] if "data" in each else each["text"] for each in notebook["display"]]
    assert shown.index("before ") < shown.index("<b>0</b>")  # of process 0, whose text is not held
    assert sorted(each for each in shown if each.startswith("<b>")) == ["<b>0</b>", "<b>3</b>"]
    replaced, drawn = notebook["display again"]
    assert replaced["data"]["text/html"] == "<i>two</i>"
    assert "image/png" in drawn["data"]


def test_without_anybody_to_ask_input_is_at_its_end(notebook: dict[str, Any]) -> None:
    assert result(notebook["no input"]) == "True"


def test_a_figure_that_cannot_be_drawn_is_told_and_does_no_harm(notebook: dict[str, Any]) -> None:
    assert printed(notebook["wrong figure"], "stderr").startswith("a figure cannot be drawn: ValueError")
    assert result(notebook["wrong figure"]) == "0"


def test_an_error_of_a_cell_shows_the_lines_of_the_cell_only(notebook: dict[str, Any]) -> None:
    text = traceback_of(notebook["error"])
    number = 1 + list(CELLS).index("error")
    assert shown_frames(text) == [(f"In[{number}]", "6"), (f"In[{number}]", "4")]
    assert "----> 4     return 1 / k" in text
    assert text.endswith("ZeroDivisionError: division by zero\nRaised by all processes in superstep 3.")
    assert result(notebook["still there"]) == "0.5"
    assert "SyntaxError: '(' was never closed" in traceback_of(notebook["syntax"])
    assert "z = (1 +" in traceback_of(notebook["syntax"])
    assert "A %%bsp cell is plain Python" not in traceback_of(notebook["syntax"])
    text = traceback_of(notebook["magic"])
    assert "%timeit y" in text and text.rstrip().endswith(
        "A %%bsp cell is plain Python: magics (%), shell commands (!) and ? need cells of their own."
    )
    text = traceback_of(notebook["compiler"])
    assert "SyntaxError: 'return' outside function" in text
    assert "magic.py" not in text
    assert "session.py" not in text


@pytest.mark.parametrize("cell", ["function", "place", "alone", "run", "method", "operator"])
def test_tracebacks_show_the_cells_and_no_frame_of_this_package(notebook: dict[str, Any], cell: str) -> None:
    text = traceback_of(notebook[cell])
    number = 1 + list(CELLS).index(cell)
    lines = {"function": ["4", "2"], "place": ["1", "1"], "alone": ["1"], "run": ["5", "3"]}.get(cell, ["1"])
    assert shown_frames(text) == [(f"In[{number}]", line) for line in lines]
    assert f"{os.sep}bsp{os.sep}" not in text


@pytest.mark.parametrize("cell", ["run", "job", "job with progress"])
def test_the_traceback_of_a_run_shows_the_callers_line_and_that_of_the_error(
    notebook: dict[str, Any], cell: str
) -> None:
    text = traceback_of(notebook[cell])
    number, defined = (1 + list(CELLS).index(name) for name in (cell, "run"))
    assert shown_frames(text)[0] == (f"In[{number}]", "5" if cell == "run" else "1")
    assert {place for place, _ in shown_frames(text)} <= {f"In[{number}]", f"In[{defined}]"}
    assert "    return [1, 2][proc.pid + 1]" in text
    assert "The session has ended" not in text


def test_messages_name_cells_by_their_numbers(notebook: dict[str, Any]) -> None:
    mismatch = 1 + list(CELLS).index("mismatch")
    assert f"process 1 waits in sync at In[{mismatch}]:1 (superstep 0)" in traceback_of(notebook["mismatch"])
    assert f"(In[{1 + list(CELLS).index('place')}]:1, process 0, superstep 3)" in traceback_of(notebook["place"])


def test_processes_in_the_kernel_leave_its_event_loop_alone(notebook: dict[str, Any]) -> None:
    assert result(notebook["asyncio"]) == "[0, 1, 2]"


def test_progress_is_an_output_that_is_replaced(notebook: dict[str, Any]) -> None:
    assert result(notebook["progress"]) == "[0, 1]"
    for cell, begins in (("progress", "5 supersteps, "), ("session progress", "1 superstep, ")):
        (shown,) = [output for output in notebook[cell] if output["output_type"] == "display_data"]
        assert shown["data"]["text/plain"].startswith(begins)
        assert printed(notebook[cell], "stderr") == ""


def test_a_disagreement_ends_the_session_and_says_how_to_go_on(notebook: dict[str, Any]) -> None:
    text = traceback_of(notebook["disagree"])
    assert shown_frames(text) == [(f"In[{1 + list(CELLS).index('disagree')}]", "3")]
    assert "ValueError: three\nRaised by process 3 in superstep 3.\nThe session has ended: " in text
    assert text.endswith("start a new one with bsp.Session(4, 2).")
    text = traceback_of(notebook["ended"])
    assert "SessionEnded: this session has ended: process 3 raised ValueError in superstep 3; start a new" in text
    assert shown_frames(text) == [(f"In[{1 + list(CELLS).index('ended')}]", "1")]
    assert "SessionEnded: this session has ended: process 3 raised ValueError" in traceback_of(notebook["ended cell"])
    assert "%%bsp: no session is open; start one in a cell of its own" in traceback_of(notebook["none open"])
    assert "%%bsp: no session is in the variable 'nothing'" in traceback_of(notebook["no such"])
    assert result(notebook["last"]) == "False"


def left(folder: str) -> list[psutil.Process]:
    """The processes that name a session's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if folder in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def test_the_end_of_the_kernel_leaves_no_process(notebook: dict[str, Any]) -> None:
    """One session has ended by an error; the other one was open when the kernel was shut down."""
    for cell in ("start", "again"):
        folder = printed(notebook[cell]).strip()
        assert Path(folder).name.startswith("bsp-session-")
        assert left(folder) == []


def test_an_interrupt_of_a_cell_ends_its_session_and_leaves_no_process() -> None:
    first, idle, second, third, _, cell = outputs(
        INTERRUPT,
        [
            "import bsp\ns = bsp.Session(2, 2)\nprint(s._elements._folder)",
            "import signal\ntry:\n    print('interrupt me')\n    signal.pause()\nexcept KeyboardInterrupt:\n"
            "    print(s.run(lambda proc: proc.pid))",
            "def main(proc):\n    print('interrupt me', flush=True)\n    while True:\n        pass\ns.run(main)",
            "print(s)",
            "%load_ext bsp\ns = bsp.Session(2, 1)",
            "%%bsp\nprint('interrupt me', flush=True)\nwhile True:\n    pass",
        ],
    )
    assert shown_frames(traceback_of(second)) == [("In[3]", "5")]
    assert "KeyboardInterrupt" in traceback_of(cell)
    assert shown_frames(traceback_of(cell)) == []
    assert printed(idle) == "interrupt me\n[0, 1]\n"  # the group of the kernel was interrupted, and the session lives
    assert "KeyboardInterrupt" in traceback_of(second)
    assert "The session has ended: a call was interrupted; start a new one with bsp.Session(2, 2)." in traceback_of(
        second
    )
    assert printed(third) == "<bsp.Session: 2 processes on 2 elements, ended: a call was interrupted>\n"
    assert left(printed(first).strip()) == []
