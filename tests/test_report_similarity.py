"""Similarity: copies are found however disguised; independent right solutions are not."""

import ast
import random
import subprocess
import sys

import nbformat
import pytest

from autograder import config
from autograder.master import Author
from autograder.report.similarity import places
from autograder.validity import bank
from tests.conftest import NAME, REPOSITORY

SETTINGS = config.load(REPOSITORY / "grading.yml").similarity

OURS = '''
class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 12, 7, stride=2)  # a comment
        self.second = nn.Conv2d(12, 24, 3, padding="same")
        self.last = nn.Linear(24 * 11 * 11, 10)

    def forward(self, images):
        """Logits."""
        seen = torch.tanh(self.first(images))
        seen = torch.tanh(self.second(seen)) + 0.1 * seen.mean(dim=1, keepdim=True)
        return self.last(seen.flatten(start_dim=1))

def average(values, weights=None):
    weights = [1.0] * len(values) if weights is None else weights
    return sum(w * v for w, v in zip(weights, values)) / max(sum(weights), 1e-9)

def curve(history, axes):
    steps = np.linspace(0, 1, len(history.train_loss))
    axes.semilogy(steps, [abs(loss) + 1e-12 for loss in history.train_loss], "k--", lw=0.5)
    axes.fill_between(steps, 0.1, 0.9, where=steps > 0.5, alpha=0.2)
    return max(history.validation_accuracy[-3:], default=None)
'''
THEIRS = """
def average(maps):
    rows, columns = maps.shape[-2:]
    total = 0
    for row in range(rows):
        for column in range(columns):
            total = total + maps[..., row, column]
    return total / (rows * columns)

class Net(nn.Sequential):
    def __init__(self, widths=(8, 16, 32)):
        blocks = [nn.Sequential(nn.Conv2d(a, b, 3), nn.BatchNorm2d(b)) for a, b in pairs(widths)]
        super().__init__(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(10))
"""


class Renamed(ast.NodeTransformer):
    """Other names for all variables and arguments that the code makes itself."""

    def __init__(self, tree):
        made = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
                and isinstance(n.ctx, ast.Store)]  # fmt: skip
        made += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg) and n.arg != "self"]
        self.names = {name: f"other_{name[::-1]}" for name in made}

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        return self.generic_visit(node)


def disguised(source):
    """With other names, quotes and line breaks, and without comments; the same if not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    return "# my own work\n" + ast.unparse(Renamed(tree).visit(tree)).replace("\n", "\n\n")


def found(codes, known=(), settings=SETTINGS):
    return [(p.first, p.second) for p in places(codes, known, settings)]


# The golden bank: right solutions as edits of the reference.


def cells(grading):
    """The reference's answer cells by their short ids."""
    made, counts = {}, {}
    for cell in Author(NAME, grading, REPOSITORY).notebook().cells:
        if cell.metadata.get("autograder", {}).get("role") == "answer":
            question = cell.metadata.autograder.question
            counts[question] = counts.get(question, 0) + 1
            made[f"{question}-answer-{counts[question]}"] = cell.source
    return made


def stubs(names):
    path = REPOSITORY / "student" / NAME / f"{NAME}.ipynb"
    given = {c.id.removeprefix(f"{NAME}-"): c.source for c in nbformat.read(path, 4).cells}
    return "\n\n".join(given[name] for name in names)


@pytest.fixture(scope="module")
def golden(grading):
    """The reference's cells, for each cell other right answers, and what is known to all."""
    reference = cells(grading)
    others = {name: [] for name in reference}
    for entry in bank.load(REPOSITORY / "tests", NAME):
        if entry.kind == "variants":
            for name in {*entry.answers, *entry.edits} & {*reference}:
                source = entry.answers.get(name, reference[name])
                for old, new in entry.edits.get(name, {}).items():
                    source = source.replace(old, new)
                others[name].append((entry.name, source))
    return reference, others, [stubs(reference), "\n\n".join(reference.values())]


def test_the_banks_solutions_are_no_places(golden):
    """Each is the reference with something of its own, which is little."""
    reference, others, known = golden
    codes = {}
    for name, answers in others.items():
        for entry, source in answers:
            codes.setdefault(entry, dict(reference))[name] = source
    assert len(codes) > 30
    assert found({n: "\n\n".join(made.values()) for n, made in codes.items()}, known) == []


def pairs(golden, count=40):
    """Two right solutions that share nothing but the reference's answers, where those are two."""
    reference, others, _ = golden
    draw = random.Random(7)
    for _ in range(count):
        both = [dict(reference), dict(reference)]
        for name, answers in others.items():
            if answers:
                chosen = draw.sample([("reference", reference[name]), *answers], 2)
                for made, (_, source) in zip(both, chosen, strict=True):
                    made[name] = source
        yield tuple(list(made.values()) for made in both)


def test_independent_right_solutions_are_no_places(golden):
    for one, other in pairs(golden):
        assert found({"a": "\n\n".join(one), "b": "\n\n".join(other)}, golden[2]) == []


def test_disguised_copies_of_whole_solutions_are_places(golden):
    caught = total = 0
    for one, _ in pairs(golden):
        copy = "\n\n".join(map(disguised, one))
        caught += bool(found({"a": "\n\n".join(one), "b": copy}, golden[2]))
        total += 1
    assert caught >= 0.9 * total  # 48 of 50 when the settings were chosen


def test_the_reference_itself_is_no_place(golden):
    text = golden[2][1]
    assert found({"a": text, "b": text, "c": disguised(text), "d": golden[2][0]}, golden[2]) == []


# What counts as the same.


@pytest.mark.parametrize(
    "copy",
    [
        OURS,
        disguised(OURS),
        OURS.replace('"', "'").replace("'''", '"""'),
        OURS.replace("    ", "\t").replace("\n", "\r\n\r\n"),
        "\n".join(f"{line}  # note" if line else "" for line in OURS.split("\n")),
        OURS.replace("images", "zahlen_ü"),
        OURS + THEIRS,
        THEIRS + OURS,
    ],
    ids=["equal", "disguised", "quotes", "space", "comments", "unicode", "before", "after"],
)
def test_a_copy_is_found(copy):
    (place,) = places({"b": copy, "a": OURS, "c": THEIRS.replace("maps", "x")}, [], SETTINGS)[:1]
    assert (place.first, place.second) == ("a", "b")
    assert place.share > 0.9


def test_independent_code_is_not_found():
    assert found({"a": OURS, "b": THEIRS}) == []


def test_what_is_known_says_nothing():
    assert found({"a": OURS, "b": OURS}, [THEIRS, OURS]) == []
    assert found({"a": OURS, "b": disguised(OURS)}, [OURS]) == []


def test_known_code_that_stands_several_times_is_left_out_everywhere():
    assert found({"a": OURS * 3, "b": f"{OURS}\n{OURS}"}, [f"{OURS}\n{OURS}"]) == []


def test_excerpts_are_the_common_lines_of_each():
    (place,) = places({"a": THEIRS + OURS, "b": disguised(OURS)}, [], SETTINGS)
    first, second = ("\n".join(lines) for lines in place.lines)
    assert "self.second = nn.Conv2d(12, 24, 3" in first
    assert "other_" in second
    assert "LazyLinear" not in first
    assert all(line in THEIRS + OURS for line in first.split("\n"))


def test_excerpts_begin_and_end_with_lines_of_ones_own():
    template = "class CNN(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    (place,) = places({"a": OURS, "b": OURS}, [template], SETTINGS)
    first = place.lines[0][0]
    assert first.startswith("        self.first = nn.Conv2d(1, 12, 7")
    assert "def forward(self, images):" in first


def test_a_long_class_name_does_not_misplace_excerpts():
    """Whichever part of its line is known; copydetect's own offset there is too small."""
    head = "".join(f"variable_{n} = {n} + {n}\n" for n in range(60))
    code = OURS.strip().replace("CNN", "C" * 20)
    for cut in range(20, 110):
        known = f"{head.replace('variable', 'v')}{code[:cut]}"
        (place,) = places({"a": head + code, "b": head + code}, [known], SETTINGS)
        assert "variable_50 =" not in "".join(place.lines[0]), cut


def test_equal_code_is_told_however_short_it_is():
    short = "def odd(n):\n    return n & 1 == 1 and n > 0"
    assert found({"a": short, "b": short, "c": disguised(short)}) == [("a", "b")]


def test_many_copies_are_a_chain_and_not_all_pairs():
    codes = {f"s{n:02}": OURS if n % 2 else disguised(OURS) for n in range(30)}
    seen = found(codes, settings=SETTINGS.model_copy(update={"most": 1000}))
    assert len(seen) == 29


def test_what_many_students_have_is_common():
    """As MOSS leaves out passages that too many share."""
    few = {f"s{n}": f"{OURS}\nanswer_{n} = {n}{n}{n} * [{n}] + list(range({n}, {n}0))"
           for n in range(1, 5)}  # fmt: skip
    assert len(found(few)) == 6
    assert found(few, settings=SETTINGS.model_copy(update={"common": 3})) == []


def test_the_strongest_come_first_and_no_more_than_asked():
    codes = {"a": OURS, "b": OURS + THEIRS, "c": OURS + "\nx = 1", "d": THEIRS + "\ny = 2"}
    every = places(codes, [], SETTINGS)
    assert [p.share for p in every] == sorted((p.share for p in every), reverse=True)
    assert len(every) > 2
    assert places(codes, [], SETTINGS.model_copy(update={"most": 2})) == every[:2]


# Any text.


HOSTILE = [
    "", " ", "\n" * 9, "\0" * 9, "def (", '"""', "'" * 99, "\ufeffx = 1", "é\u2028ü\x0b", "\ud800",
    "\\\n" * 99, "%matplotlib inline\n!pip install x", "(" * 99, "f'{" * 99, "\U0001d4b3 = 1",
]  # fmt: skip


def test_text_that_is_no_python_breaks_nothing():
    codes = {f"h{n}": text for n, text in enumerate(HOSTILE)}
    codes |= {f"g{n}": text + OURS for n, text in enumerate(HOSTILE)}
    places(codes, HOSTILE, SETTINGS)
    assert found(codes)


@pytest.mark.parametrize("text", [" \n", "\n ", "x", '"', "(", "\0", " \u2028"])
def test_code_is_read_up_to_a_limit_alone(text):
    """Fifty million characters; Pygments would take hours for some of these."""
    huge = text * (50_000_000 // len(text))
    assert places({"a": huge + OURS, "b": OURS + huge, "c": OURS}, [], SETTINGS)[0].first == "b"


@pytest.mark.parametrize("codes", [{}, {"a": OURS}])
def test_nobody_to_compare_with(codes):
    assert places(codes, [OURS], SETTINGS) == []


def test_another_process_finds_the_same():
    """Python's hashes of text differ from process to process."""
    script = (
        "import sys; from autograder.report.similarity import *; from autograder import config;"
        "settings = config.load(config.Path('grading.yml')).similarity;"
        "codes = dict(zip('abc', sys.argv[1:]));"
        "print(places(codes, [], settings.model_copy(update={'least': 100, 'share': 0.1})))"
    )
    codes = [OURS, THEIRS + disguised(OURS), OURS[:700] + THEIRS]
    told = [
        subprocess.run(
            [sys.executable, "-c", script, *codes], cwd=REPOSITORY, capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)},
        ).stdout
        for seed in "12"
    ]  # fmt: skip
    assert told[0].startswith(b"[Place(")
    assert told[0] == told[1]
