"""Repositories that the Hub knows by two names: in 2021 `gpt2`, since 2024 `openai-community/gpt2`.

Source: the redirects of huggingface.co; each name here has moved to the organisation that is named.
"""

from collections.abc import Iterator

from sagelet_engine.hub.names import Kind

_MODELS = {
    "openai-community": ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "openai-gpt", "roberta-base-openai-detector"),
    "distilbert": (
        "distilgpt2",
        "distilroberta-base",
        "distilbert-base-cased",
        "distilbert-base-uncased",
        "distilbert-base-multilingual-cased",
        "distilbert-base-cased-distilled-squad",
        "distilbert-base-uncased-distilled-squad",
        "distilbert-base-uncased-finetuned-sst-2-english",
    ),
    "google-bert": (
        "bert-base-cased",
        "bert-base-uncased",
        "bert-base-chinese",
        "bert-base-german-cased",
        "bert-base-multilingual-cased",
        "bert-base-multilingual-uncased",
        "bert-large-cased",
        "bert-large-uncased",
        "bert-large-cased-whole-word-masking",
        "bert-large-uncased-whole-word-masking",
        "bert-large-uncased-whole-word-masking-finetuned-squad",
    ),
    "FacebookAI": (
        "roberta-base",
        "roberta-large",
        "roberta-large-mnli",
        "xlm-roberta-base",
        "xlm-roberta-large",
        "xlm-mlm-en-2048",
    ),
    "google-t5": ("t5-small", "t5-base", "t5-large", "t5-3b", "t5-11b"),
    "albert": (
        "albert-base-v1",
        "albert-base-v2",
        "albert-large-v1",
        "albert-large-v2",
        "albert-xlarge-v2",
        "albert-xxlarge-v2",
    ),
    "xlnet": ("xlnet-base-cased", "xlnet-large-cased"),
    "transfo-xl": ("transfo-xl-wt103",),
}
_DATASETS = {
    "nyu-mll": ("glue",),
    "aps": ("super_glue",),
    "stanfordnlp": ("sst2", "imdb", "snli"),
    "rajpurkar": ("squad", "squad_v2"),
    "Salesforce": ("wikitext",),
    "fancyzhx": ("ag_news", "amazon_polarity", "dbpedia_14", "yelp_polarity"),
    "Yelp": ("yelp_review_full",),
    "abisee": ("cnn_dailymail",),
    "EdinburghNLP": ("xsum",),
    "Helsinki-NLP": ("opus_books", "opus100"),
    "dair-ai": ("emotion",),
    "cornell-movie-review-data": ("rotten_tomatoes",),
    "eriktks": ("conll2003",),
    "wmt": ("wmt14", "wmt16"),
    "ylecun": ("mnist",),
    "uoft-cs": ("cifar10", "cifar100"),
    "zalando-datasets": ("fashion_mnist",),
    "allenai": ("swag", "c4"),
    "bookcorpus": ("bookcorpus",),
    "legacy-datasets": ("wikipedia",),
}
_MOVED = {
    Kind.MODEL: {name: organisation for organisation, names in _MODELS.items() for name in names},
    Kind.DATASET: {name: organisation for organisation, names in _DATASETS.items() for name in names},
    Kind.SPACE: {},
}


def names_of(kind: Kind, repository: str) -> Iterator[str]:
    """Yields the name itself, and the other name that the Hub has for the same repository."""
    yield repository
    organisation, separator, name = repository.rpartition("/")
    moved = _MOVED[kind].get(name)
    if not separator and moved is not None:
        yield f"{moved}/{name}"
    elif separator and moved == organisation:
        yield name


def newest_name(kind: Kind, repository: str) -> str:
    """Returns the Hub's present name of a repository."""
    organisation = _MOVED[kind].get(repository)
    return repository if organisation is None else f"{organisation}/{repository}"
