"""Writes simple SVG pictures: texts, lines and bars."""

from collections.abc import Iterable
from html import escape


def document(width: int, height: int, *parts: str) -> str:
    """Return an SVG document of this size, with a white background."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
        f'fill="white"/>{"".join(parts)}</svg>\n'
    )


def text(
    x: float, y: float, words: str, *, colour: str = "#222", anchor: str = "start", style: str = ""
) -> str:
    """Return a line of text; `style` has further attributes, such as `font-weight="bold"`."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" {style}>{escape(words)}</text>'
    )


def line(points: Iterable[tuple[float, float]], colour: str, *, dashes: str = "") -> str:
    """Return a line through these points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>'


def bar(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0) -> str:
    """Return a filled rectangle, at least a pixel wide."""
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1.0):.1f}" height="{height}" fill="{colour}" '
        f'opacity="{opacity}"/>'
    )
