"""Hostile and unlucky answer cells, each beside the status and points that it must get.

The assignment (see `assignment`) has four questions of one point: `before`, `attacked`, `model`,
`after`; the cell is the answer to `attacked`, all other answers are right. So `WRONG` in a cell
must give no point and `RIGHT` must give one, and what comes before and after must not suffer.
A cell that spies ends in `RIGHT if stolen else WRONG`: a point would mean that it got something.
"""

from dataclasses import dataclass

RIGHT = """
def pool_output_size(size, kernel, stride=None, padding=0):
    return (size + 2 * padding - kernel) // (stride or kernel) + 1
"""
WRONG = """
def pool_output_size(size, kernel, stride=None, padding=0):
    return 1
"""
SPY = RIGHT + "if not stolen:\n    pool_output_size = lambda *a: 1\n"
PIPE = """
import fcntl, json, os, stat
def _pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and fd > 2
    except OSError:
        return False
fd = next(fd for fd in range(1023, 2, -1) if _pipe(fd))
def send(line):
    data = memoryview(line.encode() + b"\\n")
    while data:
        data = data[os.write(fd, data):]
def evidence(text, question="attacked", case="sizes"):
    send('{"event": "evidence", "question": "%s", "case": "%s", "check": "output_size", '
         '"evidence": %s}' % (question, case, text))
"""
SINK = """
from autograder.checks import core
def pool_output_size(*arguments):
    sink = core._sink
    def forge(record):
        core._sink = sink
        record["evidence"]["answers"] = record["evidence"]["expected"]
        sink(record)
    if type(sink) is not type(forge):
        core._sink = forge
    return 1
"""
FORGED = '{"arguments": [[4, 2]], "answers": [2.0], "expected": [2], "oracle": "nn.MaxPool2d"}'
SIMPLE_CNN = """
from torch import nn
class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, %s), nn.ReLU(), nn.Linear(%s, 10))
    def forward(self, images):
        return self.layers(images)
"""


@dataclass(frozen=True)
class Input:
    """A cell, the status of the attempt, points of the four questions, and words of its note.

    None are points that stay open. The status "graded" means that nothing is left to a person.
    """

    cell: str
    status: str = "graded"
    points: tuple[int | None, ...] = (1, 1, 1, 1)
    says: str = ""


def full(cell: str) -> Input:
    """It disturbs nothing: full marks."""
    return Input(cell + RIGHT)


def nothing(cell: str) -> Input:
    """It gains nothing; the other questions are as they would be."""
    return Input(cell, points=(1, 0, 1, 1))


def ends(cell: str, says: str) -> Input:
    """It ends its process: what came before is kept, and a person is told why."""
    return Input(cell, "partial", (1, 0, 0, 0), says)


def flagged(cell: str, points: tuple[int | None, ...], says: str) -> Input:
    """It looks like cheating: a person has to decide."""
    return Input(cell, "flagged", points, says)


def reads(*paths: str) -> Input:
    """It opens files and lists folders that it must not see."""
    return nothing(
        f"import os\nstolen = []\nfor path in {paths}:\n"
        "    try: stolen += os.listdir(path) if os.path.isdir(path) else [open(path).read()]\n"
        "    except OSError: pass\n" + SPY
    )


def calls(number: str, *arguments: str) -> Input:
    """It makes a system call that must fail; numbers are those of x86-64 and arm64."""
    return nothing(
        "import ctypes, platform\n"
        f"number = dict(zip(('x86_64', 'aarch64'), ({number})))[platform.machine()]\n"
        f"stolen = ctypes.CDLL(None).syscall(number, {', '.join(arguments)}) >= 0\n" + SPY
    )


TRIES = "import contextlib, os\nwith contextlib.suppress(OSError): "

INPUTS = {
    # --- loops: E1 -------------------------------------------------------------------------------
    "E1 loop": Input(f"{WRONG}while True: pass", "partial", (1, 0, 1, 1), "time limit"),
    "E1 loop in C": ends("any(iter(int, 1))", "did not react"),
    "E1 regex": Input("import re\nre.match('(a+)+$', 'a' * 60 + 'b')", "partial", (1, 0, 1, 1)),
    "E1 swallowed": ends(
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "did not react",
    ),
    "E1 in a test": Input(
        "def pool_output_size(*a):\n    while True: pass", "partial", (1, 0, 1, 1), "time limit"
    ),
    # --- deaths: E2 ------------------------------------------------------------------------------
    "E2 exit": ends("import os\nos._exit(1)", "exit status 1"),
    "E2 segfault": ends("import ctypes\nctypes.string_at(0)", "segmentation fault"),
    "E2 recursion": ends(
        "import sys\nsys.setrecursionlimit(10**9)\n"
        "class D:\n    def __repr__(s): return repr(D())\nrepr(D())",
        "killed by signal 11",
    ),
    "E2 leaves": nothing("import sys\nsys.exit()" + RIGHT),
    "E2 memory": nothing("held = []\nwhile True: held.append(bytearray(50 << 20))"),
    "E2 alarm": ends(
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(9)",
        "signal 14",
    ),
    "E2 closes everything": ends("import os\nos.closerange(3, 5000)", "exit status 70"),
    # --- changed surroundings: E3-E10 ------------------------------------------------------------
    "E3 deletes": full(
        "import os, shutil\n"
        "for place in ('/job', '/tmp', '/dev/shm', os.environ['HOME'], '/etc'):\n"
        "    shutil.rmtree(place, ignore_errors=True)\nos.chdir('/')\n"
    ),
    "E4 names": full("sum = 0; list = [1]; print = 3; max = any = isinstance = type = None\n"),
    "E5 magic": Input("\n\n%%time\nimport random" + RIGHT),
    "E6 stubs": full("%matplotlib widget\n!pip install nothing\n%pip install nothing\n"),
    "E6 input": nothing("n = input('n? ')" + RIGHT),
    "E6 colab": full("from google.colab import drive\ndrive.mount('/content/drive')\n"),
    "E7 download": nothing("from urllib.request import urlopen\nurlopen('http://example.org')"),
    "E8 data loader": full(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.ones(64, 1 << 16))\n"
        "assert sum(float(b.sum()) for b, in DataLoader(data, 16, num_workers=2)) == 1 << 22\n"
    ),
    "E9 threads": full("import torch\nassert torch.get_num_threads() == 1\n"),
    "E10 forks": full("import os\nif os.fork():\n    os.wait()\n"),
    # --- gains: T1-T6 ----------------------------------------------------------------------------
    "T1 patches": flagged(
        "import builtins, math, torch\nbuiltins.AssertionError = Warning\n"
        "torch.allclose = torch.equal = lambda *a, **k: True\nmath.isfinite = lambda *a: True\n"
        "from otter.test_files import OKTestFile\nOKTestFile.run = lambda *a: None\n" + WRONG,
        (1, 0, 1, 1),
        "torch.allclose",
    ),
    "T1 patches a judge": flagged(
        "from autograder.checks import arithmetic\n"
        "arithmetic.judge_output_size.__code__ = (lambda seen: None).__code__\n"
        "arithmetic.RULES['pooling'] = (lambda *a: 1, *arithmetic.RULES['pooling'][1:])\n" + WRONG,
        (1, 0, 1, 1),
        "judge_output_size.__code__",
    ),
    "T1 hooks": flagged(
        "import sys\nfrom torch.nn.modules.module import register_module_forward_hook\n"
        "register_module_forward_hook(lambda *a: None)\nsys.settrace(lambda *a: None)\n" + WRONG,
        (1, 0, 1, 1),
        "_global_forward_hooks",
    ),
    "T1 modules": flagged(
        "import sys, types\nfor name in ('json', 'autograder.checks', 'torch.nn.functional'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n" + WRONG,
        (1, 0, 1, 1),
        "sys.modules.json",
    ),
    "T1 equality": flagged(
        "import torch\nclass Yes(torch.Tensor):\n    def __bool__(self): return True\n"
        "torch.Tensor.__eq__ = lambda self, other: Yes(1)\n"
        "torch.Tensor.__bool__ = lambda self: True\n" + WRONG,
        (1, 0, 1, 1),
        "torch.Tensor.__bool__",
    ),
    "T1 worker": flagged(
        "import torch\nfrom autograder.checks import core\ndef pool_output_size(*a):\n"
        "    run = core._sink.func.__self__\n    type(run)._tell = lambda *a: None\n"
        "    looks = type(run._changes.__self__)\n    looks.changes = lambda self: []\n"
        "    looks.changes_after_tests = lambda self: []\n    torch.equal = lambda *a: True\n"
        "    return 1",
        (1, 0, 1, 1),
        "torch.equal",
    ),
    "T1 atexit": full("import atexit, os\natexit.register(os._exit, 0)\n"),
    "T1 thread": flagged(
        "import threading, time\ndef wait():\n    while True: time.sleep(0.01)\n"
        "threading.Thread(target=wait, daemon=True).start()\n" + WRONG,
        (1, 0, 1, 1),
        "thread",
    ),
    "T2 rewrites tests": nothing(
        "open('/job/tests/attacked.py', 'w').write('OK_FORMAT = False')" + RIGHT
    ),
    "T2 replaces tests": nothing("import os\nos.rename('/job/tests', '/job/elsewhere')" + RIGHT),
    "T2 looks everywhere": nothing(
        "import os\nnames = {'hidden_digits_labels.npz', 'gradebook.sqlite', 'tiny-autograder.zip',"
        " 'tiny.md', 'tiny.py', 's0.ipynb', 'scratch.txt', 'grading.yml'}\nstolen = []\n"
        "for folder, below, files in os.walk('/'):\n"
        "    below[:] = [b for b in below if os.path.join(folder, b) not in ('/proc', '/usr')]\n"
        "    stolen += names.intersection(files)\n" + SPY
    ),
    "T2 hidden labels": nothing(
        "import glob, sys\nstolen = [f for p in [*sys.path, '/job'] if p\n"
        "          for f in glob.glob(p + '/**/hidden*labels*', recursive=True)]\n" + SPY
    ),
    "T3 equals everything": nothing(
        "class Any(int):\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
        "    __hash__ = None\npool_output_size = lambda *a: Any()"
    ),
    "T4 pickle": full(
        "import os, pickle\n"
        "class P:\n    def __reduce__(s): return os.system, ('touch /tmp/owned',)\n"
        "for name in ('.OTTER_LOG', 'results.pkl', '/job/.OTTER_LOG'):\n"
        "    open(name, 'wb').write(pickle.dumps(P()))\n"
    ),
    "T5 parameters": flagged(
        RIGHT + "from torch import nn\nshown = nn.Module.parameters\n"
        "nn.Module.parameters = lambda self, *a: iter(list(shown(self))[-1:])\n"
        "nn.Module.named_parameters = lambda self, *a, **k: iter([])\nBIG = True\n",
        (1, 1, 0, 1),
        "named_parameters",
    ),
    "T6 more tests": nothing("open('/job/tests/bonus.py', 'w').write('OK_FORMAT = False')" + RIGHT),
    "T6 more points": flagged(
        f"{PIPE}evidence({FORGED!r}, 'bonus')\nevidence({FORGED!r}, case='bonus')" + WRONG,
        (1, 0, 1, 1),
        "2 lines",
    ),
    # --- the machine: T7 -------------------------------------------------------------------------
    "T7 network": nothing(
        "import socket\nstolen = False\n"
        "for address in (('127.0.0.1', PORT), ('192.0.2.1', 80), ('1.1.1.1', 53)):\n"
        "    try: stolen = bool(socket.create_connection(address, 1)) or stolen\n"
        "    except OSError: pass\n" + SPY
    ),
    "T7 unix socket": nothing(
        "import socket\nstolen = False\nfor name in ('/run/docker.sock', '\\0tiny'):\n"
        "    try: stolen = socket.socket(socket.AF_UNIX).connect(name) is None\n"
        "    except OSError: pass\n" + SPY
    ),
    "T7 fork bomb": nothing("import os\nwhile True: os.fork()"),
    "T7 busy processes": full(
        "import os\nfor _ in range(10):\n    if os.fork() == 0:\n        while True: pass\n"
    ),
    "T7 100 GB": nothing("held = bytearray(100 << 30)" + RIGHT),
    "T7 shared memory": ends(
        "import mmap, time\nheld, block = mmap.mmap(-1, 3 << 30), bytes(1 << 20)\n"
        "for at in range(0, len(held), 1 << 20): held[at:at + (1 << 20)] = block\ntime.sleep(9)",
        "MiB of memory",
    ),
    "T7 10 GB file": nothing(
        "with open('big', 'wb') as file:\n"
        "    for _ in range(10_000): file.write(bytes(1 << 20))" + RIGHT
    ),
    "T7 many files fill the disk": nothing(
        "for n in range(1000): open(f'/tmp/{n}', 'wb').write(bytes(16 << 20))" + RIGHT
    ),
    "T7 shm filled": nothing(
        "for n in range(1000): open(f'/dev/shm/{n}', 'wb').write(bytes(16 << 20))" + RIGHT
    ),
    "T7 inode bomb": nothing("for n in range(10**6): open(str(n), 'w').close()" + RIGHT),
    "T7 open files": nothing("held = [open('/dev/null') for _ in range(5000)]" + RIGHT),
    "T7 daemon": full(
        "import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n        time.sleep(999)\n"
        "    os._exit(0)\nos.wait()\n"
    ),
    "T7 signals": full(
        "import os, signal\nfor pid in (1, os.getppid(), -1):\n    for n in (15, 9, 19):\n"
        "        try: pid == -1 and n != 9 or n == 15 or os.kill(pid, n)\n"
        "        except OSError: pass\n"
    ),
    "T7 signals to all pids": full(
        "import os\nfor pid in range(2, 70_000):\n    try: pid == os.getpid() or os.kill(pid, 9)\n"
        "    except OSError: pass\n"
    ),
    "T7 output": full("line = 'x' * 1023\nfor _ in range(1 << 20): print(line)\n"),
    "T7 output past python": full(
        "import os\nfor _ in range(1 << 14): os.write(1, bytes(1 << 16))\n"
    ),
    # --- secrets ---------------------------------------------------------------------------------
    "reads shadow": reads("/etc/shadow", "/etc/sudoers", "/etc/ssh"),
    "reads homes": reads("/root/.ssh", "/root/.bashrc", "/home", "/var/mail", "/mnt", "/srv"),
    "reads other jobs": nothing(
        "import glob\n"
        "stolen = glob.glob('/tmp/*/*/notebook.ipynb') + glob.glob('/tmp/*/job.json')\n"
        "stolen += glob.glob('/tmp/server-*') + glob.glob('/var/*')\n" + SPY
    ),
    "reads environments": nothing(
        "import glob\nstolen = False\nfor path in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: stolen = 'HOSTILE_SECRET' in open(path).read() or stolen\n"
        "    except OSError: pass\n" + SPY
    ),
    "reads memory of the first process": nothing(
        "stolen = False\ntry: stolen = bool(open('/proc/1/mem', 'rb+'))\n"
        "except OSError: pass\n" + SPY
    ),
    "sees other processes": nothing(
        "import os\nstolen = [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 9]\n" + SPY
    ),
    "follows links": nothing(
        "import os\nos.symlink('/etc/shadow', 'link')\n"
        "os.symlink('/proc/1/root/etc/shadow', 'l2')\n"
        "os.remove('/job/executed.ipynb')\nos.symlink('/etc/shadow', '/job/executed.ipynb')" + RIGHT
    ),
    # --- rights ----------------------------------------------------------------------------------
    "ptrace": nothing("import ctypes\nstolen = ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0\n" + SPY),
    "becomes root": nothing(
        "import os\nstolen = False\nfor call in (os.setuid, os.setgid, os.seteuid):\n"
        "    try: stolen = call(0) is None\n    except OSError: pass\n"
        "stolen = stolen or os.getuid() == 0\n" + SPY
    ),
    "mounts": nothing(
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "stolen = libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, 0) == 0\n"
        "stolen |= libc.umount2(b'/job/tests', 2) == 0\n"
        "stolen |= libc.mount(None, b'/', None, 4096 | 32, None) == 0\n" + SPY
    ),
    "new namespaces": nothing(
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "stolen = any(libc.unshare(n) == 0 for n in (0x10000000, 0x20000, 0x40000000))\n" + SPY
    ),
    "makes a device": nothing(
        "import os, stat\nstolen = False\n"
        "try: stolen = os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0)) is None\n"
        "except OSError: pass\n" + SPY
    ),
    "raises limits": nothing(
        "import resource\nstolen = False\n"
        "for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_DATA,\n"
        "             resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):\n"
        "    try: stolen = resource.setrlimit(kind, (1 << 40, 1 << 40)) is None\n"
        "    except (OSError, ValueError): pass\n" + SPY
    ),
    "hidden memory": calls("319, 279", "b'x'", "0"),
    "keys of the user": calls("250, 219", "0", "-4", "1"),
    "system settings": nothing(
        "stolen = False\nfor name in ('kernel/hostname', 'vm/overcommit_memory', "
        "'user/max_user_namespaces'):\n"
        "    try: stolen = bool(open('/proc/sys/' + name, 'w').write('1'))\n"
        "    except OSError: pass\n" + SPY
    ),
    "writes to the system": nothing(
        "import os, sys\nstolen = []\n"
        "for place in (sys.prefix, '/usr/lib', '/etc', '/', os.path.dirname(os.__file__)):\n"
        "    try: stolen += [open(place + '/left', 'w')]\n    except OSError: pass\n" + SPY
    ),
    # --- evidence --------------------------------------------------------------------------------
    # Evidence that comes while no question is tested is refused: the real one counts, and a person
    # is told, as an honest worker sends nothing out of turn.
    "forged evidence": flagged(f"{PIPE}evidence({FORGED!r}){WRONG}", (1, 0, 1, 1), "1 line"),
    "forged in turn": flagged(
        f"{PIPE}def pool_output_size(*a):\n    evidence({FORGED!r})\n    return 1",
        (1, None, 1, 1),
        "more than once",
    ),
    "forged through the sink": flagged(SINK, (1, 1, 1, 1), "evidence that no check has sent"),
    "evidence with NaN": flagged(
        PIPE + 'evidence(\'{"arguments": [[4, 2]], "answers": [NaN]}\')' + WRONG,
        (1, 0, 1, 1),
        "1 line",
    ),
    "wrong schema": flagged(
        PIPE + "def pool_output_size(*a):\n    evidence('{\"passed\": true}')\n    os._exit(0)",
        (1, None, 0, 0),
        "does not fit",
    ),
    "deep JSON": flagged(
        PIPE + "evidence('{\"a\": ' + '[' * 10**5 + ']' * 10**5 + '}')" + WRONG,
        (1, 0, 1, 1),
        "1 line",
    ),
    "a long line": flagged(PIPE + "send('x' * (64 << 20))" + WRONG, (1, 0, 1, 1), "1 line"),
    "10^6 records": flagged(
        f"{PIPE}for _ in range(10**6): evidence({FORGED!r})", (1, 0, 0, 0), "lines of evidence"
    ),
    "forged end": flagged(
        f'{PIPE}evidence({FORGED!r})\nsend(\'{{"event": "finished"}}\')\nos._exit(0)',
        (1, 0, 0, 0),
        "2 lines",
    ),
    "forged end in turn": flagged(
        f"{PIPE}def pool_output_size(*a):\n    evidence({FORGED!r})\n"
        '    send(\'{"event": "finished"}\')\n    os._exit(0)',
        (1, 1, 0, 0),
        "1 line",
    ),
}
