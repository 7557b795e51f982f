"""Image URIs of requests: the forms that the SageMaker SDKs produce, and what users write by hand."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import sagelet_engine
from sagelet_api.cli.main import main
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.images.resolve import LITERAL, Resolver, explain_absent, explain_unmapped

TRAINING = f"sagelet/training:{sagelet_engine.__version__}"
CLASSIC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
DIGEST = "sha256:" + "0a" * 32

REGISTRIES = [
    CLASSIC,
    "626614931356.dkr.ecr.af-south-1.amazonaws.com",
    "204538143572.dkr.ecr.ca-west-1.amazonaws.com",
    "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn",
    "442386744353.dkr.ecr.us-gov-west-1.amazonaws.com",
    "763104351884.dkr.ecr-fips.us-east-2.amazonaws.com",
    "763104351884.dkr-ecr.us-west-2.on.aws",
    "111122223333.dkr.ecr.eu-west-1.amazonaws.com",
    "public.ecr.aws/deep-learning-containers",
]
COMPILER = [
    "pytorch-trcomp-training:1.13.1-gpu-py39",
    "pytorch-trcomp-training:1.13-gpu-py39",
    "pytorch-trcomp-training:1.12.0-gpu-py38",
    "pytorch-trcomp-training:1.12-gpu-py38",
    "pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker",
    "pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker-v1.2",
    f"pytorch-trcomp-training@{DIGEST}",
    "huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04",
    "huggingface-pytorch-trcomp-training:1.11-transformers4.21-gpu-py38-cu113-ubuntu20.04",
    "huggingface-pytorch-trcomp-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04",
    "huggingface-pytorch-trcomp-training:1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04",
]
PYTORCH = [
    "pytorch-training:1.13.1-cpu-py39",
    "pytorch-training:1.13-gpu-py39",
    "pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker",
    "pytorch-training:2.8-cpu-py312",
    "pytorch-training",
    f"pytorch-training:2.8-cpu-py312@{DIGEST}",
    "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04",
    "huggingface-pytorch-training:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04",
    "huggingface-pytorch-training:2.8.0-transformers4.56.2-gpu-py312-cu129-ubuntu22.04",
]
TENSORFLOW = [
    "huggingface-tensorflow-trcomp-training:2.6.3-transformers4.17.0-gpu-py38-cu112-ubuntu20.04",
    "huggingface-tensorflow-trcomp-training:2.5.1-transformers4.11.0-gpu-py37-cu112-ubuntu18.04",
    "tensorflow-training:2.11-gpu-py39",
    "huggingface-tensorflow-training:2.6.3-transformers4.17.0-gpu-py38-cu112-ubuntu20.04",
]


@pytest.fixture(scope="module")
def resolver() -> Resolver:
    return Resolver()


@pytest.mark.parametrize("registry", REGISTRIES)
@pytest.mark.parametrize("image", COMPILER)
def test_training_compiler_images_resolve(resolver: Resolver, registry: str, image: str) -> None:
    resolution = resolver.resolve(f"{registry}/{image}")
    assert (resolution.local_image, resolution.rule) == (TRAINING, "pytorch-training-compiler")
    assert resolution.refusal is None
    assert resolution.facts.training_compiler


@pytest.mark.parametrize("registry", REGISTRIES)
@pytest.mark.parametrize("image", PYTORCH)
def test_pytorch_images_resolve(resolver: Resolver, registry: str, image: str) -> None:
    resolution = resolver.resolve(f"{registry}/{image}")
    assert (resolution.local_image, resolution.rule) == (TRAINING, "pytorch-training")
    assert not resolution.facts.training_compiler


OF_2022 = [
    *[image for image in COMPILER if "@" not in image],
    "pytorch-training:1.13.1-cpu-py39",
    "pytorch-training:1.13-gpu-py39",
    "huggingface-pytorch-training:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04",
]
LATER = [
    f"pytorch-trcomp-training@{DIGEST}",
    "huggingface-pytorch-training:1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04",
    "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04",
    "pytorch-training:2.0.0-gpu-py310",
    "pytorch-training:2.8-cpu-py312",
    "pytorch-training:1.13.1-gpu-py3",
    "pytorch-training",
]


@pytest.mark.parametrize(
    ("image", "dated"), [*((image, True) for image in OF_2022), *((image, False) for image in LATER)]
)
def test_images_of_2022_have_one_of_their_day(resolver: Resolver, image: str, dated: bool) -> None:
    resolution = resolver.resolve(f"{CLASSIC}/{image}")
    assert resolution.dated_image == (f"{TRAINING}-py39" if dated else None)
    assert resolution.local_image == TRAINING, "for where it is not there"


def test_resolve_names_the_image_of_its_day() -> None:
    answer = CliRunner().invoke(main, ["image", "resolve", f"{CLASSIC}/pytorch-trcomp-training:1.12.0-gpu-py38"])
    assert f"without GPUs {TRAINING}-py39, if it is there" in answer.output


@pytest.mark.parametrize(
    "keys",
    ["dated = ':1'\nimage = 'a'", "dated_image = 'b'\nimage = 'a'", "dated = ':1'\ndated_image = 'b'\nrefuse = 'no'"],
)
def test_a_dated_image_needs_its_expression_and_an_image_beside_it(tmp_path: Path, keys: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f"[[rule]]\nmatch = 'x'\n{keys}\n")
    with pytest.raises(SettingsError, match="`dated` and `dated_image` go together"):
        Resolver(file)


@pytest.mark.parametrize("image", TENSORFLOW)
def test_tensorflow_is_refused(resolver: Resolver, image: str) -> None:
    uri = f"{CLASSIC}/{image}"
    resolution = resolver.resolve(uri)
    compiler = "trcomp" in image
    assert resolution.local_image is None
    assert resolution.rule == ("tensorflow-training-compiler" if compiler else "tensorflow-training")
    assert resolution.refusal is not None
    # Since 2.9 a job of the Training Compiler names the ordinary image.
    assert "jit_compile=True" in resolution.refusal
    assert uri in resolution.refusal
    assert "TensorFlow" in resolution.refusal
    assert f"`sagelet image map {uri} LOCAL_IMAGE`" in resolution.refusal
    assert explain_absent(resolution) == resolution.refusal


@pytest.mark.parametrize(
    ("uri", "rule", "instead"),
    [
        ("811284229777.dkr.ecr.us-east-1.amazonaws.com/blazingtext:1", "built-in-algorithms", "PyTorch estimator"),
        ("382416733822.dkr.ecr.us-east-1.amazonaws.com/linear-learner:1", "built-in-algorithms", "PyTorch estimator"),
        ("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1", "xgboost", "requirements.txt"),
        ("433757028032.dkr.ecr.us-west-2.amazonaws.com/xgboost:latest", "xgboost", "requirements.txt"),
    ],
)
def test_aws_s_closed_images_are_refused_as_such(resolver: Resolver, uri: str, rule: str, instead: str) -> None:
    """That no ECR repository has them is false."""
    resolution = resolver.resolve(uri)
    assert (resolution.rule, resolution.local_image) == (rule, None)
    refusal = resolution.refusal or ""
    assert "AWS's closed image" in refusal
    assert "cannot run here" in refusal
    assert instead in refusal
    assert f"`sagelet image map {uri} LOCAL_IMAGE`" in refusal


@pytest.mark.parametrize("name", ["xgboost", "linear-learner"])
def test_a_repository_of_one_s_own_may_have_such_a_name(resolver: Resolver, name: str) -> None:
    assert resolver.resolve(f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{name}:1").is_literal


def test_trainium_is_refused(resolver: Resolver) -> None:
    resolution = resolver.resolve(f"{CLASSIC}/pytorch-training-neuronx:2.1.2-neuronx-py310-sdk2.18.0-ubuntu20.04")
    assert resolution.local_image is None
    assert "Trainium" in (resolution.refusal or "")


@pytest.mark.parametrize(
    "uri",
    [
        "my-training:latest",
        "pytorch-training:mine",
        "localhost:5000/team/pytorch-training:1",
        "111122223333.dkr.ecr.us-east-1.amazonaws.com/my-pytorch-training:1",
        f"{CLASSIC}/pytorch-inference:2.1-cpu-py310",
        f"{CLASSIC}/pytorch-training/extra:1",
        f"evil.example/{CLASSIC}/pytorch-training:1",
        "12345.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1",
    ],
)
def test_other_uris_are_local_images(resolver: Resolver, uri: str) -> None:
    resolution = resolver.resolve(uri)
    assert (resolution.local_image, resolution.rule, resolution.is_literal) == (uri, LITERAL, True)


@pytest.mark.parametrize(
    ("image", "facts"),
    [
        ("pytorch-trcomp-training:1.13.1-gpu-py39", "PyTorch 1.13.1, Python 3.9, GPU, Training Compiler"),
        ("pytorch-training:2.8-cpu-py312", "PyTorch 2.8, Python 3.12, CPU"),
        (
            "huggingface-pytorch-trcomp-training:1.11-transformers4.21-gpu-py38-cu113-ubuntu20.04",
            "PyTorch 1.11, Transformers 4.21, Python 3.8, GPU, Training Compiler",
        ),
        ("tensorflow-training:2.11-gpu-py39", "TensorFlow 2.11, Python 3.9, GPU"),
        (f"pytorch-training@{DIGEST}", "PyTorch"),
        ("something-else:1.0", ""),
    ],
)
def test_facts_of_the_tag(resolver: Resolver, image: str, facts: str) -> None:
    assert str(resolver.resolve(f"{CLASSIC}/{image}").facts) == facts


def test_rules_of_the_user_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        """
        [[rule]]
        match = '.*/tensorflow-training:(?P<tf>[0-9.]+)-.*'
        image = "tf:{tf}-{version}"
        [[rule]]
        name = "as it is"
        match = '.*/pytorch-training:.*'
        image = "{uri}"
        [[rule]]
        name = "forbidden"
        match = 'forbidden/.*'
        refuse = "the team says no."
        """
    )
    resolver = Resolver(rules)
    own = resolver.resolve(f"{CLASSIC}/tensorflow-training:2.11-gpu-py39")
    assert (own.local_image, own.rule, own.refusal) == (f"tf:2.11-{sagelet_engine.__version__}", "rule 1", None)
    uri = f"{CLASSIC}/pytorch-training:2.8-cpu-py312"
    assert (resolver.resolve(uri).local_image, resolver.resolve(uri).rule) == (uri, "as it is")
    assert "the team says no. If you" in (resolver.resolve("forbidden/x").refusal or "")
    assert resolver.resolve(f"{CLASSIC}/pytorch-trcomp-training:1.13-gpu-py39").local_image == TRAINING


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[rule]\n", "not TOML"),
        ("[rule]\nmatch = 'x'\n", "[[rule]] tables only"),
        ("[[rules]]\nmatch = 'x'\nimage = 'y'\n", "found: rules"),
        ("[[rule]]\nname = 'a'\nimage = 'y'\n", "Rule 1 of the image rules {path} (a) lacks `match`"),
        ("[[rule]]\nname = 'a'\nmatch = 'x'\n", "(a) must have either `image`"),
        ("[[rule]]\nmatch = 'x'\nimage = 'y'\nrefuse = 'z'\n", "must have either `image`"),
        ("[[rule]]\nmatch = 'x('\nimage = 'y'\n", "not a regular expression"),
        ("[[rule]]\nmatch = 'x'\nimage = 'y:{tag}'\n", "bad placeholder ('tag'); known: {version}, {uri}"),
        ("[[rule]]\nmatch = 'x'\nimage = 'y:{'\n", "bad placeholder"),
        ("[[rule]]\nmatch = 'x'\nimage = ' '\n", "not the name of an image"),
        ("[[rule]]\nmatch = 'x'\nimage = 'y'\n[[rule]]\nmatch = 7\nimage = 'y'\n", "Rule 2 of"),
        (
            "[[rule]]\nmatch = 'x'\nimgae = 'y'\n",
            "unknown keys: imgae; known: dated, dated_image, gpu_image, image, inductor_image, match",
        ),
    ],
)
def test_a_bad_rules_file_names_file_and_rule(tmp_path: Path, text: str, complaint: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    with pytest.raises(SettingsError) as raised:
        Resolver(rules)
    assert str(rules) in str(raised.value)
    assert complaint.replace("{path}", str(rules)) in str(raised.value)


def test_a_missing_rules_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        Resolver(tmp_path / "none.toml")


def test_the_command_of_the_message_works(tmp_path: Path) -> None:
    """What the message tells the user to do maps the URI."""
    uri = "111122223333.dkr.ecr.us-east-1.amazonaws.com/my-training:v1.0+x"
    message = explain_unmapped(uri)
    assert f"No image stands in for {uri}: " in message
    assert "`docker pull`" in message
    command = re.findall(r"`sagelet (image map [^`]+)`", message)[0]
    assert CliRunner().invoke(main, [*command.split(), "--data", str(tmp_path)]).exit_code == 0
    assert Resolver(data=tmp_path).resolve(uri).local_image == "LOCAL_IMAGE"


def test_messages_fit_into_a_failure_reason(resolver: Resolver) -> None:
    """FailureReason holds 1024 characters, a TrainingImage 255."""
    tag = "2.6.3-transformers4.17.0-gpu-py38-cu112-ubuntu20.04"
    longest = f"{CLASSIC}/huggingface-tensorflow-training:{tag}".ljust(255, "x")
    assert len(resolver.resolve(longest).refusal or "") <= 1024
    assert len(explain_unmapped("team/" + longest)) <= 1024


def test_an_absent_stand_in_is_to_be_built(resolver: Resolver) -> None:
    message = explain_absent(resolver.resolve(f"{CLASSIC}/pytorch-training:2.8-cpu-py312"))
    assert message.startswith(f"{TRAINING}, which stands in for {CLASSIC}/pytorch-training:2.8-cpu-py312")
    assert "sagelet image build" in message
    assert explain_absent(resolver.resolve("mine:1")) == explain_unmapped("mine:1")


def test_training_images_have_a_variant_for_gpus(resolver: Resolver) -> None:
    for image in ("pytorch-trcomp-training:1.13.1-gpu-py39", "pytorch-training:2.8-gpu-py312"):
        assert resolver.resolve(f"{CLASSIC}/{image}").gpu_images == (f"{TRAINING}-cu13", f"{TRAINING}-cu12")
    assert resolver.resolve("mine:latest").gpu_images == ()


def test_training_images_have_a_variant_for_inductor(resolver: Resolver) -> None:
    for image in ("pytorch-trcomp-training:1.13.1-gpu-py39", "pytorch-training:2.8-gpu-py312"):
        assert resolver.resolve(f"{CLASSIC}/{image}").inductor_image == f"{TRAINING}-inductor"
    assert resolver.resolve("mine:latest").inductor_image is None
    answer = CliRunner().invoke(main, ["image", "resolve", f"{CLASSIC}/pytorch-training:2.8-gpu-py312"])
    assert f"for Inductor {TRAINING}-inductor, if it is there" in answer.output


def test_a_rule_of_the_user_may_name_an_image_for_inductor(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nmatch = 'x:(?P<tag>.+)'\nimage = 'cpu:{tag}'\ninductor_image = 'new:{tag}'\n")
    assert Resolver(rules).resolve("x:7").inductor_image == "new:7"
    rules.write_text("[[rule]]\nmatch = 'x'\ninductor_image = 'new:1'\nrefuse = 'no'\n")
    with pytest.raises(SettingsError, match="`inductor_image` without `image`"):
        Resolver(rules)


def test_a_rule_of_the_user_may_name_an_image_for_gpus(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nmatch = 'x:(?P<tag>.+)'\nimage = 'cpu:{tag}'\ngpu_image = 'gpu:{tag}'\n")
    found = Resolver(rules).resolve("x:7")
    assert (found.local_image, found.gpu_images) == ("cpu:7", ("gpu:7",))
    rules.write_text("[[rule]]\nmatch = 'x'\ngpu_image = 'gpu:1'\nrefuse = 'no'\n")
    with pytest.raises(SettingsError, match="`gpu_image` without `image`"):
        Resolver(rules)
