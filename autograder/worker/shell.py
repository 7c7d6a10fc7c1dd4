"""IPython's shell without a kernel: outputs are kept, magics work, commands are not run."""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from .errors import message, trace
from .outputs import Outputs
from .stubs import not_run

SHELLS = ("bash", "cmd", "perl", "pypy", "python", "python2", "python3", "ruby", "script", "sh")
NOT_RUN = ("conda", "load_ext", "mamba", "micromamba", "pip", "uv")


class _Results(DisplayHook):  # type: ignore[misc]
    """The value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Notebooks number results themselves."""

    def write_format_data(self, data: Mapping[str, Any], metadata: Any = None) -> None:
        fields = {"data": data, "metadata": metadata or {}, "execution_count": self.prompt_count}
        self.shell.outputs.add("execute_result", **fields)

    def log_output(self, data: Mapping[str, Any]) -> None:
        """Not logged: the history would hold every picture until the end."""

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Displays(DisplayPublisher):  # type: ignore[misc]
    """What display() and plt.show() produce; later updates of a display are left out."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
        if not options.get("update"):
            self.shell.outputs.add("display_data", data=data, metadata=metadata or {})

    def clear_output(self, wait: bool = False) -> None:
        self.shell.outputs.clear()


class _Compiler(CachingCompiler):  # type: ignore[misc]
    """Names code after its cell, so that tracebacks say "<cell 3>"."""

    cell = 0

    def get_code_name(self, *_: Any) -> str:
        return f"<cell {self.cell}>"


class Shell(InteractiveShell):  # type: ignore[misc]
    """IPython whose output goes to `outputs`, and which runs no command of the system."""

    displayhook_class = _Results
    display_pub_class = _Displays
    compiler_class = _Compiler
    outputs = Outputs(0)

    def showtraceback(self, *args: Any, **options: Any) -> None:
        """Put the current exception into the outputs as plain text."""
        error = sys.exc_info()[1]
        if error is not None:
            text = "".join(traceback.format_exception(type(error), error, trace(error)))
            lines = text.encode("utf-8", "replace").decode().splitlines()
            name = type(error).__name__
            self.outputs.add("error", ename=name, evalue=message(error), traceback=lines)

    showsyntaxerror = showtraceback
    show_usage_error = showtraceback

    def system(self, cmd: str) -> None:
        """Note that `!cmd` is not run."""
        not_run(f"!{cmd}")

    def getoutput(self, cmd: str, *_: Any, **__: Any) -> list[str]:
        """Note that `x = !cmd` is not run; no lines."""
        not_run(f"!{cmd}")
        return []

    def enable_gui(self, gui: str | None = None) -> None:
        """There is none."""

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """Run a line magic; one that only some notebook service knows is noted."""
        if self.find_line_magic(magic_name) is None:
            return not_run(f"%{magic_name} {line}".strip())
        return super().run_line_magic(magic_name, line, _stack_depth=_stack_depth + 1)

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}  # IPython 9 calls str() of the exception here, which may be a student's

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        yield  # IPython 9 keeps a second, unbounded copy of all output here


def make_shell() -> Shell:
    """The one shell of this process; its namespace is the module `__main__`."""
    config = Config()
    config.HistoryManager.enabled = False
    shell: Shell = Shell.instance(config=config)
    shell.user_ns.update(exit=sys.exit, quit=sys.exit)
    for name in NOT_RUN:
        shell.register_magic_function(_stub(f"%{name}"), "line", name)
    for name in SHELLS:
        shell.register_magic_function(_stub(f"%%{name}"), "cell", name)
    shell.register_magic_function(lambda line: None, "line", "matplotlib")  # figures work without
    return shell


def _stub(name: str) -> Callable[..., None]:
    return lambda line, cell="": not_run(f"{name} {line}".strip())
