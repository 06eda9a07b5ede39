"""Small programs of computer vision."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import classes, filled, fit, numbers, program, uniform
from torch import optim
from torch.optim.lr_scheduler import StepLR


@program
def mnist():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 8, 3, 1)
            self.conv2 = nn.Conv2d(8, 16, 3, 1)
            self.dropout1 = nn.Dropout(0.0)
            self.fc1 = nn.Linear(16 * 5 * 5, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.relu(self.conv2(x))
            x = F.max_pool2d(x, 2)
            x = self.dropout1(torch.flatten(x, 1))
            return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    device = torch.device("cpu")
    model = filled(Net()).to(device)
    data, target = numbers(16, 1, 14, 14), classes(10, 16)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _epoch in range(1, 4):
        model.train()
        optimizer.zero_grad()
        loss = F.nll_loss(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        output = model(data)
        losses.append(F.nll_loss(output, target, reduction="sum").item())
        pred = output.argmax(dim=1, keepdim=True)
        losses.append(float(pred.eq(target.view_as(pred)).sum().item()))
    return losses


@program
def vae():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
            self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 64)

        def reparameterize(self, mu, logvar, step):
            return mu + numbers(*mu.shape, seed=step) * torch.exp(0.5 * logvar)

        def forward(self, x, step):
            h = F.relu(self.fc1(x.view(-1, 64)))
            mu, logvar = self.fc21(h), self.fc22(h)
            z = self.reparameterize(mu, logvar, step)
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar

    model, x = filled(VAE()), uniform(12, 1, 8, 8)
    optimizer, losses = optim.Adam(model.parameters(), lr=1e-3), []
    for step in range(5):
        optimizer.zero_grad()
        recon, mu, logvar = model(x, step)
        bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = bce + kld
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(x))
    return losses


@program
def dcgan():
    netG = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    netD = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    )  # fmt: skip
    filled(netG, 1), filled(netD, 2)
    criterion = nn.BCELoss()
    optD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real, losses = numbers(6, 1, 16, 16).tanh(), []
    for step in range(3):
        netD.zero_grad()
        label = torch.full((6,), 1.0)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(numbers(6, 8, 1, 1, seed=step))
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optG.step()
        losses += [(errD_real + errD_fake).item(), errG.item()]
    return losses


@program
def super_resolution():
    class Net(nn.Module):
        def __init__(self, upscale_factor):
            super().__init__()
            self.relu = nn.ReLU()
            self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
            self.conv2 = nn.Conv2d(16, 8, (3, 3), (1, 1), (1, 1))
            self.conv3 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
            self.pixel_shuffle = nn.PixelShuffle(upscale_factor)

        def forward(self, x):
            return self.pixel_shuffle(self.conv3(self.relu(self.conv2(self.relu(self.conv1(x))))))

    model, criterion = filled(Net(2)), nn.MSELoss()
    high = uniform(4, 1, 16, 16)
    low = F.interpolate(high, scale_factor=0.5, mode="bilinear", align_corners=False)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    losses = fit(optimizer, lambda: criterion(model(low), high))
    with torch.no_grad():
        psnr = -10 * torch.log10(F.mse_loss(model(low), high))
    return [*losses, psnr.item()]


@program
def fast_neural_style():
    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.pad = nn.ReflectionPad2d(1)
            self.conv = nn.Conv2d(channels, channels, 3)
            self.norm = nn.InstanceNorm2d(channels, affine=True)

        def forward(self, x):
            return x + F.relu(self.norm(self.conv(self.pad(x))))

    def gram_matrix(y):
        b, ch, h, w = y.size()
        features = y.view(b, ch, w * h)
        return features.bmm(features.transpose(1, 2)) / (ch * h * w)

    net = filled(
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Residual(8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3))
    )
    vgg = filled(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)), 3).requires_grad_(False)
    content, style = uniform(2, 3, 8, 8), uniform(1, 3, 14, 14, seed=1)
    target = gram_matrix(vgg(style)).expand(2, -1, -1)
    optimizer = optim.Adam(net.parameters(), 1e-2)

    def loss():
        y = net(content)
        wanted = F.interpolate(content, size=y.shape[2:], mode="nearest")
        tv = (y[..., 1:] - y[..., :-1]).abs().mean()
        return F.mse_loss(vgg(y), vgg(wanted)) + 1e2 * F.mse_loss(gram_matrix(vgg(y)), target) + 1e-2 * tv

    return fit(optimizer, loss)


@program
def siamese_network():
    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
            self.fc = nn.Sequential(nn.Linear(2 * 4 * 5 * 5, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))

        def forward(self, a, b):
            return torch.sigmoid(self.fc(torch.cat((self.features(a), self.features(b)), 1)))

    model = filled(Siamese())
    a, b = numbers(8, 1, 12, 12), numbers(8, 1, 12, 12, seed=1)
    target = classes(2, 8).float()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    return fit(optimizer, lambda: F.binary_cross_entropy(model(a, b).squeeze(), target))


@program
def resnet():
    class BasicBlock(nn.Module):
        def __init__(self, inside, out, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
            self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.shortcut = nn.Sequential()
            if stride != 1 or inside != out:
                self.shortcut = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))

    model = nn.Sequential(
        BasicBlock(3, 8), BasicBlock(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )
    filled(model)
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.constant_(m.weight, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    x, y, losses = numbers(8, 3, 12, 12), classes(5, 8), []
    for _ in range(4):
        losses += fit(optimizer, lambda: F.cross_entropy(model(x), y), 1)
        scheduler.step()
    model.eval()
    return [*losses, F.cross_entropy(model(x), y).item()]


@program
def unet():
    class DoubleConv(nn.Sequential):
        def __init__(self, a, b):
            super().__init__(
                nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1)
            )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2 = DoubleConv(1, 4), DoubleConv(4, 8)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.last, self.head = DoubleConv(8, 4), nn.Conv2d(4, 1, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            return self.head(self.last(torch.cat([a, self.up(b)], dim=1)))

    model, x = filled(UNet()), numbers(2, 1, 12, 12)
    mask = (x > 0.3).float()

    def dice_and_bce():
        logits = model(x)
        p = logits.sigmoid()
        dice = 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)
        return F.binary_cross_entropy_with_logits(logits, mask, pos_weight=torch.tensor(2.0)) + dice

    return fit(optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9), dice_and_bce)


@program
def vision_transformer():
    class ViT(nn.Module):
        def __init__(self, dim=16, patch=4, heads=4, depth=2):
            super().__init__()
            self.patch = nn.Conv2d(3, dim, patch, patch)
            self.cls = nn.Parameter(torch.zeros(1, 1, dim))
            self.pos = nn.Parameter(torch.zeros(1, 10, dim))
            layer = nn.TransformerEncoderLayer(dim, heads, 32, 0.0, "gelu", batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 5)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
            return self.head(self.norm(self.encoder(x)[:, 0]))

    model = filled(ViT())
    x, y = numbers(4, 3, 12, 12), classes(5, 4)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    return fit(optimizer, lambda: F.cross_entropy(model(x), y, label_smoothing=0.1))


@program
def mlp_mixer():
    class MixerBlock(nn.Module):
        def __init__(self, tokens, dim):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.tokens = nn.Sequential(nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
            self.channels = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))

        def forward(self, x):
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    model = filled(nn.Sequential(MixerBlock(9, 8), MixerBlock(9, 8)))
    head = filled(nn.Linear(8, 3))
    x = F.unfold(numbers(4, 2, 6, 6), 2, stride=2).transpose(1, 2)
    params = [*model.parameters(), *head.parameters()]
    y = classes(3, 4)
    return fit(optim.Adam(params, lr=5e-3), lambda: F.cross_entropy(head(model(x).mean(1)), y))


@program
def spatial_transformer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.loc = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2, stride=2), nn.ReLU(True), nn.Flatten())
            self.fc_loc = nn.Linear(4 * 4 * 4, 6)
            self.fc = nn.Linear(144, 4)

        def forward(self, x):
            theta = self.fc_loc(self.loc(x)).view(-1, 2, 3)
            grid = F.affine_grid(theta, x.size(), align_corners=False)
            return self.fc(F.grid_sample(x, grid, align_corners=False).flatten(1))

    model = filled(Net())
    with torch.no_grad():
        model.fc_loc.weight.mul_(0.1)
        model.fc_loc.bias.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
    x, y = numbers(6, 1, 12, 12), classes(4, 6)
    return fit(optim.SGD(model.parameters(), lr=0.05), lambda: F.cross_entropy(model(x), y))


@program
def mobile_net():
    class Inverted(nn.Module):
        def __init__(self, channels, expand):
            super().__init__()
            wide = channels * expand
            self.conv = nn.Sequential(
                nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
                nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
            )  # fmt: skip
            self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, wide, 1), nn.Hardsigmoid())
            self.out = nn.Conv2d(wide, channels, 1)

        def forward(self, x):
            h = self.conv(x)
            return x + self.out(h * self.squeeze(h))

    model = filled(
        nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), Inverted(4, 3), Inverted(4, 2), nn.AvgPool2d(4), nn.Flatten())
    )
    head = filled(nn.Linear(16, 3))
    x, y = numbers(6, 3, 16, 16), classes(3, 6)
    params = list(model.parameters()) + list(head.parameters())
    return fit(optim.SGD(params, lr=0.05, momentum=0.9), lambda: F.cross_entropy(head(model(x)), y))


@program
def denoising_autoencoder():
    encoder = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ELU(), nn.Conv2d(8, 4, 3, stride=2, padding=1))
    decoder = nn.Sequential(
        nn.Upsample(scale_factor=4, mode="bilinear", align_corners=True), nn.Conv2d(4, 1, 3, padding=1)
    )
    model = filled(nn.Sequential(encoder, nn.Softplus(), decoder, nn.Sigmoid()))
    clean = uniform(4, 1, 12, 12)
    optimizer = optim.NAdam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(5):
        noisy = (clean + 0.2 * numbers(*clean.shape, seed=step)).clamp_(0, 1)
        losses += fit(optimizer, lambda x=noisy: F.smooth_l1_loss(model(x), clean), 1)
    return losses


@program
def object_boxes():
    backbone = filled(nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Mish(), nn.Conv2d(8, 8, 3, 2, 1), nn.Mish()))
    head = filled(nn.Conv2d(8, 4 + 3, 1))
    x, boxes, labels = numbers(2, 3, 16, 16), uniform(2, 16, 4), classes(3, 2, 16)
    optimizer = optim.Adam([{"params": backbone.parameters(), "lr": 1e-3}, {"params": head.parameters()}], lr=1e-2)

    def loss():
        out = head(backbone(x)).permute(0, 2, 3, 1).reshape(2, 16, 7)
        box, logits = out.split([4, 3], dim=-1)
        lt, rb = torch.maximum(box[..., :2], boxes[..., :2]), torch.minimum(box[..., 2:], boxes[..., 2:])
        overlap = (rb - lt).clamp(min=0).prod(-1).mean()
        chance = logits.softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        focal = -((1 - chance) ** 2 * chance.clamp_min(1e-6).log()).mean()
        return F.l1_loss(box, boxes) + focal - 0.1 * overlap

    return fit(optimizer, loss)


@program
def contrastive_views():
    encoder = filled(nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)))
    images = numbers(8, 1, 8, 8)

    def info_nce():
        a = F.normalize(encoder(images + 0.1 * numbers(8, 1, 8, 8, seed=1)), dim=1)
        b = F.normalize(encoder(images.flip(-1)), dim=1)
        z = torch.cat([a, b])
        similarity = z @ z.t() / 0.5
        similarity.fill_diagonal_(-1e9)
        return F.cross_entropy(similarity, torch.arange(16).roll(8))

    return fit(optim.Adagrad(encoder.parameters(), lr=0.05), info_nce)
