"""Line charts as SVG, for pages: axes of which either may be logarithmic, and a line with its name for each series.

    chart = Chart("Time of a step", "Mb/s", "seconds", log_x=True, log_y=True)
    chart.add("exact", [(1, 800.0), (10, 80.0)])
    path.write_text(chart.svg())

Needs nothing but Python, and the same values give the same bytes, so a picture changes in a commit only if what it
shows does.
"""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 200, 34, 48  # what is around the axes; the names of lines stand on the right
COLORS = ("#d05b5b", "#5b8fd0", "#5da46b", "#b07cc6", "#d9a441", "#555555", "#4fb3b3", "#a0694c")
TICKS = 6
ROOM_OF_A_NAME = 18


class Axis:
    """From values to places between `begin` and `end`."""

    def __init__(self, values, logarithmic, begin, end):
        self._logarithmic = logarithmic
        self._begin, self._end = begin, end
        if logarithmic and min(values) <= 0:
            raise ValueError("a logarithmic axis has no place for values of 0 and less")
        if logarithmic:
            self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
            self.high = max(self.high, self.low + 1)
        else:
            self._step = self._round_step(max(values) / TICKS)
            self.low, self.high = 0, self._step * math.ceil(max(values) / self._step)

    @staticmethod
    def _round_step(least):
        """1, 2 or 5 times a power of ten."""
        power = 10 ** math.floor(math.log10(least)) if least > 0 else 1
        return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)

    def place(self, value):
        at = math.log10(value) if self._logarithmic else value
        return self._begin + (at - self.low) / (self.high - self.low) * (self._end - self._begin)

    def ticks(self):
        if self._logarithmic:
            return [10.0 ** power for power in range(self.low, self.high + 1)]
        return [self._step * count for count in range(round(self.high / self._step) + 1)]


def text_of(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


class Chart:
    def __init__(self, title, x_name, y_name, log_x=False, log_y=False):
        self._title, self._x_name, self._y_name = title, x_name, y_name
        self._log_x, self._log_y = log_x, log_y
        self._lines = []
        self._level = None

    def add(self, name, points):
        """`points`: (x, y), in the order in which they are joined."""
        if not points:
            raise ValueError(f"{name}: a line without points")
        self._lines.append((name, list(points)))

    def mark(self, y, name):
        """A dashed line at this height."""
        self._level = (y, name)

    def svg(self):
        if not self._lines:
            raise ValueError("a chart without lines")
        xs = [x for _, points in self._lines for x, _ in points]
        ys = [y for _, points in self._lines for _, y in points]
        across = Axis(xs, self._log_x, LEFT, WIDTH - RIGHT)
        up = Axis(ys, self._log_y, HEIGHT - BOTTOM, TOP)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
            'font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="13">{escape(self._title)}</text>',
            *self._axes(across, up), *self._marked(up), *self._drawn(across, up), "</svg>", ""])

    def _axes(self, across, up):
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for value in across.ticks():
            x = across.place(value)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{text_of(value)}</text>'
        for value in up.ticks():
            y = up.place(value)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text_of(value)}</text>'
        middle = (TOP + bottom) / 2
        yield f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(self._x_name)}</text>'
        yield (f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">'
               f"{escape(self._y_name)}</text>")

    def _marked(self, up):
        if self._level is None:
            return
        y = up.place(self._level[0])
        yield (f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#888" '
               'stroke-dasharray="4 4"/>')
        yield f'<text x="{LEFT + 4}" y="{y - 4:.1f}" fill="#555">{escape(self._level[1])}</text>'

    def _drawn(self, across, up):
        for number, (name, points) in enumerate(self._lines):
            color = COLORS[number % len(COLORS)]
            joined = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in points)
            row, left = TOP + 8 + number * ROOM_OF_A_NAME, WIDTH - RIGHT + 12
            yield f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="2"/>'
            yield f'<line x1="{left}" y1="{row}" x2="{left + 18}" y2="{row}" stroke="{color}" stroke-width="2"/>'
            yield f'<text x="{left + 24}" y="{row + 4}" fill="{color}">{escape(name)}</text>'
