"""Mutations of answers: what stands where afterwards, and that nothing else is changed."""

import ast
from collections import Counter

import pytest

from autograder import config
from autograder.master import Author
from autograder.validity.cell import SHOWN
from autograder.validity.operators import OPERATORS, mutations
from tests.conftest import NAMES, REPOSITORY


def solution(code):
    return f"# BEGIN SOLUTION\n{code}\n# END SOLUTION"


def mutated(operator, code):
    """The code after each mutation by an operator, without the markers around it."""
    return [
        m.source.removeprefix("# BEGIN SOLUTION\n").removesuffix("\n# END SOLUTION")
        for m in mutations(solution(code))
        if m.operator == operator
    ]


EXPECTED = [
    ("drop_layer", "n = nn.Sequential(nn.Linear(2, 3), nn.ReLU())",
     ["n = nn.Sequential(nn.ReLU())"]),
    ("drop_layer", "n = nn.Sequential(nn.ReLU(), nn.Flatten())", ["n = nn.Sequential(nn.ReLU())"]),
    ("drop_layer", "n = nn.Sequential(nn.Flatten())", ["n = nn.Sequential()"]),
    (
        "drop_layer",
        "def forward(self, x):\n    x = self.a(self.b(x))\n    s, _ = self.rnn(x)\n    return s",
        [
            "def forward(self, x):\n    x = self.b(x)\n    s, _ = self.rnn(x)\n    return s",
            "def forward(self, x):\n    x = self.a(x)\n    s, _ = self.rnn(x)\n    return s",
        ],
    ),
    ("drop_layer", "y = F.pad(x, (1, 1))", ["y = x"]),
    ("drop_layer", "def __init__(self):\n    self.register_buffer('a', b)", []),
    ("remove_activation", "n = nn.Sequential(nn.Linear(2, 3), nn.ReLU())",
     ["n = nn.Sequential(nn.Linear(2, 3))"]),
    ("remove_activation", "y = torch.sigmoid(a + b) * c", ["y = (a + b) * c"]),
    ("remove_activation", "y = F.softmax(f(x), dim=1)", ["y = f(x)"]),
    ("remove_activation", "y = (a + b).tanh()", ["y = (a + b)"]),
    ("remove_activation", "y = self.relu(x)", ["y = x"]),
    ("swap_layers", "n = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))",
     ["n = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(2, 3))",
      "n = nn.Sequential(nn.ReLU(), nn.Linear(2, 3), nn.Flatten())"]),
    ("swap_layers", "for x in y:\n  x = f(x)  # one\n  x = g(x)  # two\n  y = h(x)",
     ["for x in y:\n  x = g(x)  # one\n  x = f(x)  # two\n  y = h(x)"]),
    ("constant", "y = f(3, 0, -1, 0.5, 0.0)",
     ["y = f(4, 0, -1, 0.5, 0.0)", "y = f(3, 1, -1, 0.5, 0.0)", "y = f(3, 0, 0, 0.5, 0.0)",
      "y = f(3, 0, -1, 1.0, 0.0)", "y = f(3, 0, -1, 0.5, 1.0)"]),
    ("constant", "y = f(x, keepdim=True)", ["y = f(x, keepdim=False)"]),
    ("constant", "y = x.mean(dim=1)[2]", []),
    ("constant", "y = x < 1e-9 if x == 0 else z", ["y = x < 1e-9 if x == 1 else z"]),
    ("off_by_one", "y = x[:, -1]", ["y = x[:, -2]", "y = x[:, 0]"]),
    ("off_by_one", "y = x[t + 1 :]", ["y = x[t + 0 :]", "y = x[t + 2 :]"]),
    ("off_by_one", "y = x[t + 0]", ["y = x[t + (-1)]", "y = x[t + 1]"]),
    ("off_by_one", "y = range(1, n)", ["y = range(0, n)", "y = range(2, n)"]),
    ("off_by_one", "y = x[:n][f(2)]", []),
    ("wrong_dimension", "y = x.sum(dim=0) + x.mean(2)",
     ["y = x.sum(dim=1) + x.mean(2)", "y = x.sum(dim=0) + x.mean(1)"]),
    ("wrong_dimension", "y = x.amax(dim=(2, 3))", ["y = x.amax(dim=(1, 3))"]),
    ("wrong_dimension", "y = torch.softmax(x, -1)", ["y = torch.softmax(x, -2)"]),
    ("wrong_dimension", "y = x.chunk(4, 1)", ["y = x.chunk(4, 0)"]),
    ("wrong_dimension", "y = (a + b).T @ w.mT", ["y = (a + b) @ w.mT", "y = (a + b).T @ w"]),
    ("wrong_dimension", "y = x.transpose(1, 2)", ["y = x.transpose(0, 2)", "y = x"]),
    ("detach", "def f(x: Tensor) -> Tensor:\n    return x + 1",
     ["def f(x: Tensor) -> Tensor:\n    return (x + 1).detach()"]),
    ("detach", "def f(n: int) -> Tensor:\n    return g(n)", []),
    ("detach", "def f(x: Tensor) -> float:\n    return g(x)", []),
    ("detach", "def forward(self, x: Tensor) -> Tensor:\n    y = self.a(x)\n    return y",
     ["def forward(self, x: Tensor) -> Tensor:\n    y = self.a(x).detach()\n    return y"]),
    ("freeze", "def __init__(self):\n    self.a = nn.Linear(2, 3)  # layer\n    self.n = 3",
     ["def __init__(self):\n    self.a = nn.Linear(2, 3)  # layer\n"
      "    self.a.requires_grad_(False)\n    self.n = 3"]),
    ("operator", "y = a + b * c", ["y = a - b * c", "y = a + b / c"]),
    ("operator", "y = (a +  # + is right\n     b) // c",
     ["y = (a +  # + is right\n     b) / c", "y = (a -  # + is right\n     b) // c"]),
    ("operator", "y = (a  # + is right\n     + b)", ["y = (a  # + is right\n     - b)"]),
    ("operator", "y = a @ b @ c", ["y = c @ (a @ b)", "y = b @ a @ c"]),
    ("operator", "y = not a and b <= c", ["y = not a or b <= c", "y = a and b <= c",
                                          "y = not a and b < c"]),
    ("operator", "y -= x if a is not b else -z", ["y += x if a is not b else -z",
                                                  "y -= x if a is b else -z",
                                                  "y -= x if a is not b else z"]),
    ("operator", "y = f'{a + 1}' + b", ["y = f'{a + 1}' - b"]),
    ("operator", "y = set(a + b)", ["y = set(a - b)"]),
    ("operator", "y = [a] + b", []),
    ("operator", "y = x < 1e-9", []),
    ("drop_statement", "optimizer.step()", ["pass"]),
    ("drop_statement", "x += 1\nx[0] = y\nx = y", ["pass\nx[0] = y\nx = y", "x += 1\npass\nx = y"]),
    ("drop_argument", "y = f(x, a=1, b=c, d=True)", ["y = f(x, b=c, d=True)",
                                                     "y = f(x, a=1, d=True)"]),
    ("drop_argument", "y = f(x, a=1)", ["y = f(x)"]),
    ("drop_argument", "y = f(a=1)", ["y = f()"]),
    ("drop_condition", "y = [x for x in z if (x and\n a) if b]",
     ["y = [x for x in z if (True) if b]", "y = [x for x in z if (x and\n a) if True]"]),
    ("drop_condition", "y = sum(x for x in z if x > 0)", ["y = sum(x for x in z if True)"]),
    ("drop_condition", "y = [x for x in z]", []),
    ("drop_call", "y = (a - b).abs().max()", ["y = (a - b).abs()", "y = (a - b).max()"]),
    ("drop_call", "y = x.flatten(1) + x.mean(dim=1, keepdim=True)",
     ["y = x + x.mean(dim=1, keepdim=True)", "y = x.flatten(1) + x"]),
    ("drop_call", "y = x.triu(diagonal=1)", ["y = x"]),
    ("drop_call", "y = x.transpose(1, 2) + x.gather(1, i) + x.chunk(2, 1)", []),
    ("drop_call", "y = torch.sum(x) + torch.stack(x, dim=1) + self.flatten(x)", []),
    ("drop_call", "y = x.float().clone().item() + nn.ReLU() + random.Random()", []),
    ("drop_call", "y = x.sigmoid()", []),  # remove_activation
    ("negate_condition", "if a and b:\n    y = c if d else e\nelif f(a):\n    y = g",
     ["if not (a and b):\n    y = c if d else e\nelif f(a):\n    y = g",
      "if a and b:\n    y = c if not d else e\nelif f(a):\n    y = g",
      "if a and b:\n    y = c if d else e\nelif not f(a):\n    y = g"]),
    ("negate_condition", "y = a if b < c else d if x in e else f",
     ["y = a if not (b < c) else d if x in e else f",
      "y = a if b < c else d if not (x in e) else f"]),
    ("negate_condition", "y = a if b == c == d else e", ["y = a if not (b == c == d) else e"]),
    ("negate_condition", "y = a if b == 0.5 else c", ["y = a if not (b == 0.5) else c"]),
    ("negate_condition", "if not a:\n    y = b if c is None else d if e != f else g", []),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "code", "expected"), EXPECTED)
def test_what_an_operator_makes_of_a_line(operator, code, expected):
    assert sorted(mutated(operator, code)) == sorted(expected)


def test_every_operator_has_an_example():
    assert {operator for operator, _, expected in EXPECTED if expected} == set(OPERATORS)


def test_comments_of_a_removed_layer_and_its_neighbours_stay():
    code = "n = nn.Sequential(\n    nn.Flatten(),  # (B, 4)\n    nn.Linear(4, 2),  # (B, 2)\n)"
    first, last = mutated("drop_layer", code)
    assert first == "n = nn.Sequential(\n    # (B, 4)\n    nn.Linear(4, 2),  # (B, 2)\n)"
    assert last == "n = nn.Sequential(\n    nn.Flatten(),  # (B, 4)\n    # (B, 2)\n)"


def test_letters_of_several_bytes_before_the_place():
    assert mutated("operator", 'σ, š = "∑ 𝜎", µ + λ  # ≤') == ['σ, š = "∑ 𝜎", µ - λ  # ≤']


def test_only_lines_of_the_solution_are_changed():
    source = (
        "a = 1\n# BEGIN SOLUTION\nb = 2\n# END SOLUTION\nc = 3\n"
        "d = 4  # SOLUTION\ne = 5  # SOLUTION # noqa: F841 - drawn\nf = 6  # a SOLUTION of theirs"
    )
    changed = [m.source for m in mutations(source)]
    assert changed == [
        source.replace("b = 2", "b = 3"),
        source.replace("d = 4", "d = 5"),
        source.replace("e = 5", "e = 6"),
    ]


def test_a_node_that_is_only_partly_solution_stays():
    source = "if y:\n    # BEGIN SOLUTION\n    x = f(x)\n    # END SOLUTION\n    x = g(x)"
    assert [m for m in mutations(source) if m.operator == "swap_layers"] == []


def test_a_cell_without_a_marker_has_no_mutations():
    assert mutations("y = x[0] + 1\noptimizer.step()") == []


@pytest.mark.parametrize(
    "code",
    [
        'def f(x: dict[str, 3]) -> T[0]:\n    """Add 1 + 1."""',
        "x: T[0] = y",
        "assert x[0] == 1",
        "axes.plot(x[0], y + 1, lw=2)",
        "axes.set_xlabel(f'{x + 1}')\naxes.set(title='a', xlim=(0, 1))",
        "for a in zip(b, c, strict=True):\n    continue",
        "name = f'bias {k + 1}' 'x'",
    ],
)
def test_what_no_grading_sees_is_left_alone(code):
    assert mutations(solution(code)) == []


def test_names_show_the_context_and_count_what_looks_the_same():
    names = [
        m.name for m in mutations(solution("y = g(2), g(2)\nz = h(\n    x,  # in\n    k=x,\n)"))
    ]
    assert names == [
        "constant: g(2) -> g(3)",
        "constant: g(2) -> g(3) [2]",
        "drop_argument: h(x, k=x) -> h(x)",
    ]


def test_a_removed_layer_is_called_gone():
    # removing the other one gives the same code, as does their swap
    (mutation,) = mutations(solution("n = nn.Sequential(nn.Tanh(), nn.Tanh())"))
    assert (mutation.old, mutation.new, mutation.number) == ("nn.Tanh()", "", 1)
    assert mutation.name == "remove_activation: nn.Tanh() -> (gone)"


def test_long_code_is_shortened_in_the_middle():
    inner = " + ".join(f"variable_{letter}" for letter in "abcdefghij")
    (mutation,) = [
        m for m in mutations(solution(f"y = tanh({inner})")) if m.operator == "remove_activation"
    ]
    assert mutation.old.startswith("tanh(variable_a + ")
    assert " … " in mutation.old
    assert mutation.old.endswith("variable_j)")
    assert SHOWN - 5 < len(mutation.old) <= SHOWN


def answers(name):
    """Sources of the answer cells of an assignment's master notebook."""
    grading = config.load(REPOSITORY / "grading.yml")
    cells = Author(name, grading, REPOSITORY).notebook().cells
    return [
        cell.source
        for cell in cells
        if cell.cell_type == "code" and cell.metadata.autograder.role == "answer"
    ]


def outside(source):
    """The lines before the first and after the last marked ones, by an own reading of markers."""
    lines = source.split("\n")
    marked = [n for n, line in enumerate(lines) if "# BEGIN SOL" in line or "# END SOL" in line]
    marked += [n for n, line in enumerate(lines) if "# SOLUTION" in line]
    return lines[: min(marked)], lines[max(marked) + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_all_mutations_of_an_assignment_are_new_python_in_the_solution(name):
    total = Counter()
    for source in answers(name):
        found = mutations(source)
        codes = [ast.dump(ast.parse(m.source)) for m in found]
        assert len({ast.dump(ast.parse(source)), *codes}) == len(found) + 1
        assert len({m.name for m in found}) == len(found)
        for mutation in found:
            assert outside(mutation.source) == outside(source)
            assert mutation.old != mutation.new
            assert max(len(mutation.old), len(mutation.new)) <= SHOWN
            assert mutation.source.count("#") == source.count("#")
        total.update(m.operator for m in found)
    assert 40 <= total.total() <= 200
    assert len(total) >= 8
