"""The dependency rule of ARCHITECTURE.md, held against the import statements."""

import ast
from pathlib import Path

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "autograder"
STUDENTS = {"checks", "data", "training"}
# Who may import whom; `checks`, `data` and `training` are open to all but the worker.
ALLOWED = {
    "__init__": set(),
    "cli": {
        "commands",
        "config",
        "grade",
        "gradebook",
        "intake",
        "publish",
        "release",
        "report",
        "sandbox",
        "text",
        "validity",
    },
    "commands": {
        "config",
        "crews",
        "grade",
        "gradebook",
        "identity",
        "intake",
        "judge",
        "publish",
        "release",
        "report",
        "results",
    },
    "crews": {"cluster", "config", "grade"},
    "cluster": {"config", "grade", "sandbox"},
    "publish": {
        "config",
        "gradebook",
        "identity",
        "intake",
        "measured",
        "policy",
        "report",
        "results",
        "validity",
    },
    "results": {"config", "grade", "gradebook", "measured", "policy", "report"},
    "validity": {
        "config",
        "grade",
        "gradebook",
        "intake",
        "judge",
        "master",
        "measured",
        "release",
        "report",
    },
    "grade": {"config", "gradebook", "identity", "intake", "judge", "notebook", "sandbox"},
    "report": {
        "config",
        "gradebook",
        "judge",
        "ledger",
        "measured",
        "notebook",
        "policy",
        "report",
    },
    "measured": {"config", "judge"},
    "policy": {"config", "gradebook", "ledger"},
    "ledger": {"storage"},
    "release": {"config", "identity", "master", "text"},
    "master": {"config", "judge", "submit", "text"},
    "submit": set(),
    "text": {"config"},
    "intake": {"notebook", "restore"},
    "restore": {"align", "notebook"},
    "notebook": set(),
    "align": set(),
    "gradebook": {"judge", "ledger", "storage"},
    "storage": set(),
    "judge": {"config", "identity"},
    "identity": {"config"},
    "sandbox": {"sandbox"},
    "worker": {"worker", "checks"},  # those of the release that the student had
    "config": set(),
    "checks": set(),
    "data": set(),
    "training": set(),
}


def unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    names = {name for name in imports(path) if name.split(".")[0] == "autograder"}
    return {name.split(".")[1] for name in names if "." in name}


FILES = [p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts]


def test_every_module_imports_only_what_it_may():
    for path in FILES:
        name = unit(path)
        allowed = ALLOWED[name] | {name} | (STUDENTS if name != "worker" else set())
        if name in ("checks", "data", "training"):
            allowed = STUDENTS
        assert ours(path) <= allowed, f"{path} imports {ours(path) - allowed}"


def test_the_students_package_needs_nothing_that_students_do_not_have():
    given = {
        "torch",
        "torchvision",
        "torchsummary",
        "numpy",
        "matplotlib",
        "tqdm",
        "IPython",
        "otter",
        "safetensors",  # where training: checkpoint
    }
    for path in (p for p in FILES if unit(p) in STUDENTS and not p.name.startswith("make_")):
        others = {n.split(".")[0] for n in imports(path)} - given - {"autograder"}
        assert others <= set(__import__("sys").stdlib_module_names), (path, others)


def test_only_the_worker_uses_otters_internals():
    """And the table of results, which shows Otter's result object."""
    users = {unit(p) for p in FILES if any(n.split(".")[0] == "otter" for n in imports(p))}
    assert users <= {"worker", "checks"}
    inside = [
        p.name for p in FILES if unit(p) == "checks" and "otter.test_files" in str(imports(p))
    ]
    assert sorted(inside) == ["display.py", "overview.py"]


def test_nothing_is_unpickled():
    for path in FILES:
        modules = {name.split(".")[0] for name in imports(path)}
        assert not modules & {
            "pickle",
            "cPickle",
            "dill",
            "cloudpickle",
            "joblib",
            "marshal",
            "shelve",
        }
        source = path.read_text(encoding="utf-8")
        for word in ("torch.load(", "allow_pickle=True", "read_pickle"):
            assert word not in source, (path, word)


def test_the_dependency_table_has_no_cycle_and_no_dead_row():
    assert set(ALLOWED) == {unit(p) for p in FILES}

    def reach(name, seen=()):
        assert name not in seen, f"cycle: {seen} {name}"
        for other in ALLOWED[name] - {name}:
            reach(other, (*seen, name))

    for name in ALLOWED:
        reach(name)
