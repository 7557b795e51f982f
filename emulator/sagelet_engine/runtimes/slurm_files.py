"""The files by which an allocation, its hosts' keepers and the servers of all times meet. Standard library only.

In the allocation's directory:

- `job.json`: Slurm's number of the job, once it is submitted.
- `lock`: held by whoever submits, and by sbatch itself: it outlives a server that is killed meanwhile.
- `claimed/`: made by the first script that runs; another one of the same order ends at once.
- `nodes`, `addresses`: the nodes by SLURM_NODEID, and the address of each; written by the script.
- `controls`: the control file of each host, a line each; written by the server.
- `go.json`: the hosts may start, and where their files are; written by the server.
- `ending`: in the place of the control files, where nodes share no files; the server passes it on.
- `slurm.log`: what script, srun and keepers print.

In the `run_dir` of a host, beside `host_files`: `control`, and `usage.json`, the answer to a question in it.
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

#: Bytes of `control`.
TERMINATE, KILL, SLURM_ENDS, MEASURE = "T", "K", "S", "U"
#: In `exit.json`: what was asked of the host before its end: bytes of `control`, and SIGNAL for a signal from outside.
HEARD = "heard"
SIGNAL = "s"
