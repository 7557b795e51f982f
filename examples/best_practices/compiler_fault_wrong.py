"""Uses sparse tensors, which XLA does not have. (compiler-fault)"""

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
torch.manual_seed(0)
weights = torch.nn.Parameter(torch.zeros(32, 4, device=device))
optimizer = torch.optim.SGD([weights], lr=0.1)

for step in range(600):
    inputs, labels = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    features = (inputs > 0).float().to_sparse()  # <- fails
    loss = torch.nn.functional.cross_entropy(torch.sparse.mm(features, weights), labels)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
