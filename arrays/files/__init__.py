"""Arrays and tables in files, each process reading and writing its own part.

To add a format, call `register` in a module here or anywhere else.  A reader or writer is a procedure that all
processes call.  `agreed` runs each process's part and raises an error of one process on all; `replaced` and
`written_in_parts` write a file that replaces the old one when all is written.  A table's reader is a class with the
attributes of `TableRows`; `Columns` holds the columns that it reads, `Codes` numbers their texts.
"""

from bsp.arrays.files.agreement import Held, agreed, needed, replaced, same_everywhere, written_in_parts
from bsp.arrays.files.columns import CHUNK_ROWS, Chunk, Codes, Columns
from bsp.arrays.files.csv import TextRows
from bsp.arrays.files.format import FORMATS, Choose, Format, Table, TableRows, register
from bsp.arrays.files.formats import load, save, table_of
from bsp.arrays.files.lines.dialect import Dialect
from bsp.arrays.files.lines.fields import is_number
from bsp.arrays.typing import PathLike

__all__ = [
    "CHUNK_ROWS", "FORMATS", "Choose", "Chunk", "Codes", "Columns", "Dialect", "Format", "Held", "PathLike", "Table",
    "TableRows", "TextRows", "agreed", "is_number", "load", "needed", "register", "replaced", "same_everywhere",
    "save", "table_of", "written_in_parts",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
