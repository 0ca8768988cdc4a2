"""The model as Lightning Fabric runs it: the code of a stochastic encoding passes through untouched.

Fabric converts the tensors in a module's arguments to the run's precision, looks for them inside dataclasses too, and
refuses frozen ones. A code belongs to the model, which made it in the precision it wants.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from musicgen.model.performer import Performer


class Sealed:
    """Something that is not looked into."""

    def __init__(self, content: Any) -> None:
        self.content = content


class FabricModel(nn.Module):
    """A model that takes its code sealed."""

    def __init__(self, model: Performer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Tensor, code: Sealed, state: Sealed | None = None
    ) -> Tensor | tuple[Tensor, Sealed]:
        """Return the logits of what follows each token, (B, T) → (B, T, V); after a state, the next one too."""
        if state is None:
            return self.model(tokens, code.content)
        logits, after = self.model.follow(tokens, self.model.go_on(state.content, code.content))
        return logits, Sealed(after)
