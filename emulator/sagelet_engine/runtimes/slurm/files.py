"""The files through which an allocation, its hosts' shims and servers of any age communicate. Standard library only.

In the allocation's directory:

- `job.json`: Slurm's number of the job, once it is submitted.
- `lock`: held by the submitting process, and by sbatch itself: it outlives a server that is killed meanwhile.
- `claimed/`: made by the first script that runs. Another script of the same request ends at once.
- `nodes`, `addresses`: the nodes by SLURM_NODEID, and the address of each; written by the script.
- `controls`: the control file of each host, one a line; written by the server.
- `go.json`: the hosts may start, and where their files are; written by the server.
- `ending`: replaces the control files where nodes share no files; the server passes it on.
- `slurm.log`: what script, srun and shims print.

In the `run_dir` of a host, beside those of `host_files.py`: `control`, and `usage.json`, the answer to a question in
`control`.
"""

JOB = "job.json"
LOCK = "lock"
CLAIMED = "claimed"
NODES = "nodes"
ADDRESSES = "addresses"
CONTROLS = "controls"
GO = "go.json"
ENDING = "ending"
LOG = "slurm.log"
CONTROL = "control"
USAGE = "usage.json"

#: The requests: bytes in `control`.
TERMINATE, KILL, SLURM_ENDS, MEASURE = "T", "K", "S", "U"
#: A signal from outside. It occurs beside the requests in `heard` of `exit.json` (host_files).
SIGNAL = "s"
