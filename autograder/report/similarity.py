"""Answers of two students that share code: places to look, never a verdict.

copydetect finds the passages, as MOSS does: names, strings, comments and white space are normalised
by Pygments, and what every so many characters of the result hash to is compared. Three things of
it are not used. Its winnowing picks hashes by Python's own `hash`, so it finds other passages in
each process: here all are kept. Its removal of boilerplate takes hashes for unique that are not, so
it is done here. Its report is not made, so it reads and writes no files.
"""

import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from copydetect import CodeFingerprint, compare_files
from copydetect.utils import get_token_coverage

from autograder.config import Similarity


@dataclass(frozen=True)
class Place:
    """Code that two students have in common.

    Attributes:
        first, second: the students, in alphabetical order.
        share: of the own code of that student of whose code it is more, 0 to 1. Own is what neither
            template nor reference has, and not many of the class.
        lines: excerpts of the source of each, from top to bottom; as untrusted as all of it.
    """

    first: str
    second: str
    share: float
    lines: tuple[tuple[str, ...], tuple[str, ...]]


def places(codes: Mapping[str, str], known: Sequence[str], settings: Similarity) -> list[Place]:
    """The strongest places, strongest first; the same for the same code.

    Args:
        codes: for each student the source of the answers. It may be any text.
        known: source of template and reference. What is in there says nothing about two students.
        settings: from grading.yml.
    """
    taught = {
        value for text in known for value in _fingerprint(text, len(text), settings.passage).hashes
    }
    prints = {}
    for student in sorted(codes):
        prints[student] = _fingerprint(codes[student], settings.characters, settings.passage)
        _forget(prints[student], taught)
    groups = _alike(prints)
    found = [place for group in groups for place in _same(group, prints, settings)]
    found += _similar({group[0]: prints[group[0]] for group in groups}, settings)
    found.sort(key=lambda p: (-p.share, -_size(p), p.first, p.second))
    given = {line.strip() for text in known for line in text.splitlines()}
    return [_trimmed(place, given) for place in found[: settings.most]]


def _fingerprint(source: str, most: int, passage: int) -> CodeFingerprint:
    """All passages of the first characters.

    Lines of white space are left out: on many of them Pygments takes time with their square.
    """
    lines = (line.rstrip() for line in source[:most].splitlines())
    text = "\n".join(filter(None, lines)).lstrip("\ufeff")
    made = CodeFingerprint("answers", passage, 1, language="python", fp=io.StringIO(text))
    if len(made.offsets):  # entries of class names are too small, and would misplace excerpts
        made.offsets[:, 1] = np.maximum.accumulate(made.offsets[:, 1])
    return made


def _forget(seen: CodeFingerprint, values: Collection[int]) -> None:
    """Leave out passages, as if they were not there."""
    seen.hash_idx = {value: where for value, where in seen.hash_idx.items() if value not in values}
    seen.hashes = set(seen.hash_idx)
    seen.token_coverage = get_token_coverage(seen.hash_idx, seen.k, len(seen.filtered_code))


def _alike(prints: Mapping[str, CodeFingerprint]) -> list[list[str]]:
    """Students in groups whose normalised code is the same; within them equal sources together."""
    groups = defaultdict(list)
    for student in sorted(prints, key=lambda name: (prints[name].raw_code, name)):
        groups[prints[student].filtered_code].append(student)
    return [*groups.values()]


def _same(
    group: Sequence[str], prints: Mapping[str, CodeFingerprint], settings: Similarity
) -> Iterator[Place]:
    """A chain through a group, so that twenty copies are not two hundred places.

    Sources that are equal to the letter are told however short they are.
    """
    for pair in pairwise(group):
        one, other = (prints[student] for student in pair)
        equal = one.raw_code == other.raw_code
        if one.token_coverage >= (1 if equal else settings.least):
            yield _place(pair, (one, other), compare_files(one, other)[2], 1.0)


def _similar(prints: Mapping[str, CodeFingerprint], settings: Similarity) -> Iterator[Place]:
    """Pairs with enough in common, once what many have is left out."""
    holders = defaultdict(list)
    for student, seen in prints.items():
        for value in seen.hashes:
            holders[value].append(student)
    common = {value for value, names in holders.items() if len(names) > settings.common}
    for seen in prints.values():
        _forget(seen, common)
    shared = Counter(
        pair for value, names in holders.items() if value not in common
        for pair in combinations(names, 2)
    )  # fmt: skip
    for pair, count in shared.items():
        if count * settings.passage >= settings.least:  # so few cover no more than that
            one, other = (prints[student] for student in pair)
            length, shares, slices = compare_files(one, other)
            if length >= settings.least and max(shares) >= settings.share:
                yield _place(pair, (one, other), slices, min(1.0, float(max(shares))))


def _place(
    pair: tuple[str, str],
    prints: tuple[CodeFingerprint, CodeFingerprint],
    slices: tuple[np.ndarray, np.ndarray],
    share: float,
) -> Place:
    excerpts = {
        student: _excerpts(seen.raw_code, part)
        for student, seen, part in zip(pair, prints, slices, strict=True)
    }
    first, second = sorted(pair)
    return Place(first, second, share, (excerpts[first], excerpts[second]))


def _excerpts(source: str, slices: np.ndarray) -> tuple[str, ...]:
    """The lines in which the slices lie, each once; slices: starts and ends, (2, n)."""
    spans: list[tuple[int, int]] = []
    for start, end in slices.T.astype(int):
        low = source.rfind("\n", 0, start) + 1
        high = source.find("\n", max(start, end - 1))
        high = len(source) if high < 0 else high
        if spans and low <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return tuple(source[low:high] for low, high in spans)


def _trimmed(place: Place, given: Collection[str]) -> Place:
    """Without lines of template or reference at the edges of excerpts, unless that is all."""
    one, other = (tuple(_own(part, given) for part in parts) for parts in place.lines)
    kept = tuple(filter(None, one)), tuple(filter(None, other))
    return replace(place, lines=kept) if all(kept) else place


def _own(excerpt: str, given: Collection[str]) -> str:
    lines = excerpt.split("\n")
    own = [number for number, line in enumerate(lines) if line.strip() not in given]
    return "\n".join(lines[own[0] : own[-1] + 1]) if own else ""


def _size(place: Place) -> int:
    return sum(map(len, place.lines[0]))
