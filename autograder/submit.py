"""The last cells of a notebook: what has passed so far, and how students hand it in.

Code is a template with {name}, that of the assignment; the cells to hand in are there for each
value of `training`. On Colab Otter can't export, and the notebook is no file there, so it is asked
for.
"""

import textwrap
from collections.abc import Mapping

PROGRESS_TEXT = """\
## How far are you?

Run the cell below at any time. It shows which visible checks have passed **since the kernel was
started**, and what they are worth; it runs no check itself."""

PROGRESS_CODE = """\
from autograder.checks.overview import progress

progress(
{names}
    by_hand={by_hand},
)"""


def progress_code(questions: Mapping[str, bool]) -> str:
    """The cell that shows the overview; `questions` tells of each whether a person grades it."""
    quoted = {name: f'"{name}"' for name in questions}
    names = textwrap.fill(
        ", ".join(quoted.values()) + ",", 88, initial_indent="    ", subsequent_indent="    ",
        break_on_hyphens=False,
    )  # fmt: skip
    by_hand = ", ".join(quoted[name] for name, manual in questions.items() if manual)
    return PROGRESS_CODE.format(names=names, by_hand=f"[{by_hand}]")


SUBMIT_TEXT = """\
## Submit

Restart the kernel and run all cells once more, save the notebook, then run the cell below: it
makes a zip file for you to hand in. The notebook's .ipynb file will do as well: **on Colab** use
*File → Download → Download .ipynb*, and hand in that file.

The file's name plays no part in grading. Leave the cells that were given as they are; your own
additional cells are welcome."""

SUBMIT_CODE = """\
from glob import glob

if "COLAB_RELEASE_TAG" in os.environ:
    print("On Colab: File > Download > Download .ipynb, and hand in that file.")
else:
    try:
        grader.export(pdf=False, ignore_log=True)
        for made in sorted(glob("*.zip"), key=os.path.getmtime)[-1:]:
            print("Hand in this file:", os.path.abspath(made))
            print("It holds the notebook as you last saved it.")
    except (ValueError, OSError) as error:  # for instance two notebooks in one folder
        print(f"No zip was made ({{error}}). Hand in this notebook's .ipynb file itself.")"""

CHECKPOINT_TEXT = """\
## Submit

Restart the kernel and run all cells once more, save the notebook, then run the cell below: it
makes a zip file of the notebook and the folder `checkpoints`, which holds your trained networks.
Hand in that zip file, not the notebook alone: your networks are **not trained again** when they are
graded. So after each change of a network, its training or its data, run its training cell again.

The file's name plays no part in grading. Leave the cells that were given as they are; your own
additional cells are welcome."""

CHECKPOINT_CODE = """\
from glob import glob

kept = ["checkpoints"] if os.path.isdir("checkpoints") else []
if not kept:
    print("There is no folder checkpoints: no network is handed in. Run the training cells first.")
if "COLAB_RELEASE_TAG" in os.environ:
    import json
    import shutil
    from google.colab import _message, files

    shutil.rmtree("handed_in", ignore_errors=True)
    os.mkdir("handed_in")
    for folder in kept:
        shutil.copytree(folder, f"handed_in/{{folder}}")
    try:
        notebook = _message.blocking_request("get_ipynb", timeout_sec=60)["ipynb"]
        with open("handed_in/{name}.ipynb", "w", encoding="utf-8") as file:
            json.dump(notebook, file)
    except Exception as error:
        print(f"The zip lacks the notebook ({{error}}). Use File > Download > Download .ipynb, and "
              "put that file into the zip, beside the folder checkpoints.")
    files.download(shutil.make_archive("{name}", "zip", "handed_in"))
else:
    try:
        grader.export(pdf=False, ignore_log=True, files=kept)
        for made in sorted(glob("*.zip"), key=os.path.getmtime)[-1:]:
            print("Hand in this file:", os.path.abspath(made))
            print("It holds the notebook as you last saved it, and", *(kept or ["no network"]))
    except (ValueError, OSError) as error:  # for instance two notebooks in one folder
        print(f"No zip was made ({{error}}). Zip the notebook and the folder checkpoints.")"""

SUBMIT = {
    "rerun": (SUBMIT_TEXT, SUBMIT_CODE),
    "checkpoint": (CHECKPOINT_TEXT, CHECKPOINT_CODE),
}
