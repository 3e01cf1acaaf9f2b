"""SimCLR on a data set of Hugging Face: views are made of a whole batch of its rows."""

import sys

import torch
from datasets import Image, load_dataset
from torch.utils.data import DataLoader

import coviews
from coviews.transforms import Views


def main(folder: str) -> None:
    torch.manual_seed(0)
    dataset = load_dataset("imagefolder", data_dir=folder, split="train")  # or the name of a set on the hub
    dataset = dataset.cast_column("image", Image(mode="RGB"))  # the encoder has three channels, also for grey images
    views = Views("recipe", size=32)
    # images of one size; otherwise: dataset.set_transform(lambda rows: {"views": [views(i) for i in rows["image"]]})
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True, collate_fn=views.collate)
    backbone = coviews.make_encoder("resnet8", 32)
    encoder = torch.nn.Sequential(backbone, torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)
    for epoch in range(1, 3):
        for batch in loader:
            x1, x2 = batch
            loss = coviews.info_nce(encoder(x1), encoder(x2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, labels {batch.targets['label'][:4].tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
