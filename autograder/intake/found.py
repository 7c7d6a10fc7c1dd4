"""Who handed in what: the claims of a layout, identified, put in order and chosen from."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from unicodedata import normalize

from autograder.intake import layouts
from autograder.intake.errors import EmptyInbox, InboxError, RosterError
from autograder.intake.gradescope import METADATA
from autograder.intake.layouts import Claim, Layout
from autograder.intake.platforms import export
from autograder.intake.reading import Item, checkpoints_of, choose
from autograder.intake.roster import Roster
from autograder.intake.trees import Archive, Folder, Node, Tree, is_candidate, is_hidden, some
from autograder.notebook import InvalidNotebook, printable


@dataclass(frozen=True)
class Found:
    """One attempt of one student, as its place in the inbox tells, not yet read.

    Attributes:
        student: id in the roster, else the id that the layout gives, as it stands.
        source: the file as found; the folder or link where there is no one file to read.
        tree: holds the file.
        file: its name in the tree; None if there is a problem.
        name: the student's name if roster or layout know it, else "".
        attempt: 1 is the first of those in the inbox.
        submitted: when, in UTC, if the layout says so.
        notes: in words for the student.
        problem: why it can't be graded, or None.
        checkpoints: files of trained networks in the tree that belong to the file.
    """

    student: str
    source: Path
    tree: Tree
    file: str | None = None
    name: str = ""
    attempt: int = 1
    submitted: datetime | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    checkpoints: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Inbox:
    """What an inbox holds.

    Attributes:
        layout: how it is laid out, in words.
        found: all attempts, sorted by student and attempt.
        left_out: pairs of a file that is nobody's attempt, and the reason.
        missing: ids of the roster that handed in nothing.
        unknown: students of `found` who are not in the roster.
    """

    layout: str
    found: tuple[Found, ...]
    left_out: tuple[tuple[Path, str], ...]
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def find(inbox: Path, assignment: str | None, roster: Roster | None = None) -> Inbox:
    """Say who handed in what, from names and from the files in which platforms keep times.

    Args:
        inbox: see `collect`.
        assignment: its name; decides between several notebooks of a student.
        roster: the course's students.

    Raises:
        InboxError: see `collect`.
    """
    if not inbox.is_dir():
        raise EmptyInbox(f"The inbox {inbox} is not a folder. Give the folder of submissions.")
    tree, nodes, layout = _laid_out(inbox, assignment, roster)
    if not layout.claims:
        raise EmptyInbox(f"The inbox {inbox} holds no notebook (.ipynb), zip or student's folder.")
    claims = [_identified(claim, roster) for claim in layout.claims]
    if roster and not any(claim.student in roster.names for claim in claims):
        raise RosterError(
            f"{roster.path} knows nobody of the inbox, which looks like {layout.title}: "
            f"the roster has to know its students by column {layout.columns}."
        )
    attempts: defaultdict[str, list[_Attempt]] = defaultdict(list)
    for claim in claims:
        attempts[claim.student] += _attempts(claim, assignment)
    found = [
        one for student in sorted(attempts) for one in _ordered(attempts[student], tree, roster)
    ]
    people = {claim.student: None for claim in claims}
    return Inbox(
        layout.title,
        tuple(found),
        tuple(_left_out(tree, nodes, found, claims)),
        tuple(s for s in roster.names if s not in people) if roster else (),
        tuple(s for s in sorted(people) if s not in roster.names) if roster else (),
    )


def _laid_out(
    inbox: Path, assignment: str | None, roster: Roster | None
) -> tuple[Tree, list[Node], Layout]:
    """The layout of the folder, or of the one zip in it if that is a platform's download."""

    def is_known(claim: Claim) -> bool:
        return roster is not None and roster.match(claim.aliases).student is not None

    folder = Folder(inbox)
    nodes = folder.nodes()
    if fault := next((node.fault for node in nodes if not node.name), None):
        raise InboxError(f"The inbox {inbox}{fault}")
    layout = export(folder, nodes, assignment)
    visible = [n for n in nodes if is_candidate(n.name) or n.name.endswith("/")]
    visible = [n for n in visible if not is_hidden(n.name)]
    if layout is None and len(visible) == 1 and visible[0].name.lower().endswith(".zip"):
        name = visible[0].name
        archive = Archive(lambda: folder.open(name), inbox / name)
        try:
            members = archive.nodes()
        except InvalidNotebook:
            members = []  # then it is a student's, whose problem it becomes
        zipped = export(archive, members, assignment)
        if zipped and len(zipped.claims) > 1:
            return archive, members, zipped
    return folder, nodes, layout or layouts.plain(nodes, is_known)


def _identified(claim: Claim, roster: Roster | None) -> Claim:
    """The claim with the id of the roster; without a problem if the roster does not know it."""
    claim = replace(claim, student=normalize("NFC", claim.student))
    if roster is None or not claim.aliases:
        return claim
    match = roster.match(claim.aliases)
    if match.student is not None:
        name = roster.names[match.student] or claim.name
        return replace(claim, student=match.student, name=name)
    label = printable(claim.label)
    if match.problem:
        return replace(claim, student=label, problem=match.problem)
    if claim.student in roster.names:  # the number is another one's in another system
        problem = f"The roster does not know it, but has another student {claim.student!r}."
        return replace(claim, student=label, problem=problem)
    return claim


# Attempts.


@dataclass(frozen=True)
class _Attempt:
    claim: Claim
    item: Item | None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def order(self) -> tuple[float, int]:
        time = self.claim.submitted
        return (time.timestamp() if time else 0, self.item.order if self.item else 0)


def _attempts(claim: Claim, assignment: str | None) -> list[_Attempt]:
    """All versions of the one file that counts among those handed in together."""
    fault = next((i.node.fault for i in claim.items if i.node.name.endswith("/")), None)
    if claim.problem or fault:
        return [_Attempt(claim, None, problem=claim.problem or fault)]
    try:
        chosen, notes = choose(claim.items, assignment)
    except InvalidNotebook as error:
        return [_Attempt(claim, None, problem=str(error))]
    return [_Attempt(claim, item, tuple(notes), item.node.fault) for item in chosen]


def _ordered(attempts: Sequence[_Attempt], tree: Tree, roster: Roster | None) -> Iterator[Found]:
    """The attempts of one student; all have a problem if their order or their owner is unclear."""
    shared = _unclear(attempts)
    for number, one in enumerate(sorted(attempts, key=lambda a: (a.order, _label(a))), 1):
        problem = one.problem or shared
        claim, readable = one.claim, one.item if not problem else None
        note = ("The student is not in the roster.",)
        yield Found(
            claim.student,
            tree.path(_label(one)),
            tree,
            readable.node.name if readable else None,
            claim.name,
            number,
            claim.submitted,
            one.notes + (note if roster and claim.student not in roster.names else ()),
            problem,
            tuple(checkpoints_of(readable, claim.items)) if readable else (),
        )


def _unclear(attempts: Sequence[_Attempt]) -> str | None:
    """Why the attempts can't be put in order, or belong to two."""
    names = {normalize("NFC", one.claim.name).casefold(): one.claim.name for one in attempts}
    timeless = [one for one in attempts if not one.claim.submitted]
    orders = {one.order for one in attempts}
    if len(orders) < len(attempts) or 0 < len(timeless) < len(attempts):
        files = some(sorted(_label(one) for one in attempts))
        return f"Several files belong to one student: {files}. Keep one."
    if len(names) > 1:
        return f"Its id belongs to two names: {', '.join(sorted(names.values()))}. Keep one."
    return None


def _label(attempt: _Attempt) -> str:
    return attempt.item.node.name if attempt.item else attempt.claim.label


def _left_out(
    tree: Tree, nodes: Sequence[Node], found: Sequence[Found], claims: Sequence[Claim]
) -> Iterator[tuple[Path, str]]:
    """Every file at the top, and every notebook or zip, that is not an attempt."""
    attempts = {one.source for one in found}
    owners = {item.node.name: claim for claim in claims for item in claim.items}
    for node in sorted(nodes, key=lambda one: one.name):
        reason = _reason(node, owners.get(node.name))
        if reason and (path := tree.path(node.name)) not in attempts:
            yield path, reason


def _reason(node: Node, owner: Claim | None) -> str | None:
    """Why the file is not graded; None for what need not be mentioned."""
    if node.fault:
        return node.fault
    if is_hidden(node.name):
        return "hidden, made by a system"
    if node.name.endswith("/"):
        return None
    if is_candidate(node.name):
        return f"another file counts, or none, for {owner.student}" if owner else "nobody's"
    is_stray = owner is None and "/" not in node.name and node.name != METADATA
    return "neither notebook nor zip" if is_stray else None
