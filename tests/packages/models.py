"""Real models with random weights, from torchvision, timm, transformers and diffusers, in sizes that a CPU runs in seconds.

Each builder returns (model, positional inputs, keyword inputs). Inputs come from NumPy, so that both libraries get the same.
"""

import contextlib

import numpy as np
import torch


def image(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def tokens(*shape, below=90, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(3, below, shape))


# --- torchvision -----------------------------------------------------------------------------------------------------


def vision(name, size=64, batch=2, **options):
    def build():
        from torchvision import models

        return models.get_model(name, weights=None, **options), (image(batch, 3, size, size),), {}

    return build


def vision_part(folder, name, *shapes, **options):
    def build():
        import importlib

        module = importlib.import_module(f"torchvision.models.{folder}")
        made = getattr(module, name)(weights=None, **options)
        return made, tuple(image(*shape, seed=i) for i, shape in enumerate(shapes)), {}

    return build


def detector(name, size=160, **options):
    """The losses of a detector, which are its outputs in training mode."""

    def build():
        from torchvision.models import detection

        made = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **options)
        made.train()
        for module in made.modules():  # statistics of batches of one image would be noise
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eval()
        boxes = [[10.0, 12.0, 90.0, 100.0], [30.0, 40.0, 120.0, 140.0]]
        targets = [{"boxes": torch.tensor(boxes), "labels": torch.tensor([1, 3])}]
        return Training(made), ([image(3, size, size).sigmoid()], targets), {}

    return build


class Training(torch.nn.Module):
    """A model that stays in training mode."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def train(self, mode=True):
        return self

    def forward(self, *args):
        return self.model(*args)


VISION = {
    "alexnet": vision("alexnet", 96),
    "vgg11_bn": vision("vgg11_bn"),
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "resnext50_32x4d": vision("resnext50_32x4d"),
    "densenet121": vision("densenet121"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "convnext_tiny": vision("convnext_tiny"),
    "shufflenet_v2_x1_0": vision("shufflenet_v2_x1_0"),
    "googlenet": vision("googlenet", init_weights=True),
    "vit_b_32": vision("vit_b_32", image_size=64),
    "swin_t": vision("swin_t"),
    "maxvit_t": vision("maxvit_t", 224, batch=1),
    "deeplabv3_mobilenet_v3_large": vision_part(
        "segmentation", "deeplabv3_mobilenet_v3_large", (2, 3, 64, 64), weights_backbone=None
    ),
    "fcn_resnet50": vision_part("segmentation", "fcn_resnet50", (1, 3, 64, 64), weights_backbone=None),
    "ssdlite320_mobilenet_v3_large": detector("ssdlite320_mobilenet_v3_large"),
    "retinanet_resnet50_fpn": detector("retinanet_resnet50_fpn", min_size=160, max_size=160),
    "r3d_18": vision_part("video", "r3d_18", (1, 3, 4, 32, 32)),
    "raft_small": vision_part("optical_flow", "raft_small", (1, 3, 128, 128), (1, 3, 128, 128)),
}


# --- timm --------------------------------------------------------------------------------------------------------------


def timm_model(name, size=64, **options):
    def build():
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **options), (image(1, 3, size, size),), {}

    return build


TIMM = {
    "resnet26d": timm_model("resnet26d"),
    "seresnet18": timm_model("legacy_seresnet18"),
    "res2net50_14w_8s": timm_model("res2net50_14w_8s"),
    "mobilenetv4_conv_small": timm_model("mobilenetv4_conv_small"),
    "efficientnetv2_rw_t": timm_model("efficientnetv2_rw_t"),
    "ghostnet_100": timm_model("ghostnet_100"),
    "convnextv2_atto": timm_model("convnextv2_atto"),
    "nfnet_l0": timm_model("nfnet_l0"),
    "vit_tiny_patch16_224": timm_model("vit_tiny_patch16_224", img_size=64),
    "deit3_small_patch16_224": timm_model("deit3_small_patch16_224", img_size=64),
    "beit_base_patch16_224": timm_model("beit_base_patch16_224", img_size=64, depth=4),
    "mixer_s32_224": timm_model("mixer_s32_224", 224),
    "poolformer_s12": timm_model("poolformer_s12"),
    "coat_tiny": timm_model("coat_tiny", 64, img_size=64),
    "edgenext_xx_small": timm_model("edgenext_xx_small"),
    "eva02_tiny_patch14_224": timm_model("eva02_tiny_patch14_224", 56, img_size=56),
}


# --- transformers --------------------------------------------------------------------------------------------------------

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99)
SMALL_IMAGE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32)


def text(config, model, inputs=None, **options):
    """A model of token ids."""

    def build():
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        given = inputs() if inputs else {"input_ids": tokens(2, 12)}
        return made, (), given

    return build


def encoder_and_decoder():
    return {"input_ids": tokens(2, 10), "decoder_input_ids": tokens(2, 7, seed=1)}


def pixels(size=32):
    return lambda: {"pixel_values": image(2, 3, size, size)}


def sound():
    return {"input_values": image(1, 4000)}


def both():
    return {"input_ids": tokens(2, 8), "pixel_values": image(2, 3, 32, 32)}


TRANSFORMERS = {
    "bert": text("BertConfig", "BertForMaskedLM", **SMALL),
    "roberta": text("RobertaConfig", "RobertaForSequenceClassification", **SMALL),
    "distilbert": text(
        "DistilBertConfig", "DistilBertForMaskedLM", vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64
    ),
    "electra": text("ElectraConfig", "ElectraForPreTraining", embedding_size=32, **SMALL),
    "deberta_v2": text(
        "DebertaV2Config", "DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"], **SMALL
    ),
    "gpt2": text("GPT2Config", "GPT2LMHeadModel", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=32),
    "gpt_neox": text("GPTNeoXConfig", "GPTNeoXForCausalLM", **SMALL),
    "llama": text("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2, **SMALL),
    "mistral": text("MistralConfig", "MistralForCausalLM", num_key_value_heads=2, sliding_window=4, **SMALL),
    "qwen2": text("Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2, **SMALL),
    "mixtral": text(
        "MixtralConfig",
        "MixtralForCausalLM",
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        **SMALL,
    ),
    "mamba": text("MambaConfig", "MambaForCausalLM", vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8),
    "t5": text(
        "T5Config",
        "T5ForConditionalGeneration",
        encoder_and_decoder,
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
    ),
    "bart": text(
        "BartConfig",
        "BartForConditionalGeneration",
        encoder_and_decoder,
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
    ),
    "vit": text("ViTConfig", "ViTForImageClassification", pixels(), patch_size=8, **SMALL_IMAGE),
    "dinov2": text("Dinov2Config", "Dinov2Model", pixels(), patch_size=8, **SMALL_IMAGE),
    "segformer": text(
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        pixels(64),
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=32,
    ),
    "wav2vec2": text(
        "Wav2Vec2Config",
        "Wav2Vec2Model",
        sound,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        **SMALL,
    ),
    "clip": text(
        "CLIPConfig",
        "CLIPModel",
        both,
        text_config=dict(max_position_embeddings=16, eos_token_id=98, **SMALL),
        vision_config=dict(patch_size=8, **SMALL_IMAGE),
        projection_dim=16,
    ),
}


# --- diffusers -----------------------------------------------------------------------------------------------------------


def diffusion(name, inputs, **options):
    def build():
        import diffusers

        return getattr(diffusers, name)(**options), (), inputs()

    return build


def noisy(channels=3, size=16, **more):
    def inputs():
        given = {"sample": image(1, channels, size, size), "timestep": torch.tensor([10])}
        for i, (key, shape) in enumerate(more.items()):
            given[key] = image(*shape, seed=i + 1)
        return given

    return inputs


BLOCKS = dict(block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4)
DIFFUSERS = {
    "unet_2d": diffusion(
        "UNet2DModel",
        noisy(),
        sample_size=16,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
        **BLOCKS,
    ),
    "unet_2d_condition": diffusion(
        "UNet2DConditionModel",
        noisy(4, encoder_hidden_states=(1, 6, 32)),
        sample_size=16,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **BLOCKS,
    ),
    "autoencoder_kl": diffusion(
        "AutoencoderKL",
        lambda: {"sample": image(1, 3, 32, 32)},
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        **BLOCKS,
    ),
    "vq_model": diffusion(
        "VQModel",
        lambda: {"sample": image(1, 3, 16, 16)},
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        **BLOCKS,
    ),
    "controlnet": diffusion(
        "ControlNetModel",
        noisy(4, encoder_hidden_states=(1, 6, 32), controlnet_cond=(1, 3, 32, 32)),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(8, 16),
        **BLOCKS,
    ),
    "dit": diffusion(
        "DiTTransformer2DModel",
        lambda: {
            "hidden_states": image(1, 4, 16, 16),
            "timestep": torch.tensor([3]),
            "class_labels": torch.tensor([5]),
        },
        num_attention_heads=4,
        attention_head_dim=8,
        num_layers=2,
        sample_size=16,
        norm_num_groups=4,
        num_embeds_ada_norm=20,
    ),
    "pixart": diffusion(
        "PixArtTransformer2DModel",
        lambda: {
            "hidden_states": image(1, 4, 16, 16),
            "timestep": torch.tensor([3]),
            "encoder_hidden_states": image(1, 6, 24, seed=1),
            "added_cond_kwargs": {"aspect_ratio": None, "resolution": None},
        },
        num_attention_heads=4,
        attention_head_dim=8,
        num_layers=2,
        sample_size=16,
        caption_channels=24,
        cross_attention_dim=32,
        norm_num_groups=4,
        use_additional_conditions=False,
    ),
    "tiny_autoencoder": diffusion(
        "AutoencoderTiny",
        lambda: {"sample": image(1, 3, 32, 32)},
        encoder_block_out_channels=(16, 16),
        decoder_block_out_channels=(16, 16),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ),
}

FAMILIES = {"torchvision": VISION, "timm": TIMM, "transformers": TRANSFORMERS, "diffusers": DIFFUSERS}


def floats(outputs):
    """The floating-point tensors in an output, in order; cached keys and values are left out."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, dict):
        return [t for key, value in outputs.items() if "past_key" not in key for t in floats(value)]
    if isinstance(outputs, (list, tuple)):
        return [t for value in outputs for t in floats(value)]
    if hasattr(outputs, "sample"):
        return floats(outputs.sample) if not callable(outputs.sample) else []
    return []


def run(builder, state=None):
    """(state, outputs, gradients) of a model as dicts of arrays; with a state, of the model that has it."""
    torch.manual_seed(0)
    model, args, kwargs = builder()
    model.eval()
    if state is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, strict=True)
    with contextlib.suppress(AttributeError):
        model.config.use_cache = False
    before = {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}
    outputs = floats(model(*args, **kwargs))
    loss = sum((out * torch.arange(out.numel()).reshape(out.shape).float().sin()).mean() for out in outputs)
    loss.backward()
    gradients = {name: p.grad.detach().numpy() for name, p in model.named_parameters() if p.grad is not None}
    return before, {str(i): out.detach().numpy() for i, out in enumerate(outputs)}, gradients
