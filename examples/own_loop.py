"""SimCLR in plain PyTorch, with views that it learns by itself: only the five lines marked * are new."""

import numpy as np
import torch

import coviews

images = coviews.load_images("shapes:2048").images
generator = np.random.default_rng(0)
torch.manual_seed(0)
backbone = coviews.make_encoder("resnet8")
encoder = torch.nn.Sequential(backbone, torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4)

source, queue = coviews.view_source("random"), coviews.PolicyQueue()  # *
for epoch in range(1, 13):
    if epoch in (5, 9):  # after a warm-up, and then every few epochs
        queue.push(coviews.search(images, encoder, generator=generator))  # *
        source = queue  # *
    total = 0.0
    for batch in np.array_split(generator.permutation(len(images)), 8):
        plan = coviews.Plan.draw(source, len(batch), images.shape[1:3], generator)  # *
        x1, x2 = coviews.to_tensors(coviews.make_views(images[batch], plan))  # *
        loss = coviews.info_nce(encoder(x1), encoder(x2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() / 8
    print(f"epoch {epoch}: loss {total:.3f}")
