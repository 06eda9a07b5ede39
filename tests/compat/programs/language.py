"""Small programs of natural language processing."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import classes, filled, fit, numbers, program
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


@program
def word_language_model():
    class RNNModel(nn.Module):
        def __init__(self, ntoken, ninp, nhid, nlayers):
            super().__init__()
            self.drop = nn.Dropout(0.0)
            self.encoder = nn.Embedding(ntoken, ninp)
            self.rnn = nn.LSTM(ninp, nhid, nlayers)
            self.decoder = nn.Linear(nhid, ntoken)
            self.nlayers, self.nhid = nlayers, nhid

        def forward(self, x, hidden):
            output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
            return F.log_softmax(self.decoder(output).view(-1, self.decoder.out_features), dim=1), hidden

        def init_hidden(self, bsz):
            weight = next(self.parameters())
            return tuple(weight.new_zeros(self.nlayers, bsz, self.nhid) for _ in range(2))

    data = classes(12, 16 * 4).view(4, -1).t().contiguous()
    model, criterion, lr = filled(RNNModel(12, 8, 16, 2)), nn.NLLLoss(), 1.0
    hidden, losses = model.init_hidden(4), []
    for i in range(0, data.size(0) - 1, 5):
        seq_len = min(5, len(data) - 1 - i)
        inputs, targets = data[i : i + seq_len], data[i + 1 : i + 1 + seq_len].reshape(-1)
        model.zero_grad()
        hidden = tuple(h.detach() for h in hidden)
        output, hidden = model(inputs, hidden)
        loss = criterion(output, targets)
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        losses.append(loss.item())
    return losses


@program
def char_rnn():
    class RNN(nn.Module):
        def __init__(self, inputs, hidden, outputs):
            super().__init__()
            self.hidden_size = hidden
            self.i2h, self.h2h, self.h2o = (
                nn.Linear(inputs, hidden),
                nn.Linear(hidden, hidden),
                nn.Linear(hidden, outputs),
            )
            self.softmax = nn.LogSoftmax(dim=1)

        def forward(self, x, hidden):
            hidden = torch.tanh(self.i2h(x) + self.h2h(hidden))
            return self.softmax(self.h2o(hidden)), hidden

    letters = "abcdefgh"
    rnn, losses = filled(RNN(len(letters), 12, 3)), []
    for word, label in (("abba", 0), ("deaf", 1), ("cab", 2), ("head", 1)):
        line = torch.zeros(len(word), 1, len(letters))
        for i, c in enumerate(word):
            line[i][0][letters.find(c)] = 1
        hidden = torch.zeros(1, rnn.hidden_size)
        rnn.zero_grad()
        for i in range(line.size(0)):
            output, hidden = rnn(line[i], hidden)
        loss = nn.NLLLoss()(output, torch.tensor([label]))
        loss.backward()
        with torch.no_grad():
            for p in rnn.parameters():
                p.sub_(p.grad, alpha=0.05)
        losses.append(loss.item())
    return losses


@program
def transformer_language_model():
    class PositionalEncoding(nn.Module):
        def __init__(self, d_model, max_len=32):
            super().__init__()
            pe = torch.zeros(max_len, d_model)
            position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
            div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
            pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
            self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

        def forward(self, x):
            return x + self.pe[: x.size(0), :]

    embed, pos, head = nn.Embedding(11, 16), PositionalEncoding(16), nn.Linear(16, 11)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0), 2)
    model = filled(nn.ModuleDict({"embed": embed, "encoder": encoder, "head": head}))
    data = classes(11, 9, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(8)

    def loss():
        out = head(encoder(pos(embed(data[:-1]) * math.sqrt(16)), mask))
        return F.cross_entropy(out.view(-1, 11), data[1:].reshape(-1))

    return fit(torch.optim.Adam(model.parameters(), lr=1e-2), loss)


@program
def seq2seq_attention():
    class Attention(nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.Wa, self.Ua, self.Va = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)

        def forward(self, query, keys):
            scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
            weights = F.softmax(scores, dim=-1)
            return torch.bmm(weights, keys), weights

    emb_in, emb_out = nn.Embedding(10, 8), nn.Embedding(9, 8)
    encoder, decoder = nn.GRU(8, 8, batch_first=True), nn.GRU(16, 8, batch_first=True)
    attention, out = Attention(8), nn.Linear(8, 9)
    model = filled(nn.ModuleList([emb_in, emb_out, encoder, decoder, attention, out]))
    source, target = classes(10, 3, 6), classes(9, 3, 5, seed=1)

    def loss():
        keys, hidden = encoder(emb_in(source))
        token, total = torch.zeros(3, 1, dtype=torch.long), 0.0
        for t in range(target.size(1)):
            context, _ = attention(hidden.permute(1, 0, 2), keys)
            output, hidden = decoder(torch.cat((emb_out(token), context), dim=2), hidden)
            total = total + F.cross_entropy(out(output[:, 0]), target[:, t])
            token = target[:, t].unsqueeze(1)  # teacher forcing
        return total / target.size(1)

    return fit(torch.optim.Adam(model.parameters(), lr=5e-3), loss)


@program
def snli_classifier():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8, padding_idx=0)
            self.projection = nn.Linear(8, 8)
            self.encoder = nn.LSTM(8, 8, bidirectional=True)
            layers = [nn.Linear(4 * 16, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 3)]
            self.out = nn.Sequential(*layers)

        def encode(self, x):
            _, (h, _) = self.encoder(F.relu(self.projection(self.embed(x))))
            return h[-2:].transpose(0, 1).contiguous().view(x.size(1), -1)

        def forward(self, premise, hypothesis):
            p, h = self.encode(premise), self.encode(hypothesis)
            return self.out(torch.cat([p, h, torch.abs(p - h), p * h], 1))

    model = filled(Classifier())
    premise, hypothesis, label = classes(20, 5, 6), classes(20, 4, 6, seed=1), classes(3, 6)
    return fit(
        torch.optim.Adam(model.parameters(), lr=1e-2), lambda: F.cross_entropy(model(premise, hypothesis), label)
    )


class CausalSelfAttention(nn.Module):
    """Attention of a small GPT."""

    def __init__(self, dim, heads, block):
        super().__init__()
        self.c_attn, self.c_proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


@program
def min_gpt():
    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), CausalSelfAttention(dim, 2, 8), nn.LayerNorm(dim)
            self.mlp = nn.ModuleDict(
                dict(c_fc=nn.Linear(dim, 4 * dim), act=nn.GELU("tanh"), c_proj=nn.Linear(4 * dim, dim))
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            m = self.mlp
            return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))

    wte, wpe, blocks = nn.Embedding(10, 16), nn.Embedding(8, 16), nn.ModuleList([Block(16) for _ in range(2)])
    head = nn.Linear(16, 10, bias=False)
    model = filled(nn.ModuleDict(dict(wte=wte, wpe=wpe, h=blocks, ln_f=nn.LayerNorm(16), head=head)))
    decay = [p for n, p in model.named_parameters() if p.dim() > 1 and "wte" not in n and "wpe" not in n]
    ids = {id(p) for p in decay}
    groups = [
        {"params": decay, "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if id(p) not in ids], "weight_decay": 0.0},
    ]
    idx = classes(10, 4, 9)

    def logits_of(tokens):
        x = wte(tokens) + wpe(torch.arange(tokens.size(1)).unsqueeze(0))
        for block in blocks:
            x = block(x)
        return head(model["ln_f"](x))

    def loss():
        return F.cross_entropy(logits_of(idx[:, :-1]).view(-1, 10), idx[:, 1:].reshape(-1), ignore_index=-1)

    losses = fit(torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95)), loss)
    tokens = idx[:1, :3]
    for _ in range(4):  # greedy generation
        tokens = torch.cat([tokens, logits_of(tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return [*losses, logits_of(tokens).logsumexp(-1).mean().item()]


@program
def nano_gpt():
    dim, heads, vocab = 16, 4, 9

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(dim, bias=False), nn.LayerNorm(dim, bias=False)
            self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
            self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    model = nn.Module()
    model.wte, model.blocks = nn.Embedding(vocab, dim), nn.Sequential(Block(), Block())
    model.lm_head = nn.Linear(dim, vocab, bias=False)
    filled(model)
    model.wte.weight = model.lm_head.weight  # tied
    data, warmup, losses = classes(vocab, 4, 9), 2, []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for it in range(5):
        lr = 1e-2 * (it + 1) / warmup if it < warmup else 1e-2 * 0.5 * (1 + math.cos(math.pi * (it - warmup) / 4))
        for group in optimizer.param_groups:
            group["lr"] = lr
        for micro in data.chunk(2):  # gradient accumulation
            logits = model.lm_head(model.blocks(model.wte(micro[:, :-1])))
            loss = F.cross_entropy(logits.flatten(0, 1), micro[:, 1:].flatten()) / 2
            loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses += [loss.item(), norm.item()]
    return losses


@program
def llama_like():
    dim, heads, kv_heads, vocab = 16, 4, 2, 12

    def rotary(x):
        half = x.shape[-1] // 2
        freqs = 1.0 / (10000.0 ** (torch.arange(half).float() / half))
        angles = torch.outer(torch.arange(x.shape[2]).float(), freqs)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(dim, eps=1e-5), nn.RMSNorm(dim, eps=1e-5)
            self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
            self.wk = nn.Linear(dim, dim * kv_heads // heads, bias=False)
            self.wv = nn.Linear(dim, dim * kv_heads // heads, bias=False)
            self.w1, self.w2, self.w3 = (nn.Linear(*s, bias=False) for s in ((dim, 32), (32, dim), (dim, 32)))

        def forward(self, x):
            h = self.norm1(x)
            q, k, v = (w(h).unflatten(-1, (-1, dim // heads)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            q, k = rotary(q), rotary(k)
            k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.wo(y.transpose(1, 2).flatten(2))
            h = self.norm2(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    model = filled(nn.Sequential(nn.Embedding(vocab, dim), Layer(), Layer(), nn.RMSNorm(dim), nn.Linear(dim, vocab)))
    tokens = classes(vocab, 3, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return fit(optimizer, lambda: F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:]))


@program
def masked_language_model():
    vocab, dim, mask_id = 15, 16, 14
    layer = nn.TransformerEncoderLayer(dim, 4, 32, dropout=0.0, activation=F.gelu, batch_first=True)
    model = filled(nn.ModuleList([nn.Embedding(vocab, dim), nn.TransformerEncoder(layer, 2), nn.Linear(dim, vocab)]))
    tokens = classes(14, 4, 8)
    lengths = torch.tensor([8, 6, 7, 5])
    padding = torch.arange(8)[None, :] >= lengths[:, None]
    chosen = (classes(4, 4, 8, seed=1) == 0) & ~padding
    inputs, labels = tokens.masked_fill(chosen, mask_id), tokens.masked_fill(~chosen, -100)

    def loss():
        hidden = model[1](model[0](inputs), src_key_padding_mask=padding)
        return F.cross_entropy(model[2](hidden).view(-1, vocab), labels.view(-1))

    return fit(torch.optim.Adamax(model.parameters(), lr=1e-2), loss)


@program
def skip_gram():
    centre, context = filled(nn.Embedding(20, 6), 1), filled(nn.Embedding(20, 6), 2)
    words, near, far = classes(20, 16), classes(20, 16, seed=1), classes(20, 16, 4, seed=2)
    optimizer = torch.optim.SGD([*centre.parameters(), *context.parameters()], lr=0.5)

    def loss():
        v = centre(words)
        positive = F.logsigmoid((v * context(near)).sum(1))
        negative = F.logsigmoid(-torch.bmm(context(far), v.unsqueeze(2)).squeeze(2)).sum(1)
        return -(positive + negative).mean()

    return fit(optimizer, loss)


@program
def text_classification_bags():
    class TextModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.fc = nn.EmbeddingBag(30, 8, mode="mean"), nn.Linear(8, 4)

        def forward(self, text, offsets):
            return self.fc(self.embedding(text, offsets))

    model, text = filled(TextModel()), classes(30, 20)
    offsets, label = torch.tensor([0, 4, 5, 11, 17]), classes(4, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.5)
    losses = []
    for _ in range(4):
        losses += fit(optimizer, lambda: nn.CrossEntropyLoss()(model(text, offsets), label), 1)
        scheduler.step()
    return losses


@program
def text_cnn():
    embed = filled(nn.Embedding(25, 8))
    convs = filled(nn.ModuleList([nn.Conv1d(8, 6, k) for k in (2, 3, 4)]))
    head = filled(nn.Linear(18, 2))
    text, label = classes(25, 6, 10), classes(2, 6)
    params = [p for m in (embed, convs, head) for p in m.parameters()]

    def loss():
        x = embed(text).permute(0, 2, 1)
        pooled = [F.relu(conv(x)).max(dim=2).values for conv in convs]
        return F.cross_entropy(head(torch.cat(pooled, 1)), label)

    return fit(torch.optim.Adadelta(params), loss)


@program
def tagger_with_crf():
    tags = 4
    lstm = filled(nn.LSTM(6, 5, bidirectional=True, batch_first=True))
    emission, transitions = filled(nn.Linear(10, tags)), nn.Parameter(numbers(tags, tags, scale=0.1))
    x, gold = numbers(3, 7, 6), classes(tags, 3, 7)

    def loss():
        scores = emission(lstm(x)[0])
        alpha = scores[:, 0]
        path = scores[:, 0].gather(1, gold[:, :1]).squeeze(1)
        for t in range(1, 7):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + transitions + scores[:, t].unsqueeze(1), dim=1)
            path = (
                path + transitions[gold[:, t - 1], gold[:, t]] + scores[:, t].gather(1, gold[:, t : t + 1]).squeeze(1)
            )
        return (alpha.logsumexp(1) - path).mean()

    params = [*lstm.parameters(), *emission.parameters(), transitions]
    return fit(torch.optim.Adam(params, lr=2e-2), loss)


@program
def speech_with_ctc():
    model = filled(nn.ModuleList([nn.Conv1d(8, 12, 3, padding=1), nn.GRU(12, 8, batch_first=True), nn.Linear(8, 5)]))
    audio, targets = numbers(3, 8, 12), classes(4, 3, 4) + 1
    lengths, target_lengths = torch.tensor([12, 10, 11]), torch.tensor([4, 3, 2])

    def loss():
        hidden, _ = model[1](F.hardtanh(model[0](audio)).transpose(1, 2))
        logs = F.log_softmax(model[2](hidden), -1).transpose(0, 1)
        return F.ctc_loss(logs, targets, lengths, target_lengths, blank=0, zero_infinity=True)

    return fit(torch.optim.Adam(model.parameters(), lr=1e-2), loss)


@program
def temporal_convolutions():
    class Chomp(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            return x[:, :, : -self.n].contiguous()

    layers = []
    for i in range(3):
        d = 2**i
        conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 4, 3, padding=2 * d, dilation=d))
        layers += [conv, Chomp(2 * d), nn.ReLU()]
    net, head = filled(nn.Sequential(*layers)), filled(nn.Linear(4, 1))
    x = numbers(4, 4, 16)
    y = x.sum(1).cumsum(1)[:, -1:]
    params = [*net.parameters(), *head.parameters()]
    return fit(torch.optim.Adam(params, lr=2e-3), lambda: F.mse_loss(head(net(x)[:, :, -1]), y))


@program
def mixture_of_experts():
    router = filled(nn.Linear(8, 4, bias=False))
    experts = filled(nn.ModuleList([nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)) for _ in range(4)]))
    x, y = numbers(12, 8), numbers(12, 8, seed=1)

    def loss():
        weights, chosen = torch.topk(router(x).softmax(-1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            row, slot = torch.where(chosen == i)
            out.index_add_(0, row, weights[row, slot, None] * expert(x[row]))
        load = F.one_hot(chosen, 4).float().mean((0, 1))
        return F.mse_loss(out, y) + 0.01 * (load * router(x).softmax(-1).mean(0)).sum()

    return fit(torch.optim.Adam([*router.parameters(), *experts.parameters()], lr=1e-2), loss)


@program
def selective_state_space():
    dim, state = 6, 4
    proj = filled(nn.Linear(dim, dim + 2 * state))
    log_a = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(dim, 1))
    head = filled(nn.Linear(dim, 3))
    x, y = numbers(2, 10, dim), classes(3, 2)

    def loss():
        delta, b, c = proj(x).split([dim, state, state], dim=-1)
        delta = F.softplus(delta)
        decay = torch.exp(delta.unsqueeze(-1) * -log_a.exp())
        drive = (delta * x).unsqueeze(-1) * b.unsqueeze(2)
        h, outs = torch.zeros(2, dim, state), []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + drive[:, t]
            outs.append(torch.einsum("bds,bs->bd", h, c[:, t]))
        return F.cross_entropy(head(torch.stack(outs, 1).mean(1)), y)

    return fit(torch.optim.Adam([*proj.parameters(), log_a, *head.parameters()], lr=1e-2), loss)


@program
def packed_sequences():
    words = [classes(10, n, seed=n) + 1 for n in (6, 4, 3, 1)]
    lengths = torch.tensor([len(w) for w in words])
    batch = pad_sequence(words, batch_first=True)
    embed, rnn, head = nn.Embedding(11, 6, padding_idx=0), nn.LSTM(6, 8, 2, batch_first=True), nn.Linear(8, 2)
    model, label = filled(nn.ModuleList([embed, rnn, head])), classes(2, 4)

    def loss():
        packed = pack_padded_sequence(embed(batch), lengths, batch_first=True, enforce_sorted=True)
        out, (h, _) = rnn(packed)
        full, sizes = pad_packed_sequence(out, batch_first=True)
        last = full[torch.arange(4), sizes - 1]
        return F.cross_entropy(head(last + h[-1]), label)

    return fit(torch.optim.Adam(model.parameters(), lr=1e-2), loss)


@program
def translation_transformer():
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    source, target, head = nn.Embedding(9, 16), nn.Embedding(9, 16), nn.Linear(16, 9)
    everything = filled(nn.ModuleList([model, source, target, head]))
    src, tgt = classes(9, 3, 6), classes(9, 3, 6, seed=1)
    causal = model.generate_square_subsequent_mask(5)

    def loss():
        out = model(source(src), target(tgt[:, :-1]), tgt_mask=causal)
        return F.cross_entropy(head(out).reshape(-1, 9), tgt[:, 1:].reshape(-1))

    return fit(torch.optim.Adam(everything.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9), loss)


@program
def preference_optimization():
    policy = filled(nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10)))
    reference = filled(nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10))).eval().requires_grad_(False)
    chosen, rejected = classes(10, 4, 6), classes(10, 4, 6, seed=1)

    def log_probability(model, tokens):
        logs = model(tokens[:, :-1]).log_softmax(-1)
        return torch.gather(logs, 2, tokens[:, 1:].unsqueeze(2)).squeeze(2).sum(-1)

    def loss():
        gain = log_probability(policy, chosen) - log_probability(policy, rejected)
        base = log_probability(reference, chosen) - log_probability(reference, rejected)
        return -F.logsigmoid(0.1 * (gain - base)).mean()

    return fit(torch.optim.RMSprop(policy.parameters(), lr=1e-2), loss)
