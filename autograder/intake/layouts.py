"""Which file belongs to whom, from names alone: folders, and files named after students.

`platforms` knows the exports of Canvas, Moodle, Gradescope, nbgrader and GitHub Classroom.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from autograder.intake.reading import Item
from autograder.intake.trees import Node, is_candidate, is_hidden
from autograder.notebook import printable


@dataclass(frozen=True)
class Claim:
    """Files that the layout says one student handed in together.

    Attributes:
        student: the layout's id of the student.
        label: the file or folder that tells it.
        items: the files, without hidden ones.
        aliases: pairs (column of the roster, value in it) that may know the student.
        name: the student's name, or "".
        submitted: when, in UTC, or None.
        problem: why nothing of it can be graded, or None.
    """

    student: str
    label: str
    items: tuple[Item, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    name: str = ""
    submitted: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Layout:
    """A layout in words, and what it says; `columns` of a roster know its students."""

    title: str
    columns: str
    claims: tuple[Claim, ...]


Tops = dict[str, list[Node]]  # the files below each entry of the root; folders end in "/"


def plain(nodes: Sequence[Node], is_known: Callable[[Claim], bool]) -> Layout:
    """Files named after students, a folder a student, or a folder a group with these inside.

    Without a roster, folders are groups if each holds at least two folders with notebooks, no
    notebook lies elsewhere and no two of the inner folders have the same name. With a roster they
    are groups if it knows none of them, but nearly all names inside, which are more.
    """
    tops = tops_of(nodes, "")
    outer, inner = _named(nodes, tops, 1), _named(nodes, tops, 2)
    foreign = not any(map(is_known, outer))
    by_roster = len(inner) > len(outer) and nearly_all(sum(map(is_known, inner)), len(inner))
    if foreign and (by_roster or _are_groups(tops, inner)):
        return Layout("a folder a group, students inside", _PLAIN, inner)
    return Layout("files or folders named after students", _PLAIN, outer)


_PLAIN = "student, email or name"


def nearly_all(fits: int, count: int) -> bool:
    """At least nine of ten."""
    return fits > 0 and 10 * fits >= 9 * count


def tops_of(nodes: Sequence[Node], root: str) -> Tops:
    """The entries of the folder `root` ("" or with "/" at its end), without hidden ones."""
    tops: Tops = {}
    for node in sorted(nodes, key=lambda one: one.name):
        if node.name.startswith(root) and not is_hidden(node.name) and node.name != root:
            first, slash, rest = node.name[len(root) :].partition("/")
            below = tops.setdefault(first + slash, [])
            if not node.name.endswith("/") or (node.fault and not rest):
                below.append(node)
    return tops


def items_of(nodes: Sequence[Node], root: str) -> tuple[Item, ...]:
    """The files, with their names below `root`."""
    names = [node.name.removeprefix(root) for node in nodes]
    return tuple(map(Item, nodes, names, names))


def nameless(top: str, root: str, nodes: Sequence[Node], where: str) -> Claim:
    """A claim that nobody can make, and why."""
    problem = f"Can't tell whose it is: {where}."
    return Claim(printable(top), root + top, items_of(nodes, root), problem=problem)


def strange(tops: Tops, root: str, known: set[str], where: str) -> Iterator[Claim]:
    """A claim for each entry that could be a submission, but does not fit the layout."""
    for top, nodes in tops.items():
        if top not in known and any(is_candidate(node.name) for node in nodes):
            yield nameless(top, root, nodes, where)


# Folders and files named after students.


def _named(nodes: Sequence[Node], tops: Tops, depth: int) -> tuple[Claim, ...]:
    """A claim for each name at the depth, or above it where no folder is."""
    labels: dict[str, list[Node]] = defaultdict(list)
    for node in (one for below in tops.values() for one in below):
        *folders, rest = node.name.split("/", depth)
        if len(folders) == depth:
            labels[node.name.removesuffix(rest)].append(node)
        elif is_candidate(node.name) or node.name.endswith("/"):
            labels[node.name].append(node)
    for node in nodes:  # folders without a file
        if node.name.endswith("/") and not is_hidden(node.name) and node.name.count("/") == depth:
            labels.setdefault(node.name, [])
    return tuple(_named_claim(label, labels[label]) for label in sorted(labels))


def _named_claim(label: str, nodes: Sequence[Node]) -> Claim:
    path = PurePosixPath(label)
    student = printable(path.name if label.endswith("/") else path.stem)
    root = label if label.endswith("/") else label[: -len(path.name)]
    aliases = tuple((column, student) for column in ("student", "email", "name"))
    return Claim(student, label, items_of(nodes, root), aliases)


def _are_groups(tops: Tops, inner: Sequence[Claim]) -> bool:
    files = [n.name for below in tops.values() for n in below if is_candidate(n.name)]
    held = [c for c in inner if any(is_candidate(item.node.name) for item in c.items)]
    if not held or any(name.count("/") < 2 for name in files):
        return False
    sizes = [sum(c.label.startswith(top) for c in held) for top in tops if top.endswith("/")]
    return min(sizes) >= 2 and len({c.student for c in held}) == len(held)
