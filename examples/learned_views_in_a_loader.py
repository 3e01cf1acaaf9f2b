"""SimCLR that learns its views: a DataLoader makes the views of whole batches, and a table learns from the losses."""

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import CenterCrop, Compose, Resize

import coviews
from coviews.transforms import Views


def main(folder: str) -> None:
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    views = Views("uniform")
    table = coviews.LossTable(views.source)
    dataset = ImageFolder(folder, transform=Compose([Resize(32), CenterCrop(32)]))  # all of one size
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True, collate_fn=views.collate)
    backbone = coviews.make_encoder("resnet8", 32)
    encoder = torch.nn.Sequential(backbone, torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)
    for epoch in range(1, 4):
        if epoch > 1:  # after a warm-up
            views.source = table.policy(generator)
        for batch in loader:
            x1, x2 = batch
            losses = coviews.info_nce(encoder(x1), encoder(x2))
            table.add(batch.plan, losses)
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {losses.mean().item():.3f}, {len(table)} pairs in the table")


if __name__ == "__main__":
    main(sys.argv[1])
