"""The dry run: an inbox in words, for the person who grades."""

from collections import defaultdict

from autograder.intake import Submission
from autograder.intake.found import Inbox


def about(one: Submission) -> list[str]:
    """Whether the submission would be graded, why not, and what the student would be told."""
    name = f" ({one.name})" if one.name else ""
    attempt = f", attempt {one.attempt}" if one.attempt > 1 else ""
    when = f", {one.submitted:%Y-%m-%d %H:%M} UTC" if one.submitted else ""
    verdict = f"not graded: {one.problem}" if one.problem else "would be graded"
    first = f"{one.student}{name}{attempt}{when}: {verdict}  [{one.source}]"
    return [_plain(line) for line in (first, *(f"    {note}" for note in one.notes))]


def rest(inbox: Inbox) -> list[str]:
    """Files that are nobody's submission, with the reason, and what the roster tells."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for path, reason in inbox.left_out:
        reasons[reason].append(f"    {path}")
    lines = []
    for reason, paths in reasons.items():
        lines += [f"Left out, {reason} ({len(paths)}):", *paths]
    if inbox.missing:
        lines.append(f"Handed in nothing ({len(inbox.missing)}): {', '.join(inbox.missing)}")
    if inbox.unknown:
        lines.append(f"Not in the roster ({len(inbox.unknown)}): {', '.join(inbox.unknown)}")
    return [_plain(line) for line in lines]


def _plain(text: str) -> str:
    """The text on one line; names of files can hold codes that a terminal obeys."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
