"""Which requirements are the same, and which are kept at all."""

from pathlib import Path

import pytest

from sagelet_engine.runtimes.node.requirements_key import NotKept, key_of

FILE = "requirements.txt"


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def key(text: str, path: tuple[str, ...] = (), **environ: str) -> str:
    Path(FILE).write_text(text)
    return key_of(FILE, path, environ)


def test_what_pip_does_not_read_makes_no_difference() -> None:
    assert key("torch==2.9.0\n") == key("torch==2.9.0  # the newest\n") == key("torch==2.9.0", HOME="/root")


@pytest.mark.parametrize("text", ["torch==2.8.0", "torch==2.9.0\nnumpy", "--index-url https://one.test\ntorch==2.9.0"])
def test_what_it_reads_does(text: str) -> None:
    assert key(text) != key("torch==2.9.0")


def test_its_variables_do() -> None:
    assert key("torch", PIP_INDEX_URL="https://one.test") != key("torch", PIP_INDEX_URL="https://two.test")


def test_what_is_installed_already_does(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    (packages / "numpy-1.0.dist-info").mkdir(parents=True)
    before = key("torch", (str(packages),))
    (packages / "numpy-1.0.dist-info").rename(packages / "numpy-2.0.dist-info")
    assert key("torch", (str(packages),)) != before


@pytest.mark.parametrize(
    "text",
    [
        "./one.whl",
        "one.whl",
        "one @ file:///{here}/one.whl",
        "./one.whl[extra]",
        "./one.whl; python_version > '3'",
        "-r one.whl",
    ],
)
def test_the_content_of_its_files_does(tmp_path: Path, text: str) -> None:
    text = text.replace("{here}", str(tmp_path).lstrip("/"))
    (tmp_path / "one.whl").write_text("numpy==1\n")
    before = key(text)
    assert key(text) == before
    (tmp_path / "one.whl").write_text("numpy==2\n")
    assert key(text) != before


def test_nested_files_may_name_each_other(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text(f"-c {FILE}\nnumpy==1\n")
    assert key("--requirement=more.txt")


@pytest.mark.parametrize(
    "text",
    [
        "-e .",
        "--editable=.",
        "./directory",
        "--find-links ./directory",
        "-f directory",
        "git+https://git.test/one@main",
        "one @ git+ssh://git.test/one",
        "-r https://one.test/requirements.txt",
        "./absent.whl",
        "${WHEELS}/one.whl",
    ],
)
def test_what_does_not_follow_from_files_is_not_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(NotKept):
        key(text)


def test_what_goes_elsewhere_is_not_kept() -> None:
    with pytest.raises(NotKept, match="PIP_TARGET is set"):
        key("numpy", PIP_TARGET="/opt/ml/code/packages")


def test_variables_that_pip_puts_into_it_do() -> None:
    text = "torch==${TORCH_VERSION}"
    one, two = key(text, TORCH_VERSION="2.8.0"), key(text, TORCH_VERSION="2.9.0")
    assert one != two
    assert one != key(text)
    assert two == key("torch==2.9.0", TORCH_VERSION="2.9.0")


def test_a_file_that_a_variable_names_does() -> None:
    Path("more.txt").write_text("numpy==1")
    before = key("-r ${MORE}", MORE="more.txt")
    Path("more.txt").write_text("numpy==2")
    assert key("-r ${MORE}", MORE="more.txt") != before


def test_why_it_is_not_kept_tells_no_secret() -> None:
    with pytest.raises(NotKept) as reason:
        key("one @ git+https://${TOKEN}@git.test/one", TOKEN="sesame")
    assert "sesame" not in str(reason.value)
    assert "${TOKEN}" in str(reason.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_it_is_read_as_pip_reads_it(encoding: str) -> None:
    """`pip freeze > requirements.txt` of PowerShell is UTF-16."""
    Path(FILE).write_text("torch==2.9.0\n", encoding)
    assert key_of(FILE, (), {}) == key("torch==2.9.0\n")


def test_what_is_no_utf_8_is_not_kept() -> None:
    Path(FILE).write_bytes(b"torch==2.9.0 \xe9\n")
    with pytest.raises(NotKept, match="UTF-8"):
        key_of(FILE, (), {})


def test_variables_may_be_no_utf_8() -> None:
    assert key("torch", PIP_INDEX_URL="\udce9") != key("torch")


def test_a_directory_of_wheels_is_seen_without_a_space() -> None:
    Path("wheels").mkdir()
    with pytest.raises(NotKept, match="directory"):
        key("--no-index -fwheels\ntorch")


def test_files_that_name_each_other_end() -> None:
    Path("a").mkdir()
    Path("a/one.txt").write_text("-r ../a/one.txt\n")
    assert key("-r a/one.txt")


# --- pip's settings elsewhere -----------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """Variables of a job whose directories are here."""
    return {"SAGEMAKER_BASE_DIR": str(tmp_path), "HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": "/nowhere"}


@pytest.mark.parametrize("place", ["wheels", "{here}/wheels", "file://{here}/wheels", "https://one.test {here}/wheels"])
@pytest.mark.parametrize("name", ["PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_find_links"])
def test_a_directory_of_this_jobs_that_a_variable_names_is_not_kept(
    tmp_path: Path, job: dict[str, str], name: str, place: str
) -> None:
    """Another job's of that name has other wheels."""
    (tmp_path / "wheels").mkdir()
    with pytest.raises(NotKept, match="directory of this job's"):
        key("one", **job, **{name: place.format(here=tmp_path)})


def test_a_directory_of_this_machines_is_an_index(
    tmp_path_factory: pytest.TempPathFactory, job: dict[str, str]
) -> None:
    wheels = tmp_path_factory.mktemp("wheels")
    assert key("one", **job, PIP_FIND_LINKS=str(wheels)) != key("one", **job)


@pytest.mark.parametrize("name", ["PIP_REQUIREMENT", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "PIP_FIND_LINKS"])
def test_the_content_of_a_file_that_a_variable_names_does(job: dict[str, str], name: str) -> None:
    Path("more.txt").write_text("one==1")
    before = key("one", **job, **{name: "more.txt"})
    Path("more.txt").write_text("one==2")
    assert key("one", **job, **{name: "more.txt"}) != before


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("own.conf", {"PIP_CONFIG_FILE": "own.conf"}),
        ("home/.config/pip/pip.conf", {}),
        ("home/.pip/pip.conf", {}),
        ("xdg/pip/pip.conf", {"XDG_CONFIG_HOME": "xdg"}),
    ],
)
def test_pips_configuration_does(tmp_path: Path, job: dict[str, str], place: str, variables: dict[str, str]) -> None:
    def configured(text: str) -> str:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
        return key("one", **job, **variables)

    one = configured("[global]\nindex-url = https://one.test\n")
    assert one != configured("[global]\nindex-url = https://two.test\n")
    assert one == configured("[global]\nindex-url = https://one.test\n")
    (tmp_path / "wheels").mkdir()
    with pytest.raises(NotKept, match="PIP_FIND_LINKS names a directory"):
        configured("[install]\nfind-links =\n  wheels\n")
    with pytest.raises(NotKept, match="PIP_TARGET is set"):
        configured("[install]\ntarget = /opt/ml/code\n")


def test_what_a_package_is_built_with_does() -> None:
    assert key("one", CMAKE_ARGS="-DGGML_CUDA=on") != key("one")
