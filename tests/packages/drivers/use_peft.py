"""peft: LoRA adapters train while the model stays, are merged, saved and loaded."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=2)
base = GPT2LMHeadModel(config).eval()
ids = torch.randint(3, 40, (4, 10))
with torch.no_grad():
    original = base(ids).logits.clone()
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True))
trained = [n for n, p in model.named_parameters() if p.requires_grad]
assert trained and all("lora_" in n for n in trained)
with torch.no_grad():
    assert torch.allclose(model(ids).logits, original, atol=1e-5)  # the second factor starts at zero
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
losses = []
for _ in range(10):
    loss = model(ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
model.eval()
with torch.no_grad():
    adapted = model(ids).logits
    with model.disable_adapter():
        assert torch.allclose(model(ids).logits, original, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        fresh = GPT2LMHeadModel(config).eval()
        fresh.load_state_dict(
            {k.replace(".base_layer", ""): v for k, v in base.state_dict().items() if "lora_" not in k}
        )
        assert torch.allclose(PeftModel.from_pretrained(fresh, folder).eval()(ids).logits, adapted, atol=1e-4)
    assert torch.allclose(model.merge_and_unload()(ids).logits, adapted, atol=1e-4)
