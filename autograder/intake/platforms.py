"""Exports of platforms: which file belongs to whom, and when it was handed in.

Sources: what the platforms themselves write. Canvas lib/content_zipper.rb; Moodle
mod/assign/classes/downloader.php; nbgrader exchange/default; exports of Gradescope. The times
inside the zips of Canvas and Moodle are those of the download, so they order nothing.

Names count as an export's only where nearly all fit, so that a few odd names never turn a flat
folder into an export, and the reverse. What then does not fit belongs to nobody.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from zoneinfo import ZoneInfo

from autograder.intake.gradescope import METADATA, submissions
from autograder.intake.layouts import (
    Claim,
    Layout,
    Tops,
    items_of,
    nameless,
    nearly_all,
    strange,
    tops_of,
)
from autograder.intake.reading import Item
from autograder.intake.trees import Node, Tree, is_candidate
from autograder.notebook import InvalidNotebook, printable


def export(tree: Tree, nodes: Sequence[Node], assignment: str | None) -> Layout | None:
    """The export of a platform that the files are, up to two folders deep, or None.

    Args:
        tree: gives the bytes of the files that hold times.
        nodes: all nodes of the tree.
        assignment: name of the assignment that is graded.

    Raises:
        InboxError: it is one of Gradescope, but its submission_metadata.yml is not readable.
    """
    root = ""
    for _ in range(3):
        tops = tops_of(nodes, root)
        found = (
            _gradescope(tree, root, tops)
            or _moodle(root, tops)
            or _canvas(root, tops)
            or _exchange(root, tops, assignment)
            or _nbgrader(tree, root, tops, assignment)
            or _classroom(root, tops, assignment)
        )
        entries = _entries(tops)
        if found or len(entries) != 1 or not entries[0].endswith("/"):
            return found
        root += entries[0]
    return None


def _entries(tops: Tops) -> list[str]:
    return [top for top in tops if top.endswith("/") or is_candidate(top)]


# Canvas: name_LATE_user_file_own.ipynb, or anon_x_file_own.ipynb; "own" gets -1, -2 … by Canvas.

_CANVAS = re.compile(
    r"(?:(?P<name>(?:(?!\d+_)[^_\s.,()+-]+_)+?)(?:LATE_)?(?P<user>\d+)"
    r"|(?:LATE_)?(?P<anon>anon_[0-9A-Za-z]+))"
    r"_(?:(?P<file>\d+)_(?P<own>.+)|(?:text|link)\.html)",
    re.DOTALL,
)


def _canvas(root: str, tops: Tops) -> Layout | None:
    """Names of files. A file's number is its own and a user has one name, else it does not fit."""
    fits = {t: m for t in tops if not t.endswith("/") and (m := _CANVAS.fullmatch(t))}
    files = Counter(m["file"] for m in fits.values() if m["file"])
    names: dict[str, set[str]] = defaultdict(set)
    for match in fits.values():
        names[match["user"] or match["anon"]].add(match["name"] or "")
    fits = {
        top: match
        for top, match in fits.items()
        if files[match["file"]] <= 1 and len(names[match["user"] or match["anon"]]) == 1
    }
    candidates = {t for t, below in tops.items() if any(is_candidate(n.name) for n in below)}
    if not nearly_all(len(candidates & fits.keys()), len(candidates)):
        return None
    claims = [_canvas_claim(root, tops, list(group)) for _, group in _by_user(fits)]
    where = "its name is not one that Canvas gives, or its number is not unique"
    claims += strange(tops, root, set(fits), where)
    return Layout("a Canvas download", "canvas_id", tuple(claims))


def _by_user(fits: dict[str, re.Match[str]]) -> Iterator[tuple[str, Iterator[re.Match[str]]]]:
    def user(match: re.Match[str]) -> str:
        return match["user"] or match["anon"]

    return groupby(sorted(fits.values(), key=user), key=user)


def _canvas_claim(root: str, tops: Tops, matches: Sequence[re.Match[str]]) -> Claim:
    first = matches[0]
    user = first["user"] or first["anon"]
    items = [
        Item(
            tops[m[0]][0],
            m["own"] or m[0],
            re.sub(r"-\d{1,2}(?=\.\w+$)", "", m["own"] or m[0]),
            int(m["file"] or 0),
        )
        for m in matches
    ]
    return Claim(
        user,
        root + first[0],
        tuple(items),
        (("canvas_id", user),),
        (first["name"] or "").rstrip("_"),
        problem=_contradiction(items),
    )


def _contradiction(items: Sequence[Item]) -> str | None:
    """Canvas numbers files in the order of upload, and names that occur again, too."""
    for series in {item.series for item in items}:
        versions = sorted((i for i in items if i.series == series), key=lambda i: i.order)
        counts = [int((re.findall(r"-(\d+)\.\w+$", i.own) or ["0"])[0]) for i in versions]
        if counts != sorted(set(counts)):
            names = ", ".join(i.node.name for i in versions)
            return f"The names contradict each other, can't tell which is newer: {names}."
    return None


# Moodle: name_number_assignsubmission_file_, a folder, or the beginning of a file's name.

# The first marker counts: what follows it is the student's own name of the file.
_MOODLE = re.compile(
    r"(?P<name>(?:(?!_assignsubmission_).)+?)(?:_(?P<id>\d+))?_assignsubmission_[a-z]+"
    r"(?:/|_/|_(?P<own>[^/]+))",
    re.DOTALL,
)


def _moodle(root: str, tops: Tops) -> Layout | None:
    """Names of folders or of files; all of one number were handed in together."""
    fits = {top: m for top in tops if (m := _MOODLE.fullmatch(top))}
    candidates = {t for t, b in tops.items() if any(is_candidate(n.name) for n in b)} or set(fits)
    if not nearly_all(len(candidates & fits.keys()), len(candidates)):
        return None
    people: dict[tuple[str, str], list[re.Match[str]]] = defaultdict(list)
    for match in fits.values():
        people[match["name"], match["id"] or ""].append(match)
    claims = [_moodle_claim(root, tops, matches) for matches in people.values()]
    claims += strange(tops, root, set(fits), "its name is not one that Moodle gives")
    return Layout("a Moodle download", "moodle_id or name", tuple(claims))


def _moodle_claim(root: str, tops: Tops, matches: Sequence[re.Match[str]]) -> Claim:
    name, number = matches[0]["name"], matches[0]["id"] or ""
    items: list[Item] = []
    for match in matches:
        if match["own"]:
            items += [Item(node, match["own"], match["own"]) for node in tops[match[0]]]
        else:
            items += items_of(tops[match[0]], root + match[0])
    aliases = (("moodle_id", number), ("name", name.replace("_", " ")))
    label = root + matches[0][0]
    return Claim(printable(number or name), label, tuple(items), aliases, printable(name))


# Gradescope: submission_metadata.yml beside the folders submission_number.


def _gradescope(tree: Tree, root: str, tops: Tops) -> Layout | None:
    if METADATA not in tops:
        return None
    claims, entries = [], set()
    for one in submissions(tree, root + METADATA):
        top = next((t for t in (one.entry, one.entry + "/") if t in tops), one.entry)
        entries.add(top)
        nodes = tops.get(top, [])
        if not one.student:
            where = f"{METADATA} has neither number nor address of its student"
            claims.append(nameless(top, root, nodes, where))
            continue
        items = items_of(nodes, root + top if top.endswith("/") else root)
        aliases = (("student", one.student), ("email", one.email))
        when = to_utc(one.created)
        claims.append(Claim(one.student, root + top, items, aliases, one.name, when))
    claims += strange(tops, root, entries | {METADATA}, f"{METADATA} does not name it")
    return Layout("a Gradescope export", "student or email", tuple(claims))


# nbgrader: student/assignment/timestamp.txt, and in the exchange student+assignment+time+random.


def _nbgrader(tree: Tree, root: str, tops: Tops, assignment: str | None) -> Layout | None:
    stamped = [
        top
        for top, nodes in tops.items()
        if any(re.fullmatch(r"[^/]+/timestamp\.txt", n.name[len(root + top) :]) for n in nodes)
    ]
    if not nearly_all(len(stamped), len(_entries(tops))):
        return None
    claims = [
        _nbgrader_claim(tree, root + top, nodes, assignment)
        for top, nodes in tops.items()
        if top.endswith("/")
    ]
    claims += strange(tops, root, {t for t in tops if t.endswith("/")}, "it is in no one's folder")
    return Layout("folders of nbgrader", "student", tuple(claims))


def _nbgrader_claim(tree: Tree, folder: str, nodes: Sequence[Node], name: str | None) -> Claim:
    student = printable(folder.split("/")[-2])
    assignments = sorted({n.name[len(folder) :].partition("/")[0] for n in nodes})
    if name in assignments:
        assignments = [str(name)]
    inside = folder + assignments[0] + "/" if len(assignments) == 1 else folder
    kept = [node for node in nodes if node.name.startswith(inside)]
    stamp = f"{inside}timestamp.txt"
    when = to_utc(_text(tree, stamp)) if stamp in {n.name for n in kept} else None
    items = [item for item in items_of(kept, folder) if item.node.name != stamp]
    return Claim(student, folder, tuple(items), (("student", student),), submitted=when)


_EXCHANGE = re.compile(
    r"(?P<student>.+)\+(?P<assignment>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d [^+]+)(?:\+[^+]+)?/"
)


def _exchange(root: str, tops: Tops, assignment: str | None) -> Layout | None:
    fits = {top: m for top in tops if (m := _EXCHANGE.fullmatch(top))}
    if not nearly_all(len(fits), len(_entries(tops))):
        return None
    mine = {top: m for top, m in fits.items() if m["assignment"] == assignment} or fits
    claims = []
    for top, match in mine.items():
        items = [i for i in items_of(tops[top], root + top) if i.own not in _NBGRADERS]
        student = printable(match["student"])
        when = to_utc(match["time"])
        aliases = (("student", student),)
        claims.append(Claim(student, root + top, tuple(items), aliases, submitted=when))
    claims += strange(tops, root, set(fits), "it is in no one's folder")
    return Layout("nbgrader's exchange", "student", tuple(claims))


_NBGRADERS = ("timestamp.txt", "submission_secret.txt")


def _text(tree: Tree, name: str) -> str:
    try:
        return tree.read(name, 100).decode()
    except (InvalidNotebook, UnicodeDecodeError):
        return ""


def to_utc(text: str) -> datetime | None:
    """A time as nbgrader and Gradescope write it, in UTC; None if it is none. No zone means UTC."""
    text = re.sub(r"\s+(Z|[+-]\d\d:?\d\d)$", r"\1", text.strip()).removesuffix(" UTC")
    text, _, zone = (text, "", "") if text.count(" ") < 2 else text.rpartition(" ")
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone) if zone else UTC)
        return time.astimezone(UTC)
    except (ValueError, LookupError, OSError, OverflowError):
        return None


# GitHub Classroom: assignment-user, with hyphens.


def _classroom(root: str, tops: Tops, assignment: str | None) -> Layout | None:
    slug = re.sub(r"[^a-z0-9]+", "-", (assignment or "").lower()) + "-"
    entries = _entries(tops)
    fits = [top for top in entries if top.startswith(slug) and top.endswith("/")]
    if len(fits) < 2 or slug == "-" or fits != entries:  # one may be the folder around them
        return None
    claims = []
    for top in fits:
        user = printable(top[len(slug) : -1])
        aliases = (("github", user), ("student", user))
        claims.append(Claim(user, root + top, items_of(tops[top], root + top), aliases))
    return Layout("clones of GitHub Classroom", "github or student", tuple(claims))
