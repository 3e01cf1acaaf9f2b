"""SimCLR in plain PyTorch that learns its views from its own losses: only the lines marked * are new."""

import numpy as np
import torch

import coviews

images = coviews.load_images("shapes:2048").images
generator = np.random.default_rng(0)
torch.manual_seed(0)
backbone = coviews.make_encoder("resnet8")
encoder = torch.nn.Sequential(backbone, torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)

source = coviews.view_source("uniform")  # *
table = coviews.LossTable(source)  # *
for epoch in range(1, 13):
    if epoch > 4:  # after a warm-up, before every epoch
        source = table.policy(generator)  # *
    total = 0.0
    for batch in np.array_split(generator.permutation(len(images)), 8):
        plan = coviews.Plan.draw(source, len(batch), images.shape[1:3], generator)  # *
        x1, x2 = coviews.to_tensors(coviews.make_views(images[batch], plan))  # *
        losses = coviews.info_nce(encoder(x1), encoder(x2))
        table.add(plan, losses)  # *
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        total += losses.mean().item() / 8
    print(f"epoch {epoch}: loss {total:.3f}")
