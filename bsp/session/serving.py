"""An element of a session: it runs one function of the caller after another on the same processes.

Each call is a run of its own (`Element.run`) of the same processes: they keep coarrays, names, generators and the
number of supersteps.  The end of a call is what the end of a program is (B5): an exchange, and no superstep.  Between
calls an element waits for its connection and uses no processor time.
"""

from __future__ import annotations

import io
import sys
import traceback
from types import ModuleType
from typing import Any

from bsp import source
from bsp.cost.model import Machine
from bsp.cost.record.progress import RunProgress
from bsp.engine.element import Element
from bsp.engine.task import Task, status_of
from bsp.engine.verdict import Verdict
from bsp.session import displays
from bsp.session.channel import (
    ANSWER,
    DISPLAY,
    ERROR_TEXT,
    LINE,
    TEXT,
    CallersInput,
    CallOutcome,
    Channel,
    NotSent,
    Request,
)
from bsp.session.handles import Kept
from bsp.session.tracebacks import told
from bsp.transport.base import Transport
from bsp.world import handle, hosting

_channel: Channel | None = None  # of the session that this element serves


def serve(folder: str, settings: dict[str, Any], transport: Transport, machine: Machine, lifeline: Any) -> None:
    """Run the calls of the session that started this element, until it ends.

    folder : where the caller's socket is.  settings : those of the job.
    """
    global _channel
    channel = _channel = Channel(folder, transport.index)
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = CallersInput(channel)
    sys.stdout = io.TextIOWrapper(channel.stream(TEXT), "utf-8", "replace", line_buffering=True)
    sys.stderr = io.TextIOWrapper(channel.stream(ERROR_TEXT), "utf-8", "backslashreplace", line_buffering=True)
    element = Element(
        settings["nprocs"], transport, settings["seed"], None, machine, lifeline=lifeline, console=channel.stream(TEXT)
    )  # fmt: skip
    if settings.get("progress") and transport.index == 0:
        element.progress = RunProgress(machine, Remote(channel))
    element.host(lambda task: None, _main)
    kept = {task.pid: Kept(task.pid) for task in element.tasks}
    try:
        lifeline.idle()
        for request in channel.requests():
            sys.path[:] = request.path
            source.cells.update(request.cells)
            if request.displays:
                displays.install(channel.send)
            element.go_on(_body(request, kept))
            with hosting(element):
                verdict = element.run()
            for stream in (element.tasks[0].own.stdout, sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()
            lifeline.idle()
            channel.send(ANSWER, _answer(element, verdict))
            if not verdict.in_step:
                break
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams


class Remote:
    """The line of progress, shown by the caller."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def show(self, text: str) -> None:
        """Replace the line."""
        self._channel.send(LINE, text)

    def clear(self) -> None:
        """Make room for text of the program: the caller does, when the text arrives."""

    def end(self, text: str) -> None:
        """Show the line for the last time."""
        self._channel.send(LINE, text + "\n")


def _main(pid: int) -> ModuleType:
    """Return the `__main__` of a process: the names that cells of `%%bsp` set and use."""
    module = ModuleType("__main__")
    module.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    return module


def _body(request: Request, kept: dict[int, Kept]) -> Any:
    """Return what each process does in a call; its result is a pickle."""

    def body(task: Task) -> bytes:
        mine = kept[task.pid]
        mine.drop(request.dropped)
        function, args = mine.loads(request.body)
        try:
            result = function(handle(task), *args)
        except SystemExit as left:
            if status_of(left):
                raise
            result = None
        finally:
            _show_figures()  # first: one that a result refers to would be drawn anew where it is unpickled
        task.check_nothing_lost()
        try:
            return mine.dumps(result, request.call if request.keeps else None)
        except Exception as wrong:  # noqa: BLE001 - pickling fails with any of them
            why = f"the result of process {task.pid}, {type(result).__name__}, cannot be pickled ({wrong})"
            return mine.dumps(NotSent(why), None)

    return body


def show_figure(png: bytes, text: str) -> None:
    """Show a picture in the caller's notebook; `text` stands for it where no picture can be shown."""
    assert _channel is not None
    _channel.send(DISPLAY, ({"image/png": png, "text/plain": text}, {}, {}))


def _show_figures() -> None:
    """Show the figures of matplotlib that a call has left open."""
    figures = sys.modules.get("bsp.session.figures")  # matplotlib has imported it, if a process draws
    if figures is not None:
        try:
            figures.show()
        except Exception as wrong:  # noqa: BLE001 - a figure that cannot be drawn is no failure of the call
            print("a figure cannot be drawn:", *traceback.format_exception_only(wrong), file=sys.stderr)


def _answer(element: Element, verdict: Verdict) -> CallOutcome:
    """Return how a call has ended here."""
    return CallOutcome(
        {task.pid: task.result for task in element.tasks if task.raised is None},
        {task.pid: (task.raised_in, told(task.raised)) for task in element.tasks if task.raised is not None},
        None if verdict.failure is None else told(verdict.failure),
        verdict.status,
        -1 if verdict.culprit is None else verdict.culprit.pid,
        verdict.in_step,
        element.superstep,
    )
