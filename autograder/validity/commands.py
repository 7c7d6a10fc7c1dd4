"""The commands `audit` and `calibrate`: what they print, write and return."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autograder import release
from autograder.config import Config, ConfigError
from autograder.grade import Release, ReleaseMissing, environments
from autograder.validity import page, proposal, record
from autograder.validity.audit import Auditor
from autograder.validity.calibration import Calibrator, Plan
from autograder.validity.conditions import conditions
from autograder.validity.plot import draw
from autograder.validity.record import Calibration
from autograder.validity.runs import Bench
from autograder.validity.summary import about_audit, about_calibration, is_off, threshold_troubles

OUT = Path("docs", "validity")  # records, below the root
FEWEST = 5  # trainings; with fewer, bounds are wider than any quantity
WORK = Path("dist", "validity")  # gradebooks of both commands


def audit(options: argparse.Namespace, config: Config) -> int:
    """Audit assignments; the exit status is 1 if anything is off."""
    if options.runs < 0:
        raise ConfigError("--runs: 0 or more.")
    first, out = config.validity.first_seed, _out(options)
    status = 0
    for bench in _benches(options, config, "audit", "cpu"):
        found = Auditor(bench).audit([*conditions(range(first, first + options.runs))])
        path = out / f"{bench.name}-audit.json"
        record.write(found, path)
        page.write_matrix(found, path.with_suffix(".html"))
        about_audit(found)
        _lines(f"matrix: {path.with_suffix('.html')}", f"record: {path}")
        status = max(status, int(is_off(found)))
    _lines(f"table:  {page.write_validity(out)}")
    return status


def calibrate(options: argparse.Namespace, config: Config) -> int:
    """Calibrate assignments; the exit status is 1 if a threshold lies where it should not."""
    asked = config.model_copy(update={"device": options.device or config.device})
    device = environments(asked, 1)[0]["AUTOGRADER_DEVICE"]
    plan, out = _plan(options, config), _out(options)
    status = 0
    for bench in _benches(options, config, f"calibration-{device}", device):
        found = Calibrator(bench, plan).calibrate(device)
        path = out / f"{bench.name}-calibration-{device}.json"
        record.write(found, path)
        if options.apply:
            found = _applied(found, config, options.root / "grading.yml")
            record.write(found, path)
        _draw(found, out / "plots", device)
        about_calibration(found)
        _lines(f"record: {path}")
        status = max(status, int(any(threshold_troubles(found))))
    _lines(f"table:  {page.write_validity(out)}")
    return status


def _out(options: argparse.Namespace) -> Path:
    """The folder of the records; the page has its name."""
    out: Path = options.out or options.root / OUT
    if not out.name:
        raise ConfigError(f"--out: {out} has no name, which the page needs. Give docs/validity.")
    return out


def _plan(options: argparse.Namespace, config: Config) -> Plan:
    count = config.validity.seeds if options.seeds is None else options.seeds
    if count < FEWEST:
        raise ConfigError(f"--seeds: at least {FEWEST}, or little can be said of how numbers vary.")
    first = config.validity.first_seed
    return Plan(range(first, first + count), config.validity.wrong, config.validity.splits)


def _benches(
    options: argparse.Namespace, config: Config, part: str, device: str
) -> Iterator[Bench]:
    names = options.names or list(config.assignments)
    if options.workers is not None and options.workers < 1:
        raise ConfigError("--workers: at least 1.")
    workers = options.workers or config.workers or os.cpu_count() or 1
    for name in names:
        config.assignment(name)
    for name in names:
        Release.load(name, options.root)
        if words := release.changed_since_build(name, config, options.root):
            raise ReleaseMissing(
                f"The release is outdated, {words[0]}. Run: autograder build {name}"
            )
    for name in names:
        _lines(f"{name}: {part}")
        folder = options.root / WORK / name / part
        yield Bench(name, options.root, config, folder, workers, device)


def _draw(found: Calibration, folder: Path, device: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for check in found.checks:
        path = folder / f"{found.assignment}-{check.question}-{check.case}-{device}.svg"
        draw(check, proposal.assess(check, found.probability), path)


def _applied(found: Calibration, config: Config, path: Path) -> Calibration:
    """Write the proposals for misplaced thresholds into grading.yml; what was found, with them."""
    changes = proposal.changes(config.assignment(found.assignment), found)
    if not changes:
        return found
    with path.open(encoding="utf-8", newline="") as file:  # line ends stay as they are
        text = proposal.apply(file.read(), found.assignment, changes)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8", newline="")
    new.replace(path)
    for (question, case, setting), value in changes.items():
        _lines(f"{path}: {found.assignment}: {question}.{case}: {setting} is {value:g} now.")
    _lines("Read the change, then run: autograder build")
    places = [(check, (check.question, check.case, check.setting)) for check in found.checks]
    moved = [replace(check, threshold=changes.get(p, check.threshold)) for check, p in places]
    others = [one for one in found.unstable if one.case not in {f"{q}.{c}" for q, c, _ in changes}]
    return replace(found, checks=moved, unstable=others)


def _lines(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)
