"""A character-level GPT on any text file: python examples/python/char_gpt.py FILE [STEPS] [--chunked-loss] [--compile]

With --compile, steps are replayed; the numbers are the same. With --chunked-loss the logits of all positions never exist at once, which saves memory with a large vocabulary.
"""

import pathlib
import sys

import strata
import strata.nn.functional as F
from strata import nn, optim

WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 128, 4, 4, 64, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, time, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGPT(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.token, self.place = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)

    def features(self, text):
        return self.norm(self.blocks(self.token(text) + self.place(strata.arange(text.shape[1]))))

    def forward(self, text):
        return self.head(self.features(text))

    def loss(self, text, target, chunked):
        if chunked:
            return F.linear_cross_entropy(self.features(text).flatten(0, 1), self.head.weight, target.flatten())
        return F.cross_entropy(self(text).flatten(0, 1), target.flatten())


def main(path, steps=500, chunked=False, compiled=False):
    strata.manual_seed(0)
    text = pathlib.Path(path).read_bytes()
    letters = sorted(set(text))
    codes = strata.tensor([letters.index(c) for c in text])
    net = CharGPT(len(letters))
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)

    def train(batch):
        loss = net.loss(batch[:, :-1], batch[:, 1:], chunked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        train = strata.compile(train, replay=True)
    loss = strata.zeros(())  # what no steps give
    for step in range(1, steps + 1):
        windows = strata.randint(0, len(codes) - CONTEXT, (BATCH, 1)) + strata.arange(CONTEXT + 1)
        loss = train(codes[windows])
        if step % 100 == 0 or step == steps:
            print(f"step {step}: loss {loss.item():.3f}")
    written = codes[:1].view(1, 1)
    with strata.no_grad():
        for _ in range(200):
            chances = F.softmax(net(written[:, -CONTEXT:])[:, -1], -1)
            written = strata.cat([written, strata.multinomial(chances, 1)], 1)
    print(bytes(letters[c] for c in written[0].tolist()).decode(errors="replace"))
    return loss.item()


if __name__ == "__main__":
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    steps = int(words[1]) if len(words) > 1 else 500
    main(words[0], steps, chunked="--chunked-loss" in sys.argv, compiled="--compile" in sys.argv)
