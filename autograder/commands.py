"""The commands `grade` and `rejudge`: what they print, write and return."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from autograder import crews, release
from autograder.config import Config, ConfigError
from autograder.grade import Batch, Rejudged, Release, ReleaseMissing, Waiting, rejudge
from autograder.gradebook import Terms
from autograder.identity import judging_identity
from autograder.intake import Roster, find, listing, read
from autograder.judge import validate
from autograder.publish import opened, print_new_grades, publish
from autograder.report.progress import watched
from autograder.report.summary import print_changes
from autograder.results import Results

GO_ON = "What was graded is kept. To go on, give the same command, but not --regrade."


def grade(options: argparse.Namespace, config: Config) -> int:
    """Grade an inbox, or only list it; the exit status."""
    config.assignment(options.name)
    built = Release.load(options.name, options.root)
    roster = Roster.load(options.roster) if options.roster else None
    if options.dry_run:
        return _dry_run(options.inbox, built, config, roster)
    fraction = _verify_fraction(options, config)
    config = _chosen(options, config)
    inbox = find(options.inbox, built.name, roster)
    if words := release.changed_since_build(options.name, config, options.root):
        raise ReleaseMissing(
            f"The release is outdated, {words[0]}. Run: autograder build {built.name}"
        )
    with contextlib.closing(Batch(built, config, options.out, fraction)) as batch:
        new, done = batch.pending(inbox, options.only, regrade=options.regrade)
        _lines(f"The inbox looks like {inbox.layout}.", *listing.rest(inbox))
        if batch.rejudged:
            _print_rejudged(batch.rejudged, built.name)
        if done:
            _lines(f"{done} submissions were graded before with this release, {len(new)} are left.")
        if done and fraction:
            _lines("What was graded before is not trained again now; --regrade does that.")
        if new:
            _run(batch, new, options)
        status = publish(batch.gradebook, batch.terms, config, options)
    if batch.stopped:
        _lines(f"Stopped. {GO_ON}")
    return 1 if batch.stopped else status


def rejudge_all(options: argparse.Namespace, config: Config) -> int:
    """Judge all stored evidence of a folder again; the exit status."""
    status = 0
    with opened(options.out) as gradebook:
        for known in gradebook.terms():
            if known.assignment not in config.assignments:
                _lines(f"{known.assignment}: left as it is, grading.yml has no such assignment.")
                continue
            assignment = config.assignment(known.assignment)
            validate(assignment)
            terms = Terms(known.assignment, known.version, judging_identity(assignment))
            if not gradebook.ledger.grades(known.assignment):  # what an older version gave
                print_new_grades(Results(gradebook, known, config, options.out))
            _print_rejudged(rejudge(gradebook, terms, assignment), terms.assignment)
            status = max(status, publish(gradebook, terms, config, options))
    return status


def _dry_run(inbox: Path, built: Release, config: Config, roster: Roster | None) -> int:
    held = find(inbox, built.name, roster)
    _lines(f"The inbox looks like {held.layout}.")
    refused = 0
    for found in held.found:
        kept = config.assignment(built.name).training == "checkpoint"
        one = read(found, built.pristine, config.limits.submission_mib, checkpoints=kept)
        refused += one.problem is not None
        _lines(*listing.about(one))
    _lines(*listing.rest(held))
    _lines(f"{len(held.found) - refused} would be graded, {refused} not. Nothing was run.")
    return 1 if refused else 0


def _verify_fraction(options: argparse.Namespace, config: Config) -> float:
    """The fraction of submissions to train again; refuses one that makes no sense."""
    fraction: float | None = options.verify_fraction
    if fraction is None:
        return 0.0
    if not 0 <= fraction <= 1:
        raise ConfigError("--verify-fraction: from 0 to 1, such as 0.1.")
    if config.assignment(options.name).training != "checkpoint":
        raise ConfigError(
            f"--verify-fraction: {options.name} has training: rerun in grading.yml, so that all "
            "its submissions are trained again anyway. Leave the option out."
        )
    return fraction


def _chosen(options: argparse.Namespace, config: Config) -> Config:
    """The settings with the options in their place; refuses those that can't be."""
    if options.out is None:
        raise ConfigError("--out: give a folder for gradebook and grades.csv, or use --dry-run.")
    config, who = crews.chosen(options, config)
    _lines(who)
    return config


def _run(batch: Batch, new: list[Waiting], options: argparse.Namespace) -> None:
    with contextlib.closing(crews.opened(options, batch.config, batch.release)) as crew:
        _lines(crew.guarantee)
        with _interruptible(batch):
            for _ in watched(batch.run(new, crew), len(new)):
                pass


@contextlib.contextmanager
def _interruptible(batch: Batch) -> Iterator[None]:
    """The first Ctrl-C lets finish what runs; a second one, or a request to end, ends it."""

    def end(*_: object) -> NoReturn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ending takes a moment, and must be complete
        raise KeyboardInterrupt

    def finish(*_: object) -> None:
        if batch.stopped:
            end()
        batch.stop()
        # print may be at work right now, and can't be entered twice
        os.write(2, b"\nWaiting for what runs. Ctrl-C again ends it at once.\n")

    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, finish if number == signal.SIGINT else end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_rejudged(done: Rejudged, name: str) -> None:
    _lines(f"{name}: {done.count} attempts judged again, nothing was run.")
    if done.unknown:
        _lines(f"Not in grading.yml any more, so not counted: {', '.join(done.unknown)}.")
    changes = [(change.before, change.after, list(change.cases)) for change in done.changes]
    print_changes(Console(), changes)


def _lines(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)
