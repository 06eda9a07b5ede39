"""open_clip: a small CLIP, its loss and its tokenizer."""

import open_clip
import torch

torch.manual_seed(0)
model = open_clip.CLIP(
    embed_dim=16,
    vision_cfg=dict(image_size=32, layers=2, width=32, patch_size=8, head_width=16),
    text_cfg=dict(context_length=12, vocab_size=49408, width=32, heads=2, layers=2),
)
ids = open_clip.SimpleTokenizer(context_length=12)(["a photo of a cat", "a dog"])
image, text, scale = model(torch.randn(2, 3, 32, 32), ids)[:3]
assert torch.allclose(image.norm(dim=1), torch.ones(2), atol=1e-5)
loss = open_clip.ClipLoss()(image, text, scale)
loss.backward()
assert loss > 0 and model.logit_scale.grad is not None
