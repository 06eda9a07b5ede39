"""sentence-transformers: a sentence encoder made of parts, its losses and similarities."""

import tempfile

import torch
from sentence_transformers import SentenceTransformer, losses, util
from transformers import BertConfig, BertModel

torch.manual_seed(0)
anchors, others = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
similarity = util.cos_sim(anchors, others)
want = torch.nn.functional.normalize(anchors, dim=1) @ torch.nn.functional.normalize(others, dim=1).T
assert similarity.shape == (4, 4) and torch.allclose(similarity, want, atol=1e-5)
assert util.semantic_search(anchors.detach(), anchors.detach(), top_k=1)[2][0]["corpus_id"] == 2
with tempfile.TemporaryDirectory() as folder:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "sat", "ran"]
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(words))
    from transformers import BertTokenizer

    tokenizer = BertTokenizer(f"{folder}/vocab.txt")
    tokenizer.save_pretrained(folder)
    sizes = dict(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=len(words)
    )
    BertModel(BertConfig(max_position_embeddings=32, **sizes)).save_pretrained(folder)
    model = SentenceTransformer(folder, device="cpu")
    vectors = model.encode(["a cat sat", "a dog ran", "a cat sat"], convert_to_tensor=True)
    assert vectors.shape == (3, 16) and torch.allclose(vectors[0], vectors[2], atol=1e-5)
    loss = losses.MultipleNegativesRankingLoss(model)
    features = [model.tokenize(["a cat", "a dog"]), model.tokenize(["cat sat", "dog ran"])]
    loss(features, None).backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
