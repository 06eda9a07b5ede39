"""transformers: training with Trainer, text generation, saving and loading."""

import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(0)
sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=40)
model = BertForSequenceClassification(BertConfig(num_labels=2, **sizes))
ids = torch.randint(5, 40, (32, 8))
data = [{"input_ids": row, "labels": int(row[0] > 20)} for row in ids]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=12,
        per_device_train_batch_size=8,
        learning_rate=5e-3,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=4,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()
    history = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert history[-1] < history[0], history
    trainer.save_model(folder)
    again = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        assert torch.allclose(again.eval()(ids).logits, model.eval()(ids).logits, atol=1e-6)

gpt = GPT2LMHeadModel(
    GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2)
).eval()
prompt = torch.tensor([[5, 6, 7]])
greedy = gpt.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
step = prompt
for _ in range(8):  # the cache gives what the whole sequence gives
    with torch.no_grad():
        step = torch.cat([step, gpt(step).logits[:, -1].argmax(-1, keepdim=True)], 1)
assert greedy.tolist() == step.tolist()
beams = gpt.generate(prompt, max_new_tokens=5, num_beams=3, do_sample=False, pad_token_id=0)
sampled = gpt.generate(prompt, max_new_tokens=5, do_sample=True, top_k=5, top_p=0.9, temperature=0.7, pad_token_id=0)
assert beams.shape[0] == sampled.shape[0] == 1
