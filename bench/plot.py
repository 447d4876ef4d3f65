"""Draw time over size, one panel per number of workers, as an SVG."""
import math
import statistics

COLOURS = {"shm arena": "#0b6e4f", "shm private": "#4cb58d", "tcp": "#1f5fa8",
           "OpenMPI shm": "#d1495b", "OpenMPI tcp": "#e9967a",
           "Gloo": "#8d6a9f"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 300, 62, 46, 70


def text(x, y, words, size=12, anchor="middle", extra=""):
    return ('<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s"%s>%s'
            '</text>' % (x, y, size, anchor, extra, words))


def line(x1, y1, x2, y2, colour="#ddd", width=1):
    return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" '
            'stroke-width="%g"/>' % (x1, y1, x2, y2, colour, width))


def draw(rows, names, workers, sizes, show_size):
    """rows[(name, workers, bytes)] is a list of measured lines."""
    def median(name, count, size):
        values = [x["ms"] for x in rows.get((name, count, size), [])]
        return statistics.median(values) if values else None

    known = [median(n, p, s) for n in names for p in workers for s in sizes]
    known = [x for x in known if x]
    low = math.floor(math.log10(min(known)))
    high = math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    first, last = math.log2(min(sizes)), math.log2(max(sizes))
    width = LEFT + len(workers) * (WIDTH + GAP)
    height = TOP + HEIGHT + 90
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
           'font-family="sans-serif" fill="#222">' % (width, height),
           '<rect width="100%" height="100%" fill="white"/>']

    for index, count in enumerate(workers):
        left = LEFT + index * (WIDTH + GAP)

        def place(size, ms):
            share = (math.log2(size) - first) / max(last - first, 1)
            return (left + WIDTH * share, TOP + HEIGHT *
                    (high - math.log10(ms)) / (high - low))

        out.append(text(left + WIDTH / 2, TOP - 18,
                        "%d workers, milliseconds per allreduce" % count, 14))
        for power in range(low, high + 1):
            y = TOP + HEIGHT * (high - power) / (high - low)
            out.append(line(left, y, left + WIDTH, y))
            out.append(text(left - 8, y + 4, "%g" % 10**power, 11, "end"))
        for size in sizes:
            x = place(size, 1)[0]
            out.append(line(x, TOP, x, TOP + HEIGHT))
            out.append(text(x, TOP + HEIGHT + 18, show_size(size), 11))
        for name in names:
            dots = [place(s, median(name, count, s)) for s in sizes
                    if median(name, count, s)]
            out.append('<polyline fill="none" stroke="%s" stroke-width="2" '
                       'points="%s"/>' % (COLOURS[name], " ".join(
                           "%.1f,%.1f" % dot for dot in dots)))
            out += ['<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>'
                    % (x, y, COLOURS[name]) for x, y in dots]

    for index, name in enumerate(names):
        x = LEFT + index * (width - LEFT) / len(names)
        y = TOP + HEIGHT + 56
        out.append(line(x, y - 4, x + 22, y - 4, COLOURS[name], 3))
        out.append(text(x + 28, y, name, 12, "start"))
    return "\n".join(out + ["</svg>"]) + "\n"
