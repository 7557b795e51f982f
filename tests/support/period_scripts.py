"""The ten scripts. Where each comes from: tests/period/README.md."""

from support.period import PeriodScript

HF_4_11 = "1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04"
HF_4_17 = "1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04"
HF_4_21 = "1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
PT_1_13 = "1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker"
#: For models with ReLU, max pooling and batch norm.
ROUGH = 1e-2
NO_DROPOUT = "resid_pdrop=0.0,embd_pdrop=0.0,attn_pdrop=0.0"

#: Patterns of lines that the Trainer logs.
TRAINED = (r"^{'loss': ([\d.]+)", r"^{'eval_loss': ([\d.]+)", r"^{'train_runtime'.*'train_loss': ([\d.]+)")

SCRIPTS = (
    PeriodScript(
        "sagemaker_trainer_2021", "train.py", "huggingface-pytorch", HF_4_11,
        {
            "epochs": "2", "train_batch_size": "{batch}", "eval_batch_size": "{batch}", "warmup_steps": "2",
            "learning_rate": "1e-3", "output_dir": "{model}/checkpoints",
        },
        channels=("model", "train", "test"),
        forked=False,
        says=(*TRAINED, r"'eval_accuracy': ([\d.]+), 'eval_f1': ([\d.]+)"),
    ),
    PeriodScript(
        "language_modeling_2021", "run_language_modeling.py", "huggingface-pytorch", HF_4_17,
        {
            "model_type": "gpt2", "tokenizer_name": "{data}/model",
            "config_overrides": f"n_layer=2,n_embd=32,n_head=2,n_positions=32,{NO_DROPOUT}",
            "train_data_file": "{data}/text/train.txt", "eval_data_file": "{data}/text/validation.txt",
            "block_size": "18", "output_dir": "{model}/lm", "do_train": "True", "do_eval": "True", "max_steps": "4",
            "logging_steps": "1", "per_device_train_batch_size": "{batch}", "per_device_eval_batch_size": "{batch}",
            "evaluation_strategy": "steps", "eval_steps": "2", "save_strategy": "no", "report_to": "none",
            # Otherwise the fastest worker makes the features for all, and worker 0 logs only its own part.
            "overwrite_cache": "True",
        },
        channels=("model", "text"),
        says=(*TRAINED, r"perplexity = ([\d.]+)"),
    ),
    PeriodScript(
        "nlp_accelerate_2021", "nlp_example.py", "huggingface-pytorch", HF_4_11,
        channels=("model", "pairs"),
        # The script sets the size of a worker's batch itself.
        same_over_workers=False,
        says=(r"epoch (\d+): loss ([\d.]+)", r"epoch (\d+): {'accuracy': ([\d.]+), 'samples': (\d+)}"),
    ),
    PeriodScript(
        "mnist_xla_2021", "train_mp_mnist.py", "pytorch", PT_1_13,
        {"batch_size": "8", "num_epochs": "2", "log_steps": "1"},
        tolerance=ROUGH, xla_only=True,
        # The script scales the learning rate by the number of workers.
        same_over_workers=False,
        says=(r"Training .* Epoch=(\d+) Step=(\d+) Loss=([\d.]+)", r"Accuracy: ([\d.]+)%"),
        several_in_ci=2,
    ),
    PeriodScript(
        "question_answering_2022", "run_qa.py", "huggingface-pytorch", HF_4_21,
        {
            "model_name_or_path": "{data}/model", "train_file": "{data}/squad/train.json",
            "validation_file": "{data}/squad/dev.json", "do_train": "True", "do_eval": "True", "max_steps": "4",
            "logging_steps": "2", "per_device_train_batch_size": "{batch}", "per_device_eval_batch_size": "{batch}",
            "learning_rate": "1e-3", "output_dir": "{model}/qa", "save_strategy": "no", "report_to": "none",
        },
        channels=("model", "squad"),
        says=(r"^{'loss': ([\d.]+)", r"eval_exact_match = ([\d.]+)", r"train_loss = ([\d.]+)"),
        several_in_ci=2,
    ),
    PeriodScript(
        "ddp_torchrun_2022", "multigpu_torchrun.py", "pytorch", PT_1_13,
        {"total_epochs": "3", "save_every": "2", "batch_size": "{batch}"},
        batch=16,
        forked=False,
        says=(r"epoch (\d+) mean loss ([\d.]+)",),
        several_in_ci=4,
    ),
    PeriodScript(
        "glue_accelerate_2023", "run_glue_no_trainer.py", "huggingface-pytorch", HF_4_21,
        {
            "train_file": "{data}/pairs/train.json", "validation_file": "{data}/pairs/ragged.json",
            "model_name_or_path": "{data}/model", "per_device_train_batch_size": "{batch}",
            "per_device_eval_batch_size": "{batch}", "learning_rate": "1e-3", "num_train_epochs": "2",
            "output_dir": "{model}/glue", "seed": "42",
        },
        channels=("model", "pairs"),
        says=(r"epoch (\d+): {'accuracy': ([\d.]+), 'samples': (\d+)}", r"epoch (\d+): train loss ([\d.]+)"),
        # Accelerate shuffles with another generator if there are several workers.
        same_over_workers=False,
        several_in_ci=2,
    ),
    # The script itself compares the weights with those of one process.
    PeriodScript(
        "accelerate_script_2023", "test_script.py", "huggingface-pytorch", HF_4_21,
        says=(r"(?:Training yielded the same results)",),
        # In the last of four processes it asserts [4] == 4, also natively.
        several=2,
        same_over_workers=False,
        not_on_tpu=r"huffled central dataloader passing",
    ),
    PeriodScript(
        "accumulation_accelerate_2022", "gradient_accumulation.py", "huggingface-pytorch", HF_4_21,
        {"gradient_accumulation_steps": "2", "batch_size": "{batch}"},
        channels=("model", "pairs"),
        says=(r"epoch (\d+): (\d+) updates", r"epoch (\d+): loss ([\d.]+) over (\d+)"),
        # The last batch is short. With several workers it is filled up with other rows.
        same_over_workers=False,
        several_in_ci=2,
    ),
    PeriodScript(
        "decoder_only_2024", "train_decoder_only.py", "pytorch", PT_1_13,
        says=(r"epoch: (\d+), step: (\d+), loss: ([\d.]+)",),
        # All workers generate the same batch.
        xla_only=True,
    ),
)  # fmt: skip
