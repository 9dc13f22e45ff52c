"""The console of a job: element 0 prints the text of all processes, at the end of each superstep and in pid order."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bsp.engine.element import Element
    from bsp.hosts.lifeline import Lifeline


class OutputLost(OSError):
    """A result of a job could not be written: the job ends, by no mistake of the program or of this package.

    filename : "standard output", or the file or folder.
    """


def tell_failure(error: BaseException, lifeline: Lifeline | None) -> None:
    """Tell why the runtime ends this element: the loss of output in one line, all else with its traceback."""
    if not isinstance(error, OutputLost):
        traceback.print_exc()
        sys.stderr.flush()
        if lifeline is not None:
            lifeline.broke("by an error of nonstop-bsp itself, told above")
    elif lifeline is not None:
        lifeline.broke(f"by an error of {error.filename}: {error.strerror}")
    else:
        print(f"bsprun: error: {error.filename}: {error.strerror}", file=sys.stderr, flush=True)


class Console:
    """The output of an element: on element 0 the text of every process, on the others nothing.

    stream : where to; bytes are written unchanged where it takes bytes.
    """

    def __init__(self, element: Element, stream: Any) -> None:
        self._element = element
        self._stream = stream
        self._sent: dict[int, int] = {}  # bytes of each process's text that the superstep's packets have

    def texts_for_packets(self) -> list[tuple[int, bytes]]:
        """Return the texts that processes here printed, for element 0, which prints for all; element 0 returns none.

        The tasks keep their text until the superstep has ended: after a mismatch it still has to be printed.
        """
        if self._element.index == 0:
            return []
        texts = [
            (task.pid, task.text.getvalue())
            for task in self._element.tasks
            if task.text is not None and task.has_text()
        ]
        self._sent = {pid: len(text) for pid, text in texts}
        return texts

    def show(self, texts: list[tuple[int, bytes]]) -> None:
        """Print the text of one superstep in pid order, on element 0; elsewhere forget the text that has been sent.

        What threads and finalizers have printed since it was sent waits for the next superstep.
        """
        element = self._element
        if element.index:
            for task in element.tasks:
                if task.pid in self._sent:
                    task.take_text(self._sent[task.pid])
            self._sent = {}
            return
        texts += [(task.pid, task.take_text()) for task in element.tasks if task.has_text()]
        if texts:
            text = b"".join(text for _, text in sorted(texts))
            if element.progress is not None:
                element.progress.clear(text)
            try:
                self._write(text)
            except BrokenPipeError:  # the reader has closed the pipe: `bsprun ... | head` is no mistake
                self._stream = open(os.devnull, "w")  # noqa: SIM115
            except OSError as wrong:  # a full disk
                raise OutputLost(wrong.errno, wrong.strerror, "standard output") from wrong

    def _write(self, text: bytes) -> None:
        element, stream = self._element, self._stream
        if element.recovery is not None and not element.checking:
            element.recovery.lines(text)
            return
        with contextlib.suppress(AttributeError, ValueError):  # process 0 may have deleted or closed its own
            element.tasks[0].own.stdout.flush()  # type: ignore[union-attr]
        if stream.closed:  # in the interpreter of a caller whose sys.stdout process 0 has closed
            stream = sys.__stdout__
        if stream is None or stream.closed:
            return
        raw = stream if isinstance(stream, io.BufferedIOBase) else getattr(stream, "buffer", None)
        if raw is not None:
            raw.write(text)
        else:
            stream.write(text.decode(getattr(stream, "encoding", None) or "utf-8", "replace"))
        stream.flush()
