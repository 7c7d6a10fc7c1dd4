"""A tiny assignment for hostile inputs, its release, and an inbox made of them."""

from pathlib import Path

import nbformat
import yaml

from autograder import config, release
from tests.conftest import REPOSITORY
from tests.hostile.inputs import INPUTS, SIMPLE_CNN

NAME = "tiny"
QUESTIONS = ("before", "attacked", "model", "after")
TEXT = """# [=title]

Text.

```python setup
import torch
from torch import nn
```
"""
QUESTION = """
<!-- question: {name} -->
## {name}

Do it.

```python solution={function}
```

```python check={case}
{check}({argument}={function})
```
"""
REFERENCE = '''"""Solutions."""

import torch
from torch import nn


def conv_output_size(size, kernel, stride=1, padding=0):
    """Size."""
    # BEGIN SOLUTION
    return (size + 2 * padding - kernel) // stride + 1
    # END SOLUTION


def pool_output_size(size, kernel, stride=None, padding=0):
    """Size."""
    # BEGIN SOLUTION
    return (size + 2 * padding - kernel) // (stride or kernel) + 1
    # END SOLUTION


class CNN(nn.Module):
    """Model."""

    # BEGIN SOLUTION
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

    def forward(self, images):
        return self.layers(images)
    # END SOLUTION


def global_average_pool(maps):
    """Mean."""
    # BEGIN SOLUTION
    return maps.mean(dim=(2, 3))
    # END SOLUTION
'''
LIMITS = {
    "cell_s": 5.0, "notebook_s": 60.0, "grace_s": 0.5, "memory_mib": 1200, "file_mib": 64,
    "disk_mib": 256, "files": 2000, "open_files": 1024, "output_kib": 64, "processes": 30,
}  # fmt: skip
CHECKS = {
    "before": {"case": "sizes", "check": "output_size", "rule": "convolution", "cases": 5},
    "attacked": {"case": "sizes", "check": "output_size", "rule": "pooling", "cases": 5},
    "model": {"case": "budget", "check": "parameter_budget", "smallest": 1000, "largest": 9000,
              "input_shape": [1, 28, 28]},
    "after": {"case": "means", "check": "global_pool", "shapes": [[2, 3, 4, 5]], "tolerance": 1e-5},
}  # fmt: skip
FUNCTIONS = {
    "before": ("conv_output_size", "function"), "attacked": ("pool_output_size", "function"),
    "model": ("CNN", "model"), "after": ("global_average_pool", "function"),
}  # fmt: skip


def build(root: Path) -> None:
    """Write the assignment into `root`, and make its release there."""
    (root / "assignments").mkdir()
    (root / "reference").mkdir()
    (root / "reference" / "__init__.py").write_text('"""References."""\n')
    (root / "reference" / f"{NAME}.py").write_text(REFERENCE)
    text, questions = TEXT, {}
    for name, entry in CHECKS.items():
        function, argument = FUNCTIONS[name]
        settings = {k: v for k, v in entry.items() if k not in ("case", "check")}
        text += QUESTION.format(
            name=name,
            function=function,
            argument=argument,
            case=entry["case"],
            check=entry["check"],
        )
        check = {"check": entry["check"], "points": 1, "seed": 1, "name": function, **settings}
        questions[name] = {"checks": {entry["case"]: check}}
    (root / "assignments" / f"{NAME}.md").write_text(text)
    settings = yaml.safe_load((REPOSITORY / "grading.yml").read_text())
    settings["limits"] |= LIMITS
    settings["device"] = "cpu"
    settings["assignments"] = {
        NAME: {"title": "Tiny", "seed": 1, "values": {}, "questions": questions}
    }
    (root / "grading.yml").write_text(yaml.safe_dump(settings))
    release.build(NAME, config.load(root / "grading.yml"), root)


def fill(root: Path, inbox: Path, port: int) -> None:
    """One notebook for each input; `port` is one where somebody listens."""
    inbox.mkdir()
    solved = nbformat.read(root / "dist" / NAME / "autograder" / f"{NAME}.ipynb", as_version=4)
    (cell,) = [c for c in solved.cells if c.id == f"{NAME}-attacked-answer-1"]
    (model,) = [c for c in solved.cells if c.id == f"{NAME}-model-answer-1"]
    honest = model.source
    for number, entry in enumerate(INPUTS.values()):
        cell.source = entry.cell.replace("PORT", str(port))
        model.source = SIMPLE_CNN % (500, 500) if "BIG" in entry.cell else honest
        nbformat.write(solved, inbox / f"s{number}.ipynb")
