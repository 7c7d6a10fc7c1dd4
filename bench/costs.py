"""What grading cost, compared: with `otter run`, and with what the submissions need anyway."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

OTTER, OURS = "otter run", "autograder"
HEAD = (
    "submissions", "graded by", "processes", "s each", "CPU s each", "times otter's speed",
    "s each above the floor", "times the floor",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What grading `count` submissions with so many processes took, in seconds altogether."""

    grader: str
    processes: int
    count: int
    wall_s: float
    cpu_s: float

    @property
    def each_s(self) -> float:
        """Wall time for one submission."""
        return self.wall_s / self.count

    def faster(self, other: "Cost") -> float:
        """How many times the speed of another grader this is."""
        return other.each_s / self.each_s


@dataclass(frozen=True)
class Comparison:
    """The same submissions through both graders.

    Attributes:
        costs: one for each grader and number of processes.
        own_s: CPU seconds of one submission's own cells and tests.
        cores: of this machine.
    """

    name: str
    costs: tuple[Cost, ...]
    own_s: float
    cores: int

    def floor_s(self, cost: Cost) -> float:
        """The least wall time for one submission: its own CPU time, shared by the cores in use."""
        return self.own_s / min(cost.processes, self.cores)

    @property
    def alone_s(self) -> float:
        """Wall time for one submission with one process of ours."""
        return next(c.each_s for c in self.costs if (c.grader, c.processes) == (OURS, 1))

    def otter(self, cost: Cost) -> Cost:
        """What `otter run` cost with as many processes."""
        return next(c for c in self.costs if (c.grader, c.processes) == (OTTER, cost.processes))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of the table."""
        for cost in self.costs:
            floor = self.floor_s(cost)
            yield (
                self.name, cost.grader, str(cost.processes), f"{cost.each_s:.2f}",
                f"{cost.cpu_s / cost.count:.2f}", f"{cost.faster(self.otter(cost)):.1f}",
                f"{cost.each_s - floor:.2f}", f"{cost.each_s / floor:.2f}",
            )  # fmt: skip


def together(name: str, parts: Iterable[Comparison]) -> Comparison:
    """Several comparisons of the same graders as one, in which each submission counts the same."""
    parts = list(parts)
    costs = tuple(_sum(same) for same in zip(*(part.costs for part in parts), strict=True))
    counts = [part.costs[0].count for part in parts]
    own_s = sum(part.own_s * n for part, n in zip(parts, counts, strict=True)) / sum(counts)
    return Comparison(name, costs, own_s, parts[0].cores)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows as Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _sum(costs: tuple[Cost, ...]) -> Cost:
    """One grader with one number of processes, over several assignments."""
    ((grader, processes),) = {(cost.grader, cost.processes) for cost in costs}
    return Cost(
        grader, processes, sum(c.count for c in costs),
        sum(c.wall_s for c in costs), sum(c.cpu_s for c in costs),
    )  # fmt: skip
