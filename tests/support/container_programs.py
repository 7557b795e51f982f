"""Stand-ins for apptainer and enroot, which Debian does not package: a namespace with the container's view, no image.

They read the command line as the real ones do, and fail on options that they do not know. They set up the mounts,
/etc/hosts, host name and environment, and exec the command, so that signals and exit codes are its own. They need root.
"""

import os
from pathlib import Path

_COMMON = '''\
#!{python} -IS
import csv, os, re, subprocess, sys

LIBC = __import__("ctypes").CDLL(None, use_errno=True)

def mount(source, target, read_only):
    made = os.mkdir if os.path.isdir(source) else lambda path: open(path, "w").close()
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        made(target)
    subprocess.run(["mount", "--bind", source, target], check=True)
    if read_only:
        subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)

def unshare(hostname=None):
    assert LIBC.unshare(0x20000 | 0x4000000) == 0, "unshare needs root"
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/opt"], check=True)
    if hostname:
        __import__("socket").sethostname(hostname)

def start(command, environment):
    os.chdir("/")
    os.execvpe(command[0], command, {{"PATH": os.environ["PATH"], **environment}})

arguments = sys.argv[1:]
def take(*names):
    """Options from the front, by name; what is not one of the names is not known."""
    found = []
    while arguments and arguments[0].startswith("-"):
        name, _, value = arguments.pop(0).partition("=")
        if name not in names:
            sys.exit(f"FATAL: unknown option {{name}}")
        found.append((name, value))
    return found
'''

_APPTAINER = """
take("--silent")
verb = arguments.pop(0)
options = take("--containall", "--no-home", "--writable-tmpfs", "--pwd", "--hostname", "--workdir", "--mount", "--nv")
image = arguments.pop(0)
said = dict(options)
mounts = []
for name, value in options:
    if name == "--mount":
        fields = next(csv.reader([value]))
        pairs = dict(field.partition("=")[::2] for field in fields)
        assert pairs["type"] == "bind"
        mounts.append((pairs["source"], pairs["destination"], "ro" in pairs))
assert os.path.isdir(said["--workdir"]) and os.path.isfile(image)
environment = {name[13:]: value for name, value in os.environ.items() if name.startswith("APPTAINERENV_")}
sources = [(os.open(source, os.O_RDONLY), target, read_only) for source, target, read_only in mounts]
unshare(said["--hostname"])
for number, target, read_only in sources:
    os.set_inheritable(number, True)
    mount(f"/proc/{os.getpid()}/fd/{number}", target, read_only)
start(arguments if verb == "exec" else ["echo", "runscript", *arguments], environment)
"""

_ENROOT = """
assert arguments.pop(0) == "start"
options = take("--rw", "--conf", "--mount", "--rc")
image = arguments.pop(0)
said = dict(options)
assert os.path.isfile(image)
printed = subprocess.run(["bash", "-c", f". {said['--conf']}; environ"], capture_output=True, text=True, check=True)
# As its envfmt does.
environment = {}
for line in printed.stdout.splitlines():
    name, _, value = line.partition("=")
    environment[name] = re.sub("^[\\"'](.*)[\\"']$", r"\\1", value)
lines = [value.split(":") for name, value in options if name == "--mount"]
sources = [(os.open(source, os.O_RDONLY), target, flags.split(",")) for source, target, _, flags in lines]
rc = open(said["--rc"]).read() if "--rc" in said else 'exec echo rc "$@"'
unshare()
for number, target, flags in sources:
    mount(f"/proc/{os.getpid()}/fd/{number}", target, "ro" in flags)
start(["/bin/sh", "-c", rc, "rc", *arguments], environment)
"""


def install(directory: Path, python: str) -> None:
    """Puts both programs into a directory for PATH."""
    directory.mkdir()
    for name, text in (("apptainer", _APPTAINER), ("enroot", _ENROOT)):
        (directory / name).write_text(_COMMON.format(python=python) + text)
        os.chmod(directory / name, 0o755)
