"""x-transformers: a decoder with rotary positions, and generation."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
net = TransformerWrapper(
    num_tokens=20,
    max_seq_len=16,
    attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, attn_dim_head=16, ff_glu=True, use_rmsnorm=True),
)
model = AutoregressiveWrapper(net)
ids, losses = torch.arange(16).repeat(4, 1) % 20, []
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(25):
    loss = model(ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, (losses[0], losses[-1])
assert model.generate(torch.tensor([[0, 1, 2]]), 5).shape == (1, 5)
