"""The Hugging Face Trainer as it should be. (frequent-logging)"""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    rows = torch.randint(0, 200, (4800, 32), generator=torch.Generator().manual_seed(5))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


config = GPT2Config(n_layer=1, n_embd=64, n_head=2, n_positions=32, vocab_size=200)
arguments = TrainingArguments(
    output_dir="trainer",
    per_device_train_batch_size=32,
    num_train_epochs=2,
    logging_steps=50,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    dataloader_drop_last=True,
)
trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens())
trainer.train()
trainer.save_model(os.environ["SM_MODEL_DIR"])
