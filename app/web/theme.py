"""The page's colours and letters: those of the system, none is fetched."""

from __future__ import annotations

from gradio.themes import Base


def theme() -> Base:
    """Return colours and the system's own fonts: none is fetched."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
    mono = ["ui-monospace", "Consolas", "DejaVu Sans Mono", "monospace"]
    base = Base(
        primary_hue="blue", neutral_hue="slate", radius_size="lg", font=sans, font_mono=mono
    )
    # Against white, gradio's own shades are too faint to be read by everybody.
    return base.set(
        body_text_color_subdued="#5d6879",
        block_info_text_color="#5d6879",
        button_primary_background_fill="#2a66c4",
        button_primary_background_fill_hover="#22549f",
        slider_color="#2a66c4",
        slider_color_dark="#6ea4ff",
    )
