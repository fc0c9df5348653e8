"""Tables and pictures of what was measured."""

import math
import statistics


def table(results, names, costs):
    reference = "gocryptfs" if "gocryptfs" in names else names[0]
    median = {key: statistics.median(times) for key, times in results.items()}
    lines = [f"Ratios to {reference}: higher is better. Medians of seconds in brackets.", "",
             "| workload | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    ratios = {name: [] for name in names}
    for workload_name in dict.fromkeys(key[0] for key in results):
        cells = []
        for name in names:
            ratio = median[workload_name, reference] / median[workload_name, name]
            ratios[name].append(ratio)
            cells.append(f"{ratio:.2f} ({median[workload_name, name]:.3f})")
        lines.append(f"| {workload_name} | " + " | ".join(cells) + " |")
    means = {name: math.exp(statistics.fmean(map(math.log, values))) for name, values in ratios.items()}
    lines.append(f"| **geometric mean of {len(ratios[reference])}** | " +
                 " | ".join(f"**{means[name]:.2f}**" for name in names) + " |")
    for title, index in (("daemon's CPU seconds", 0), ("daemon's peak memory, MiB", 1)):
        cells = (f"{costs[name][index]:.1f}" if costs.get(name) else "" for name in names)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines), ratios


def plot(labels, ratios):
    """Bars of the ratios of some file systems, a group for each workload, on a logarithmic scale, as SVG."""
    colours = dict(zip(ratios, ("#9bd", "#27a", "#fb6", "#c60")))
    bar, left, width = 9, 300, 760
    group = bar * len(ratios) + 8
    height = group * len(labels) + 90
    highest = max(max(values) for values in ratios.values())
    lowest = min(1, *(min(values) for values in ratios.values()))
    unit = (width - left - 60) / (math.log2(highest / lowest) or 1)
    one = left - math.log2(lowest) * unit
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{left}" y="20" font-weight="bold">protectfs to gocryptfs (logarithmic; right is faster)</text>']
    for index, (name, colour) in enumerate(colours.items()):
        x = left + 110 * index
        parts.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="40">{name}</text>')
    for index, label in enumerate(labels):
        top = 54 + group * index
        parts.append(f'<text x="{left - 10}" y="{top + group / 2:.1f}" text-anchor="end">{label}</text>')
        for number, (name, values) in enumerate(ratios.items()):
            y, length = top + bar * number, math.log2(values[index]) * unit
            parts.append(f'<rect x="{one + min(length, 0):.1f}" y="{y}" width="{abs(length):.1f}" height="{bar - 1}" '
                         f'fill="{colours[name]}"/>')
            parts.append(f'<text x="{one + max(length, 0) + 4:.1f}" y="{y + 8}" font-size="9">{values[index]:.2f}</text>')
    parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="48" y2="{height - 20}" stroke="#000"/></svg>')
    return "\n".join(parts) + "\n"
