"""SimCLR with Lightning: the callback learns the views during `trainer.fit`, and its state is in the checkpoints."""

import lightning
import torch
from torch.utils.data import DataLoader

import coviews
from coviews.transforms import ViewBatch, Views
from coviews.transforms.lightning import LearnViews


class SimCLR(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = coviews.make_encoder("resnet8", 32)
        self.projector = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))

    def training_step(self, batch: ViewBatch) -> dict[str, torch.Tensor]:
        z1, z2 = (self.projector(self.backbone(x)) for x in batch)
        losses = coviews.info_nce(z1, z2)
        self.log("loss", losses.mean(), prog_bar=True)
        return {"loss": losses.mean(), "losses": losses}  # one for each pair: what the callback learns from

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)


def main() -> None:
    lightning.seed_everything(0, verbose=False)
    images = list(coviews.load_images("shapes:256").images)
    views = Views("uniform")
    loader = DataLoader(images, batch_size=64, shuffle=True, drop_last=True, collate_fn=views.collate)
    learning = LearnViews(views, warmup_epochs=1)
    lightning.Trainer(max_epochs=3, callbacks=[learning], accelerator="cpu", log_every_n_steps=1).fit(SimCLR(), loader)
    print(f"{type(views.source).__name__} of {len(learning.table)} pairs")


if __name__ == "__main__":
    main()
