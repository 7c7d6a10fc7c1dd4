"""Errors of student code in words, and where in the notebook they come from."""

import traceback
import types

from .limit import TimeLimitReached


def describe(error: BaseException | None) -> str | None:
    """An exception as "NameError: name 'x' is not defined"; None for none."""
    if error is None:
        return None
    if isinstance(error, TimeLimitReached):
        return message(error)
    return f"{type(error).__name__}: {message(error)}"[:2000].removesuffix(": ")


def message(error: BaseException) -> str:
    """The exception's own words, at most 2000 characters."""
    try:
        return str(error)[:2000]
    except Exception:  # the exception may be of the student's own class
        return "(its message can't be shown)"


def failing_line(error: BaseException | None) -> str | None:
    """The innermost line of a notebook cell that the exception went through."""
    if isinstance(error, SyntaxError):
        return (error.text or "").strip() or None
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.line for frame in frames if _in_cell(frame.filename)]
    return lines[-1] or None if lines else None


def trace(error: BaseException) -> types.TracebackType | None:
    """The traceback from the first line of the notebook on."""
    found = error.__traceback__
    while found is not None and not _in_cell(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found


def _in_cell(filename: str) -> bool:
    return filename.startswith(("<cell ", "<timed "))
