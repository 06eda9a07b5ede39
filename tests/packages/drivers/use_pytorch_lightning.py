"""pytorch_lightning: a Trainer with validation, checkpoints and callbacks."""

import logging
import tempfile
import warnings

import pytorch_lightning as pl
import torch

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pl.seed_everything(0, verbose=False)


class Regression(pl.LightningModule):
    def __init__(self, width=8):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layers(x), y)
        self.log("train", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val", torch.nn.functional.mse_loss(self.layers(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 5)]


x = torch.randn(64, 2)
y = x.sum(1, keepdim=True)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16, shuffle=True)
with tempfile.TemporaryDirectory() as folder:
    keep = pl.callbacks.ModelCheckpoint(folder, monitor="val")
    trainer = pl.Trainer(
        max_epochs=8,
        accelerator="cpu",
        devices=1,
        logger=False,
        callbacks=[keep],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    model = Regression()
    before = torch.nn.functional.mse_loss(model.layers(x), y).item()
    trainer.fit(model, loader, loader)
    after = trainer.callback_metrics["val"].item()
    assert after < before / 2, (before, after)
    again = Regression.load_from_checkpoint(keep.best_model_path, weights_only=False)
    assert abs(torch.nn.functional.mse_loss(again.layers(x), y).item() - keep.best_model_score.item()) < 1e-3
