"""The one place that starts an untrusted process, watches it, and ends it.

What holds today, on Linux: the environment is built from nothing; time, memory, processes, file
size and output are bounded; what the process sends is parsed as JSON and checked for its form,
never executed; when `run` returns, no descendant is left, daemons included.

What does not hold yet: the process runs as the user who grades. It can read what that user can
read, use the network, write outside its folder, and send signals to the grader. Memory and
processes are looked at several times a second, so a fast process is over its bound for that long;
memory that nobody maps isn't seen. A process that ends the supervisor and leaves its session
between two looks escapes; off Linux, so may a daemon that leaves its process group. Namespaces
(bubblewrap) will close these: they belong in front of the command that `start` builds.

Events, in the order in which they come:
    ready; cell {index, id, question}; cell_done {index, error, line}; question {question};
    evidence {question, case, check, evidence}; question_done {question, error}; finished
"""

from autograder.sandbox.bounds import Bounds
from autograder.sandbox.progress import in_words
from autograder.sandbox.watch import Outcome, run

__all__ = ["Bounds", "Outcome", "in_words", "run"]
