"""Views as the transform of a torchvision data set, made in the workers of its DataLoader: SimCLR on a folder."""

import sys

import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

import coviews
from coviews.transforms import Views


def main(folder: str) -> None:
    torch.manual_seed(0)  # all views follow from it
    dataset = ImageFolder(folder, transform=Views("recipe", size=32))
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True, num_workers=2)
    backbone = coviews.make_encoder("resnet8", 32)
    encoder = torch.nn.Sequential(backbone, torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)
    for epoch in range(1, 4):
        for (x1, x2), _labels in loader:
            loss = coviews.info_nce(encoder(x1), encoder(x2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
