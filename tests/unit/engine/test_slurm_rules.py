"""The file of --slurm-rules: which rule counts, and what is said of a wrong one."""

from pathlib import Path

import pytest

from sagelet_engine.base.errors import ClientFault, SettingsError
from sagelet_engine.runtimes.slurm.rules import Placement, SlurmRules, read_rules

ROLE = "arn:aws:iam::123456789012:role/nlp-training"
FILE = """
[default]
partition = "cpu"
account = "everybody"

[[rule]]
tags = { team = "vision", "cost:center" = "4*" }
account = "vision"

[[rule]]
role = "arn:aws:iam::*:role/nlp-*"
instance-type = "ml.p*"
partition = "gpu,gpu-large"
qos = "high"
constraint = "[a100*2&ib]|h100"
gres = "gpu:a100:4"
memory = "200G"
cpus = "32"
options = ["--exclude=old[1-4]", "--exclusive"]

[[rule]]
instance-type = "ml.p*"
refuse = "GPU instances are for the NLP group; ask at its desk"
"""


@pytest.fixture
def rules(tmp_path: Path) -> SlurmRules:
    (tmp_path / "rules.toml").write_text(FILE)
    return read_rules(tmp_path / "rules.toml")


def test_a_role_and_an_instance_type_lead_to_a_partition(rules: SlurmRules) -> None:
    placement = rules.placement(ROLE, {}, ["ml.p3.2xlarge"])
    assert placement.options == [
        "--partition=gpu,gpu-large",
        "--account=everybody",
        "--qos=high",
        "--constraint=[a100*2&ib]|h100",
        "--gres=gpu:a100:4",
        "--mem=200G",
        "--cpus-per-task=32",
        "--exclude=old[1-4]",
        "--exclusive",
    ]


def test_tags_all_have_to_fit_and_the_first_rule_counts(rules: SlurmRules) -> None:
    tags = {"team": "vision", "cost:center": "4711"}
    assert rules.placement(ROLE, tags, ["ml.p3.2xlarge"]) == Placement({"partition": "cpu", "account": "vision"})
    assert rules.placement(ROLE, {"team": "vision"}, ["ml.m5.large"]) == Placement(
        {"partition": "cpu", "account": "everybody"}
    )
    assert rules.placement(ROLE, {**tags, "cost:center": "5"}, ["ml.m5.large"]) == Placement(
        {"partition": "cpu", "account": "everybody"}
    )


def test_a_job_of_several_types_fits_by_any_of_them(rules: SlurmRules) -> None:
    assert rules.placement(ROLE, {}, ["ml.m5.large", "ml.p3.2xlarge"]).places["partition"] == "gpu,gpu-large"


def test_a_rule_can_refuse(rules: SlurmRules) -> None:
    with pytest.raises(ClientFault, match=r"^GPU instances are for the NLP group; ask at its desk$"):
        rules.placement(ROLE.replace("nlp-", "web-"), {}, ["ml.p3.2xlarge"])


def test_without_a_file_everything_is_left_to_slurm() -> None:
    assert SlurmRules().placement(ROLE, {}, ["ml.m5.large"]).options == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]]\npartition = gpu\n", r"line 2"),
        (
            '[[rule]]\nqos = "a"\n\n[[rule]]\npartiton = "gpu"\n',
            r"rule 2 \(line 4\): unknown key 'partiton'; known are role",
        ),
        ('[[rule]]\npartition = "gpu; rm -rf /"\n', r"rule 1 \(line 1\): partition = 'gpu; rm -rf /' is not a value"),
        ('[[rule]]\npartition = "gpu\\n#SBATCH -w n1"\n', r"rule 1 \(line 1\): partition"),
        ("[[rule]]\npartition = 3\n", r"rule 1 \(line 1\): partition = 3"),
        ('[[rule]]\nrole = "*"\n', r"rule 1 \(line 1\): give it one or more of partition"),
        ('[[rule]]\nrefuse = "no"\nqos = "x"\n', r"rule 1 \(line 1\): give it one or more"),
        ('[[rule]]\nrole = ""\nqos = "x"\n', r"rule 1 \(line 1\): role must be a text"),
        ('[[rule]]\ntags = "nlp"\nqos = "x"\n', r"rule 1 \(line 1\): tags must be a table"),
        ('[[rule]]\noptions = "--exclusive"\n', r"rule 1 \(line 1\): options must be a list"),
        ('[[rule]]\noptions = ["-w n1"]\n', r"'-w n1' is not an option of sbatch"),
        ('[[rule]]\noptions = ["--time=1"]\n', r"rule 1 \(line 1\): --time cannot be given"),
        ('[[rule]]\noptions = ["--mem=1G"]\n', r"rule 1 \(line 1\): --mem cannot be given"),
        ('[default]\nrole = "*"\n', r"\[default\]: unknown key 'role'"),
        ('[rule]\nqos = "x"\n', r"write one \[default\] and a \[\[rule\]\]"),
        ("defaults = 1\n", r"the file: unknown key 'defaults'"),
        ('rule = [{ qos = "x" }, { qos = "" }]\n', r"rule 2: qos = ''"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_or_rule(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said) as raised:
        read_rules(path)
    assert str(raised.value).startswith(f"--slurm-rules {path}: ")


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_rules(tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="decode"):
        read_rules(tmp_path / "binary.toml")
