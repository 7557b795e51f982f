"""Data directories that the nodes of a cluster can, may or cannot see."""

import socket
from pathlib import Path

import pytest

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.runtimes.slurm.data import check_shared

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw
24 22 0:40 / /shared rw,relatime - nfs4 storage:/shared rw
25 22 0:41 / /my\\040disk rw,relatime - xfs /dev/sdb1 rw
26 22 0:42 / /over rw,relatime - tmpfs tmpfs rw
27 26 0:43 / /over rw,relatime - lustre mgs:/l rw
28 22 0:44 / /run/user rw,relatime - overlay overlay rw
"""
NODES = ("n1.lab.example", "n2.lab.example")


@pytest.mark.parametrize("data", ["/shared/sagelet", "/over/sagelet"])
def test_a_file_system_of_several_machines(data: str) -> None:
    assert check_shared(Path(data), NODES, MOUNTS) == ""


@pytest.mark.parametrize(
    ("data", "kind"), [("/srv/sagelet", "ext4"), ("/my disk/sagelet", "xfs"), ("/sharedx", "ext4")]
)
def test_a_disk_of_this_machine_may_be_exported(data: str, kind: str) -> None:
    said = check_shared(Path(data), NODES, MOUNTS)
    assert f"{data} is on {kind} of this machine" in said
    assert "--slurm-files s3" in said


@pytest.mark.parametrize("data", ["/dev/shm/sagelet", "/run/user/0"])
def test_a_file_system_that_no_other_machine_sees_is_refused(data: str) -> None:
    with pytest.raises(SettingsError, match=r"n1\.lab\.example cannot see; .* --slurm-files s3"):
        check_shared(Path(data), NODES, MOUNTS)


def test_nodes_that_are_this_machine_see_everything() -> None:
    here = socket.gethostname()
    assert check_shared(Path("/dev/shm/sagelet"), {here, f"{here.partition('.')[0]}.example"}, MOUNTS) == ""


def test_a_machine_without_a_table_of_mounts_says_nothing() -> None:
    assert check_shared(Path("/srv"), NODES, "") == ""
