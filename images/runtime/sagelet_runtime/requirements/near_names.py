"""Questions the name of a requirement that cannot be installed, before any version of it is recommended.

A package index may have a package of a misspelled name that somebody put there for those who misspell it.
"""

from __future__ import annotations

import difflib
import re
from importlib import metadata

#: Modules, whose packages have other names.
OF_MODULES = {
    "cv2": "opencv-python-headless", "pil": "Pillow", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "yaml": "PyYAML", "bs4": "beautifulsoup4", "crypto": "pycryptodome", "dotenv": "python-dotenv",
    "dateutil": "python-dateutil", "faiss": "faiss-cpu", "pkg-resources": "setuptools",
}  # fmt: skip
#: Packages that requirements of training jobs often name, beside those that are installed.
OFTEN = (
    "accelerate", "albumentations", "beautifulsoup4", "bitsandbytes", "boto3", "catboost", "datasets", "deepspeed",
    "diffusers", "dill", "einops", "evaluate", "faiss-cpu", "fairseq", "fastai", "gensim", "h5py", "huggingface-hub",
    "hydra-core", "imageio", "jiwer", "joblib", "keras", "librosa", "lightgbm", "lightning", "matplotlib", "mlflow",
    "networkx", "nltk", "numba", "numpy", "omegaconf", "onnx", "onnxruntime", "opencv-python", "opencv-python-headless",
    "optimum", "optuna", "pandas", "peft", "pillow", "plotly", "polars", "protobuf", "psutil", "pyarrow", "pydantic",
    "python-dateutil", "python-dotenv", "pytorch-lightning", "pyyaml", "regex", "requests", "rouge-score", "s3fs",
    "sacrebleu", "sagemaker", "scikit-image", "scikit-learn", "scipy", "seaborn", "sentence-transformers",
    "sentencepiece", "seqeval", "shap", "six", "soundfile", "spacy", "statsmodels", "sympy", "tensorboard",
    "tensorboardx", "tensorflow", "timm", "tokenizers", "torch", "torchaudio", "torchmetrics", "torchtext",
    "torchvision", "tqdm", "transformers", "trl", "typing-extensions", "ujson", "urllib3", "wandb", "xgboost",
)  # fmt: skip
#: How alike two names are: two letters of ten that are changed, left out or in another order.
_ALIKE = 0.8
#: Characters of the longest name that is compared, and the most installed names.
_LONGEST, _MOST = 80, 2000


def near(name: str) -> str | None:
    """Returns the package that somebody who wrote `name` may have meant. None if it is known, or like no other."""
    wanted = _canonical(name)
    if wanted in OF_MODULES:
        return OF_MODULES[wanted]
    known = {*OFTEN, *_installed()}
    if wanted in known or len(wanted) > _LONGEST:
        return None
    return next(iter(difflib.get_close_matches(wanted, sorted(known), 1, _ALIKE)), None)


def _installed() -> set[str]:
    found = (one.metadata["Name"] for one, _ in zip(metadata.distributions(), range(_MOST)))
    return {_canonical(name) for name in found if name}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
