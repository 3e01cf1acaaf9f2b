"""SimCLR with lightly's data set, projection head and loss, and the views of coviews as its transform."""

import sys

import torch
from lightly.data import LightlyDataset
from lightly.loss import NTXentLoss
from lightly.models.modules import SimCLRProjectionHead
from torch.utils.data import DataLoader

import coviews
from coviews.transforms import Views


def main(folder: str) -> None:
    torch.manual_seed(0)
    # instead of lightly's SimCLRTransform; also a policy's file, or the file that `coviews choose` writes
    dataset = LightlyDataset(folder, transform=Views("crop small, mirror, light", size=32))
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
    model = torch.nn.Sequential(coviews.make_encoder("resnet8", 32), SimCLRProjectionHead(256, 256, 64))
    criterion = NTXentLoss(temperature=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)
    for epoch in range(1, 3):
        for (x1, x2), _labels, _names in loader:
            loss = criterion(model(x1), model(x2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
