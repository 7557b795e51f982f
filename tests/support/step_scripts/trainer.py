"""Transformers' Trainer as it is, with its clipping."""

import json
import os

import step_model
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(
    output_dir=os.environ["SM_OUTPUT_DATA_DIR"], max_steps=step_model.STEPS, per_device_train_batch_size=1,
    learning_rate=3e-4, lr_scheduler_type="constant", logging_steps=step_model.STEPS, save_strategy="no", report_to=[],
    disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(model=step_model.make(), args=arguments, train_dataset=step_model.rows())
trainer.train()
print("losses=" + json.dumps([entry["loss"] for entry in trainer.state.log_history if "loss" in entry]))
