"""A small assignment with text, reference and bank, for the commands `audit` and `calibrate`.

Its bank has one of everything: mutants that fail what they should, something else, or nothing, a
right solution that fails, and a case that nothing fails.
"""

import yaml

from autograder import config, release
from tests.conftest import REPOSITORY

NAME = "mini"
TEXT = """# [=title]

```python setup
from torch import nn

from autograder.data import digits as load_digits
from autograder.training import Recipe, fit, seed_everything
```

```python
digits = load_digits()
```

<!-- question: size -->
## 1 · Size

```python solution=size
```

```python check=examples
output_size(function=size)
```

```python check=more
output_size(function=size)
```

<!-- question: training -->
## 2 · Training

```python
recipe = Recipe(epochs=1, batch_size=100, learning_rate=0.01, seed=[=seed], device="cpu")
```

```python solution=train body
```

```python check=score
accuracy(model=network)
```

```python check=trained
disjoint(history=history)
```
"""
REFERENCE = '''"""Reference."""

from torch import nn

from autograder.training import fit, seed_everything


def size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Output size."""
    # BEGIN SOLUTION
    return (size + 2 * padding - kernel) // stride + 1
    # END SOLUTION


def train(digits, recipe):
    """Train."""
    seed_everything(recipe.seed)
    # BEGIN SOLUTION
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    history = fit(network, digits.train, digits.validation, recipe)
    # END SOLUTION
    return network, history
'''
ASSIGNMENT = {
    "title": "Small", "seed": 5, "values": {},
    "questions": {
        "size": {
            "settings": {"name": "size", "rule": "convolution"},
            "checks": {
                "examples": {"check": "output_size", "points": 1, "cases": 3, "seed": 1},
                "more": {"check": "output_size", "points": 1, "cases": 40, "seed": 2,
                         "hidden": True},
            },
        },
        "training": {
            "settings": {"dataset": "digits", "split": "hidden"},
            "checks": {
                "score": {"check": "accuracy", "points": 1, "model_name": "network",
                          "smallest": 0.5, "hidden": True},
                "trained": {"check": "disjoint", "points": 1, "name": "history", "hidden": True},
            },
        },
    },
}  # fmt: skip
MADE = "size-answer-1"
BANK = {
    "mutants/without_plus_one": {
        "misconception": "Fence posts.", "fails": ["size.examples", "size.more"],
        "edits": {MADE: {" + 1": ""}},
    },
    "mutants/named_wrongly": {
        "misconception": "Padding once.", "fails": ["size.examples"],
        "edits": {MADE: {"2 * padding": "padding"}},
    },
    "mutants/none_at_all": {
        "misconception": "Another order.", "fails": ["size.more"],
        "edits": {MADE: {"size + 2 * padding": "2 * padding + size"}},
    },
    "mutants/untrained": {
        "misconception": "Another network than the one that was trained.",
        "fails": ["training.score"],
        "edits": {"training-answer-1": {
            "# END SOLUTION": "network = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))",
        }},
    },
    "variants/in_words": {
        "idea": "Floor of a division.", "edits": {MADE: {"// stride": "// int(stride)"}},
    },
    "variants/wrong_after_all": {
        "idea": "Not right.", "edits": {MADE: {" + 1": " + 2"}},
    },
    "variants/deeper": {
        "idea": "Two layers.",
        "edits": {"training-answer-1": {
            "nn.Linear(784, 10)": "nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 10)",
        }},
    },
}  # fmt: skip


def make(root):
    """The folder of all inputs, with the release built; gives the settings."""
    raw = yaml.safe_load((REPOSITORY / "grading.yml").read_text(encoding="utf-8"))
    raw.pop("shared", None)
    raw |= {"device": "cpu", "workers": 2, "assignments": {NAME: ASSIGNMENT}}
    raw["validity"] |= {"false_fail_probability": 0.05, "seeds": 6, "wrong": 5, "splits": 2}
    (root / "grading.yml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    for folder, ending, text in (("assignments", "md", TEXT), ("reference", "py", REFERENCE)):
        (root / folder).mkdir()
        (root / folder / f"{NAME}.{ending}").write_text(text, encoding="utf-8")
    for place, content in BANK.items():
        kind, name = place.split("/")
        folder = root / "tests" / kind / NAME
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    grading = config.load(root / "grading.yml")
    release.build(NAME, grading, root)
    return grading
