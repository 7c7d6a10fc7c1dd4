#!/usr/bin/env python3
"""What Gradescope runs for a submission: take its results out of those of all students."""

import json
import sys
from pathlib import Path


def main(root: Path) -> None:
    """Write the results of the one student of the submission's group who has some.

    Ends with an error if there are none, so that no score is shown.
    """
    metadata = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    results = json.loads((root / "source" / "results.json").read_text(encoding="utf-8"))
    emails = [user["email"].strip().lower() for user in metadata["users"]]
    found = [results[email] for email in emails if email in results]
    if len(found) != 1:
        sys.exit(f"{len(found)} of the submission's students have a grade; it should be 1.")
    (root / "results").mkdir(exist_ok=True)
    (root / "results" / "results.json").write_text(json.dumps(found[0]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/autograder"))
