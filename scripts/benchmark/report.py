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


def plot(path, results, ratios):
    """Bars of protectfs's ratios on a logarithmic scale, as SVG."""
    labels = list(dict.fromkeys(key[0] for key in results))
    height, width, left = 22 * len(labels) + 60, 760, 300
    reach = max(abs(math.log2(ratio)) for ratio in ratios["protectfs"]) or 1
    middle, unit = left + 160, (width - left - 220) / reach / 1.4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{left}" y="20" font-weight="bold">protectfs to gocryptfs (logarithmic; right is faster)</text>']
    for index, (label, ratio) in enumerate(zip(labels, ratios["protectfs"])):
        y, length = 40 + 22 * index, math.log2(ratio) * unit
        colour = "#2a7" if ratio >= 1 else "#c43"
        parts.append(f'<text x="{left - 10}" y="{y + 13}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="{middle + min(length, 0):.1f}" y="{y}" width="{abs(length):.1f}" height="16" fill="{colour}"/>')
        parts.append(f'<text x="{middle + max(length, 0) + 4:.1f}" y="{y + 13}">{ratio:.2f}</text>')
    parts.append(f'<line x1="{middle}" x2="{middle}" y1="34" y2="{height - 20}" stroke="#000"/></svg>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")
