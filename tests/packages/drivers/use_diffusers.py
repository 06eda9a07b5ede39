"""diffusers: a training step, sampling with several schedulers, saving and loading."""

import tempfile

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMPipeline, DDPMScheduler, EulerDiscreteScheduler, UNet2DModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    block_out_channels=(8, 16),
    layers_per_block=1,
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)
scheduler = DDPMScheduler(num_train_timesteps=20)
optimizer = torch.optim.AdamW(unet.parameters(), lr=3e-3)
clean, losses = torch.randn(4, 3, 8, 8), []
for _ in range(6):
    noise, steps = torch.randn_like(clean), torch.randint(0, 20, (4,))
    noisy = scheduler.add_noise(clean, noise, steps)
    loss = torch.nn.functional.mse_loss(unet(noisy, steps).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
for kind in (DDPMScheduler, DDIMScheduler, EulerDiscreteScheduler):
    sampler = kind(num_train_timesteps=20)
    sampler.set_timesteps(4)
    x = torch.randn(1, 3, 8, 8) * sampler.init_noise_sigma
    for t in sampler.timesteps:
        with torch.no_grad():
            x = sampler.step(unet(sampler.scale_model_input(x, t), t).sample, t, x).prev_sample
    assert torch.isfinite(x).all()
with tempfile.TemporaryDirectory() as folder:
    unet.save_pretrained(folder)
    again = UNet2DModel.from_pretrained(folder)
    with torch.no_grad():
        assert torch.allclose(again(clean, 3).sample, unet(clean, 3).sample, atol=1e-6)
pipe = DDPMPipeline(unet, scheduler)
pipe.set_progress_bar_config(disable=True)
images = pipe(batch_size=1, num_inference_steps=2, output_type="np").images
assert images.shape == (1, 8, 8, 3)
vae = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2)
assert vae.decode(vae.encode(clean).latent_dist.mode()).sample.shape == (4, 3, 8, 8)
