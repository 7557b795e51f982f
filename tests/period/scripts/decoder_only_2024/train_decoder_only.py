"""A decoder trained data parallel, in the shape of torch_xla's train_decoder_only_base.py of 2.4 and train_resnet_ddp.py."""

import itertools
import time

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.utils.utils as xu
from decoder_only_model import DecoderOnlyConfig, DecoderOnlyModel
from torch_xla import runtime as xr


class TrainDecoderOnlyBase:
    def __init__(self):
        torch.manual_seed(42)
        self.config = DecoderOnlyConfig()
        self.batch_size = 4
        self.seq_len = 16
        self.num_steps = 6
        self.num_epochs = 1
        # For the purpose of this example, we are going to use fake data.
        tokens = torch.randint(0, self.config.vocab_size, (self.batch_size, self.seq_len + 1))
        train_loader = xu.SampleGenerator(data=(tokens[:, :-1], tokens[:, 1:]), sample_count=100)
        self.device = torch_xla.device()
        self.train_device_loader = pl.MpDeviceLoader(train_loader, self.device)
        self.model = DecoderOnlyModel(self.config).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.loss_fn = nn.CrossEntropyLoss()

    def _train_update(self, step, loss, tracker, epoch):
        print(f"epoch: {epoch}, step: {step}, loss: {loss:.4f}, rate: {tracker.rate()}")

    def run_optimizer(self):
        # optimizer_step will call `optimizer.step()` and all_reduce the gradients
        xm.optimizer_step(self.optimizer)

    def step_fn(self, data, target):
        self.optimizer.zero_grad()
        logits = self.model(data)
        loss = self.loss_fn(logits.reshape(-1, self.config.vocab_size), target.reshape(-1))
        loss.backward()
        self.run_optimizer()
        return loss

    def train_loop_fn(self, loader, epoch):
        tracker = xm.RateTracker()
        self.model.train()
        for step, (data, target) in enumerate(itertools.islice(loader, self.num_steps)):
            loss = self.step_fn(data, target)
            tracker.add(self.batch_size)
            if step % 2 == 0 and xr.global_ordinal() == 0:
                xm.add_step_closure(self._train_update, args=(step, loss, tracker, epoch))

    def start_training(self):
        for epoch in range(1, self.num_epochs + 1):
            xm.master_print("Epoch {} train begin {}".format(epoch, time.strftime("%l:%M%p %Z on %b %d, %Y")))
            self.train_loop_fn(self.train_device_loader, epoch)
            xm.master_print("Epoch {} train end {}".format(epoch, time.strftime("%l:%M%p %Z on %b %d, %Y")))
        xm.wait_device_ops()


def _mp_fn(index):
    base = TrainDecoderOnlyBase()
    base.start_training()


if __name__ == "__main__":
    torch_xla.launch(_mp_fn, args=())
