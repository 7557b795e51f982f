"""MNIST on several devices, in the shape of torch_xla's own test_train_mp_mnist.py with --fake_data."""

import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.utils.utils as xu

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--num_epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--log_steps", type=int, default=2)
parser.add_argument("--target_accuracy", type=float, default=0.0)
parser.add_argument("--samples", type=int, default=64)
FLAGS = parser.parse_args()


class MNIST(nn.Module):
    def __init__(self):
        super(MNIST, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=5)
        self.bn1 = nn.BatchNorm2d(4)
        self.fc1 = nn.Linear(4 * 12 * 12, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = self.bn1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def _train_update(device, step, loss, tracker, epoch):
    print(
        "| Training Device={} Epoch={} Step={} Loss={:.5f} Rate={:.2f} GlobalRate={:.2f} Time={}".format(
            str(device), epoch, step, loss.item(), tracker.rate(), tracker.global_rate(), time.asctime()
        ),
        flush=True,
    )


def train_mnist(flags):
    torch.manual_seed(1)
    # Each worker's share of generated data
    data = (
        torch.randn(flags.batch_size, 1, 28, 28),
        torch.randint(0, 10, (flags.batch_size,), dtype=torch.int64),
    )
    count = flags.samples // flags.batch_size // xm.xrt_world_size()
    train_loader = xu.SampleGenerator(data=data, sample_count=count)
    test_loader = xu.SampleGenerator(data=data, sample_count=count)

    # Scale learning rate to num cores
    lr = flags.lr * xm.xrt_world_size()
    device = xm.xla_device()
    model = MNIST().to(device)
    optimizer = optim.SGD(model.parameters(), lr=lr, momentum=flags.momentum)
    loss_fn = nn.NLLLoss()

    def train_loop_fn(loader, epoch):
        tracker = xm.RateTracker()
        model.train()
        for step, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            output = model(data)
            loss = loss_fn(output, target)
            loss.backward()
            xm.optimizer_step(optimizer)
            tracker.add(flags.batch_size)
            if step % flags.log_steps == 0:
                xm.add_step_closure(_train_update, args=(device, step, loss, tracker, epoch))

    def test_loop_fn(loader):
        total_samples = 0
        correct = 0
        model.eval()
        for data, target in loader:
            output = model(data)
            pred = output.max(1, keepdim=True)[1]
            correct += pred.eq(target.view_as(pred)).sum()
            total_samples += data.size()[0]
        accuracy = 100.0 * correct.item() / total_samples
        return xm.mesh_reduce("test_accuracy", accuracy, np.mean)

    train_device_loader = pl.MpDeviceLoader(train_loader, device)
    test_device_loader = pl.MpDeviceLoader(test_loader, device)
    accuracy, max_accuracy = 0.0, 0.0
    for epoch in range(1, flags.num_epochs + 1):
        xm.master_print("Epoch {} train begin {}".format(epoch, time.asctime()))
        train_loop_fn(train_device_loader, epoch)
        xm.master_print("Epoch {} train end {}".format(epoch, time.asctime()))
        accuracy = test_loop_fn(test_device_loader)
        xm.master_print("Epoch {} test end {}, Accuracy={:.2f}".format(epoch, time.asctime(), accuracy))
        max_accuracy = max(accuracy, max_accuracy)

    xm.master_print("Max Accuracy: {:.2f}%".format(max_accuracy))
    xm.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
    return max_accuracy


def _mp_fn(index, flags):
    torch.set_default_dtype(torch.float32)
    accuracy = train_mnist(flags)
    if accuracy < flags.target_accuracy:
        print("Accuracy {} is below target {}".format(accuracy, flags.target_accuracy))
        raise SystemExit(21)


if __name__ == "__main__":
    xmp.spawn(_mp_fn, args=(FLAGS,))
