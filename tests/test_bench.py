"""The arithmetic of the bench, held against numbers worked out by hand."""

import subprocess
import sys

import pytest

from bench.cluster import Costs, Overhead
from bench.costs import OTTER, OURS, Comparison, Cost, table, together
from bench.graders import Clock

COSTS = (
    Cost(OTTER, 1, 4, 40.0, 32.0),
    Cost(OTTER, 2, 4, 24.0, 34.0),
    Cost(OURS, 1, 4, 9.0, 8.4),
    Cost(OURS, 2, 4, 5.0, 8.8),
)
ONE = Comparison("one", COSTS, own_s=2.0, cores=2)


def test_rows_compare_with_otter_at_as_many_processes_and_with_the_floor():
    assert [row[3:] for row in ONE.rows()] == [
        ("10.00", "8.00", "1.0", "8.00", "5.00"),
        ("6.00", "8.50", "1.0", "5.00", "6.00"),
        ("2.25", "2.10", "4.4", "0.25", "1.12"),
        ("1.25", "2.20", "4.8", "0.25", "1.25"),
    ]


def test_cores_that_are_not_there_do_not_lower_the_floor():
    alone = Comparison("one", COSTS, own_s=2.0, cores=1)
    assert [alone.floor_s(cost) for cost in COSTS] == [2.0, 2.0, 2.0, 2.0]


def test_together_every_submission_counts_the_same():
    costs = tuple(Cost(c.grader, c.processes, 1, 20.0, 20.0) for c in COSTS)
    both = together("both", [ONE, Comparison("two", costs, own_s=12.0, cores=2)])
    assert both.own_s == (4 * 2.0 + 12.0) / 5
    assert [(c.count, c.wall_s, c.cpu_s) for c in both.costs] == [
        (5, 60.0, 52.0), (5, 44.0, 54.0), (5, 29.0, 28.4), (5, 25.0, 28.8),
    ]  # fmt: skip
    assert both.costs[3].faster(both.otter(both.costs[3])) == pytest.approx(44 / 25)


def test_different_graders_are_never_added():
    other = Comparison("two", COSTS[::-1], own_s=2.0, cores=2)
    with pytest.raises(ValueError):
        together("both", [ONE, other])


def test_what_many_submissions_take_is_the_workers_time_or_that_of_the_one_batch():
    """10,000 on 50 workers: 200 a worker, of 6 s and 0.1 s more; or 0.2 s each in the batch."""
    found = Overhead(Costs(0.20, 0.02, 3), Costs(0.25, 0.03, 9))
    assert found.task_s == pytest.approx(0.1)
    assert found.projected_s(6.0) == pytest.approx(200 * 6.1)
    assert found.projected_s(0.4) == pytest.approx(10_000 * 0.03)
    words = (
        "0.20 s each after 3 s of start, a Dask cluster on the same machine 0.25 s each after 9 s"
    )
    assert words in str(found)
    assert "(80% of the throughput): 0.10 s of a worker more" in str(found)


def test_one_process_of_ours_is_what_a_submission_takes_alone():
    assert ONE.alone_s == 9.0 / 4


def test_table_is_markdown():
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_the_clock_counts_what_children_of_children_used():
    """The innermost process says itself what it used, which the clock can't be below."""
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time())"
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    clock = Clock()
    with clock.running():
        done = subprocess.run([sys.executable, "-c", outer], capture_output=True, check=True)
    assert clock.cpu_s >= float(done.stdout) - 0.05  # the system counts in steps
