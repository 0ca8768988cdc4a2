"""Average the weights of a model from before and after fine-tuning: that keeps more of both than either.

A short round of fine-tuning forgets something. Weights between the two have nearly all of it again and keep what is new
(Wortsman et al., CVPR 2022, arXiv:2109.01903). Weights that only the later model has are kept as they are, and so are
embeddings of goals that the earlier one did not have (musicgen/model/goals.py). Goal embeddings may be scaled, which
makes goals weigh more and changes nothing where there is none. Random projections, drawn and not learned, are the later
model's: an average of two draws is not one.
"""

from __future__ import annotations

import torch

from musicgen.model.performer import Performer
from tokenization.wording import counted
from training.growth import GOALS


@torch.no_grad()
def blended(later: Performer, before: Performer, share: float, louder: float = 1.0) -> Performer:
    """Return the later model, of whose weights so large a share is the earlier one's; it is changed in place."""
    if not 0 <= share <= 1:
        raise ValueError(f"the share of the earlier model is {share}; it lies in 0 ≤ share ≤ 1")
    if not louder > 0:
        raise ValueError(f"goal embeddings are scaled by {louder}; that is to be more than 0")
    if len(before.blocks) != len(later.blocks):  # grown layers come from those of other numbers
        raise ValueError(
            f"the earlier model has {counted(len(before.blocks), 'layer')} and this one {len(later.blocks)}; "
            "only models of as many layers can be blended"
        )
    known, learned = before.state_dict(), dict(later.named_parameters())
    for name, weight in later.state_dict().items():
        if name in known and known[name].shape != weight.shape:
            raise ValueError(
                f"{name} has another shape in the earlier model; it is none of this one's kind"
            )
        if name == GOALS:
            earlier = known.get(name, torch.zeros_like(weight)).to(weight)
            had_before = earlier.any(1, keepdim=True)
            weight.copy_(louder * torch.where(had_before, weight.lerp(earlier, share), weight))
        elif name in known and name in learned:
            weight.lerp_(known[name].to(weight), share)
    return later
