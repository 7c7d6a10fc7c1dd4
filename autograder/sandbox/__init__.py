"""The one place that starts untrusted processes, watches them, and ends them.

A job is one submission. A server process imports what all jobs need, runs nothing of any student
and holds nothing secret; for each job it forks a child that confines itself before it reads the
submission (worker/). We chose that over bubblewrap around the server with a second confinement
inside: it has one mechanism in place of two, needs no program to be installed, works below
containers that allow one level of namespaces, and root can be given up after the mounts are made,
so that Python may lie in a folder that only root can enter. See ARCHITECTURE.md for measurements.

What holds for every job, confined or not: the environment is built from nothing; wall time of a
cell and of all, CPU time of a process, memory, processes, open files, size of a file and kept
output are bounded; what the process sends is parsed as JSON and checked for its form, never
executed; when `Pool.run` returns, what the job has started is gone.

What holds for a confined job as well, on Linux from 5.12 for root and where users may make
namespaces (`Pool.confined`):
- It runs without any rights; for root, as a user that has no account and no files.
- It sees the system's programs and libraries and the Python that grades, read-only; its own files:
  notebook, tests, the students' package and hidden inputs, read-only; and a scratch disk in memory,
  bounded in size and number of files, which ends with it. No home folder, gradebook, inbox,
  release, hidden labels, other submissions, and nothing of this package.
- It sees no process but its own, and can signal none. It has no network, not even to this machine,
  and no System V memory, message queues, keys or memory files.
- It can't leave, by the kernel's own means, before the first process inside has ended; and when
  that ends, the kernel ends all others.

What does not hold:
- Confinement is as good as the kernel: a hole in it is a way out. For an exam with more at stake
  than points, grade in a virtual machine.
- Tests are loaded into the process that runs the submission, so hidden test cases can be read by
  its code, and shown by its outputs; so can hidden inputs, but not their labels.
- Evidence comes from that process: whoever changes the checks in its memory forges it. What is
  judged then is still bounded: points come from grading.yml, labels are outside.
- Memory of several processes together is looked at several times a second, so it may be over its
  bound for that long; the scratch disk counts apart.
- CPU time is shared fairly only as far as the system does so among sessions.
- Folders below /usr are visible, and so is all that lies in the folder of the Python environment:
  keep courses elsewhere. System calls that have no use in a notebook are refused on x86-64 and
  arm64 only.
- With a GPU, its devices and /sys are visible, and the memory bound of a single process is left to
  the looks from outside. What a driver lets processes do to each other isn't bounded.
- Not confined (no namespaces, not Linux): a job can read and change what the user who grades can,
  use the network, and send signals to the grader. Each job then has a server of its own, without
  the head start. One that ends server and supervisor and leaves its session between two looks
  escapes; off Linux, so may a daemon that leaves its process group.

Events, in the order in which they come; one that comes out of turn is refused and counted:
    ready; cell {index, id, question}; cell_done {index, error, line}; question {question};
    evidence {question, case, check, evidence}; question_done {question, error}; finished
and at any time tampered {question, what}: changes of the measuring process that were found in this
question's cell or tests, in words.
"""

from autograder.sandbox.bounds import Bounds
from autograder.sandbox.client import ServerFailed
from autograder.sandbox.pool import CONFINED, Pool, SandboxMissing
from autograder.sandbox.progress import in_words
from autograder.sandbox.watch import Outcome

__all__ = ["CONFINED", "Bounds", "Outcome", "Pool", "SandboxMissing", "ServerFailed", "in_words"]
