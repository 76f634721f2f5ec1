#!/usr/bin/env python3
"""Draws ratios of throughputs over the number of threads, from what `bench/compare binlog --json` has written.

    bench/curves.py OUT.svg TITLE LABEL=FILE.json:SERVER/SERVER…

A line for each LABEL: the first server's transactions per second divided by the second one's. The picture looks like
those that `esker bench paper` makes (crates/bench/src/plot.rs).
"""
import html, json, math, sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 440, 80, 170, 44, 56
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
# About so many lines across.
TICKS = 6


def series(text):
    """A label, and its points."""
    label, _, rest = text.partition("=")
    file, _, pair = rest.rpartition(":")
    one, other = pair.split("/")
    with open(file) as f:
        cases = json.load(f)["results"]
    return label, [(case["threads"], case[one]["tps"] / case[other]["tps"]) for case in cases
                   if "tps" in case[one] and "tps" in case[other]]


def ticks(highest):
    """Round steps from 0 up to what covers the highest value."""
    rough = highest / TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [n * step for n in range(math.ceil(highest / step) + 1)]


def text(x, y, anchor, content, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(content)}</text>'


def line(one, other):
    return f'<line x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" y2="{other[1]:.1f}" stroke="#dddddd"/>'


def picture(title, lines):
    threads = sorted({x for _, points in lines for x, _ in points})
    marks = ticks(max(y for _, points in lines for _, y in points))
    span = math.log(threads[-1] / threads[0]) or 1
    at_x = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / threads[0]) / span
    at_y = lambda y: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / marks[-1]
    middle = (LEFT + WIDTH - RIGHT) / 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', text(middle, 24, "middle", title, 'font-size="15"')]
    for x in threads:
        out += [line((at_x(x), at_y(0)), (at_x(x), TOP)), text(at_x(x), HEIGHT - BOTTOM + 18, "middle", str(x))]
    for y in marks:
        out += [line((LEFT, at_y(y)), (WIDTH - RIGHT, at_y(y))), text(LEFT - 8, at_y(y) + 4, "end", f"{y:g}")]
    out += [text(middle, HEIGHT - 14, "middle", "threads"),
            text(18, (HEIGHT - BOTTOM + TOP) / 2, "middle", "ratio", f'transform="rotate(-90 18 {(HEIGHT - BOTTOM + TOP) / 2})"')]
    for number, (label, points) in enumerate(lines):
        colour, y = COLOURS[number % len(COLOURS)], TOP + 10 + 18 * number
        places = [(at_x(x), at_y(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        out += [f'<rect x="{WIDTH - RIGHT + 14}" y="{y - 5}" width="14" height="4" fill="{colour}"/>',
                text(WIDTH - RIGHT + 34, y, "start", label)]
    return "\n".join([*out, "</svg>", ""])


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with open(sys.argv[1], "w") as f:
        f.write(picture(sys.argv[2], [series(text) for text in sys.argv[3:]]))


if __name__ == "__main__":
    main()
