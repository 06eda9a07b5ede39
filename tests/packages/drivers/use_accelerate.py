"""accelerate: a prepared training loop with accumulation, clipping, saving, and weights made on demand."""

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
x = torch.randn(32, 3)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=8)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
losses = []
for _ in range(20):
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
assert losses[-1] < 0.1 * losses[0], (losses[0], losses[-1])
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    weight = accelerator.unwrap_model(model).weight.detach().clone()
    with torch.no_grad():
        accelerator.unwrap_model(model).weight.zero_()
    accelerator.load_state(folder)
    assert torch.equal(accelerator.unwrap_model(model).weight, weight)
with init_empty_weights():
    large = torch.nn.Linear(5000, 5000)
assert large.weight.device.type == "meta"
