"""The prose of the report: what is asked, what a figure shows, and how it was measured. Braces are filled in."""

from __future__ import annotations

LEADS = {
    "page": """Loss past the trained length, properties of the encodings of position, where attention looks, and the
        style of continuations: the measurements of the papers, made again.""",
    "extrapolation": """A model reads pieces and predicts each next token. An encoding that carries over to lengths
        it was not trained with keeps the loss down after the dashed line.""",
    "realisations": """A stochastic encoding draws R realisations of its templates; R can be another at the test than
        in training. The paper finds the number of training best (appendix D.4).""",
    "ablation": """The same pieces, read by the model without a part of it: with the gates of a stochastic encoding
        open, through which no position comes; with its frequencies shuffled or other noise; with all tokens at one
        position; without what its metric heads find; with heads that forget nothing. What the loss does not notice,
        the model does not use.""",
    "positions": """One token over and over: nothing but position tells its copies apart. Translation invariance asks
        whether a weight depends on the offset alone, monotonicity whether it falls with the offset; 0 is perfect in
        both. An encoding whose weights are all equal holds no position and has neither (–).""",
    "pictures": """What the encodings have learned, and where attention looks in music that runs past the trained
        length.""",
    "continuation": """Every prompt, the first {prompt_bars} bars of a piece, is continued {samples} times to {tokens}
        tokens at temperature {temperature:g}. A model that does not drift stays as similar to its prompt in the last
        quarter as in the first.""",
    "form": """Songs come back to what they said, and they end. Real pieces are continued from their first bars;
        the same bars of the real piece stand beside.""",
    "infilling": """Some bars of real pieces are taken out and written anew between what comes before and after.""",
    "accompaniment": """One part of real pieces after the other is hidden and written anew to the other parts.
        Beside it, what nobody wrote for these bars: the part's own next bars, another piece of the style, another
        style.""",
    "benchmark": """An experiment of the papers that is not about music: {what}. The same small model with one encoding
        after the other, trained on the same examples in the same order; nothing here is about the models above.""",
}

CAPTIONS = {
    "extrapolation": """Mean over {pieces} pieces in stretches of a 16th of the trained length; shaded: one standard
        error. Below, where models can be compared: each less the mean of all at that position, paired by piece.""",
    "realisations": """Change of the loss within the trained length against the R of training (ring), paired by piece,
        with its standard error. Another R gives the random features another width: they are drawn anew.""",
    "probes": """Best head of the first layer, keys up to a 16th of the trained length back, by the position of the
        query; bars: standard error (jackknife over four groups of tokens).""",
    "attention": """Attention in {pieces} pieces that the model wrote, {length} tokens, their mean; white: the trained
        length. Colour is (a / {full:.3g})^0.4, as in the paper in proportion to the length.""",
    "look_back": "How far back attention looks on average; thin: what equal weights would give.",
    "templates": """What the first layer has learned to weigh lags by, for some of its heads and features, and what one
        draw makes of it.""",
    "all_templates": "All templates of the first layer, a line each; the largest weight of each is ±1.",
    "continuation": """{prompts} prompts in {styles} styles. Lines frame the scores: the prompt looped, the piece
        itself, and a piece of another style.""",
}

HOW = {
    "extrapolation": (
        """Teacher forcing on {pieces} pieces of the {split} split from their beginning, {whole} of them at least as
        long as measured; a stochastic encoding is drawn once a piece. Data: {folder}, checksum {checksum:.16}….""",
        """A piece counts once, by its mean over a stretch. ± is the deviation over pieces, as in table 6 of the SPE
        paper. Growth is by how much more a model's loss grows after its trained length than that of the models on
        average, with its standard error, paired by piece.""",
    ),
    "ablation": (
        """Read are {pieces} pieces of the {split} split of {folder}, paired piece by piece with the whole model. The
        model has not learned to do without the part: what another would come to that learned without it, only
        training says (`musicgen compare`).""",
    ),
    "form": (
        """{pieces} pieces of the {split} split of {data}: {prompt_bars} bars given, {bars} written.""",
    ),
    "infilling": ("""{pieces} pieces of the {split} split of {data}; gaps of {gap} bars.""",),
    "accompaniment": (
        """{bars} bars of {pieces} pieces of the {split} split of {data}, styles by turns.""",
    ),
    "benchmark": (
        """Each of {seeds} seeds: {length} of {batch} examples at a learning rate of {learning_rate:g}, on {machine},
        {threads}; seconds are of one run, and longer where the machine had other work.""",
    ),
    "positions": (
        """Unnormalised attention of the first layer, averaged over sequences of each token of the vocabulary; a
        stochastic encoding is drawn anew for each. Ranges are those of table 7 of the SPE paper in proportion to the
        trained length (the paper: 2048; an untrained model: 512).""",
        """Encodings in front of a feature map of the softmax kernel are shown by exp(q·k/√W), as in the paper; those
        after a feature map by the weights that the model computes, both without what heads forget by horizons, which is
        none of the encoding. One in musical time is told that each token takes a sixteenth. Where no more than one
        weight in a hundred differs from the rest, they have neither property (–).""",
    ),
    "continuation": (
        """Similarity is the cosine of style profiles. A style is one value, the mean over its prompts and samples;
        means and their 95 % intervals (Student's) are over styles.""",
        """Statistics of music are compared by the Wasserstein distance of first order. Its interval is Student's, by
        the jackknife over styles, or over pieces where they are of one style. What real pieces are apart is the mean
        of their halves over many halvings, times the root of a half's share of the pieces.""",
    ),
}
