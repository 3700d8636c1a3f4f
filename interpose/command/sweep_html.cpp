#include "interpose/command/sweep_html.h"

#include <fmt/format.h>

#include "interpose/command/chart_js.h"
#include "interpose/command/sizes.h"

namespace swapadvisor::command {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink: #1c2128; --paper: #ffffff; --faint: #d0d7de; --blue: #0969da; --grey: #6e7781; --green: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --faint: #30363d; --blue: #58a6ff; --grey: #8b949e; --green: #3fb950; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 2em auto; padding: 0 1em; }
.plot { height: 420px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3em .6em; border-bottom: 1px solid var(--faint); }
tr.enough td { color: var(--green); font-weight: 600; }
)";

constexpr const char* script = R"(
const data = JSON.parse(document.getElementById('data').textContent);
const gib = b => b / 2 ** 30;
let chart;
function draw() {
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const line = (label, color, y, dash) => ({
    label, borderColor: color, backgroundColor: color, borderDash: dash, tension: 0, pointRadius: dash ? 0 : 3,
    data: data.points.map(p => ({ x: gib(p.limit_bytes), y: y(p) / 1e6 })),
  });
  if (chart) chart.destroy();
  chart = new Chart(document.getElementById('plot'), {
    type: 'line',
    data: { datasets: [
      line('period', css('--blue'), p => p.period_ns),
      line('lower bound (program order)', css('--grey'), p => p.bound_ns, [6, 4]),
      line('infinite memory', css('--green'), p => p.compute_ns, [2, 3]),
    ] },
    options: {
      maintainAspectRatio: false, animation: false, color: css('--ink'),
      scales: {
        x: { type: 'linear', title: { display: true, text: 'device memory (GiB)', color: css('--ink') }, grid: { color: css('--faint') }, ticks: { color: css('--ink') } },
        y: { beginAtZero: true, title: { display: true, text: 'iteration (ms)', color: css('--ink') }, grid: { color: css('--faint') }, ticks: { color: css('--ink') } },
      },
    },
  });
}
draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
)";

std::string escaped(const std::string& text) {
    std::string out;
    for (char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else
            out += c;
    }
    return out;
}

}  // namespace

nlohmann::ordered_json as_json(const SweepResult& result) {
    nlohmann::ordered_json out{{"graph", result.graph},
                               {"slowdown_per_cent", result.slowdown_per_cent},
                               {"enough_bytes", nullptr},
                               {"least_memory_bytes", result.least_memory_bytes},
                               {"peak_memory_bytes", result.peak_memory_bytes},
                               {"device_memory_bytes", result.device_memory_bytes},
                               {"points", nlohmann::ordered_json::array()}};
    if (result.enough_bytes > 0) out["enough_bytes"] = result.enough_bytes;
    for (const PlanFigures& figures : result.points) out["points"].push_back(as_json(figures));
    return out;
}

std::string sweep_page(const SweepResult& result) {
    // "</" must not end the script element early.
    std::string data = as_json(result).dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
    for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3)
        data.replace(at, 2, "<\\/");
    std::string rows;
    for (const PlanFigures& f : result.points)
        rows += fmt::format(
            "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.1f} "
            "%</td><td>{}</td><td>{}</td></tr>\n",
            f.limit_bytes == result.enough_bytes ? " class=\"enough\"" : "", format_bytes(f.limit_bytes),
            format_ns(f.checked.period_ns), format_ns(f.bounds.best_ns()), f.ratio_to_bound(),
            f.speed_per_cent(), format_bytes(f.checked.in_bytes), format_bytes(f.checked.out_bytes));
    const std::string verdict =
        result.enough_bytes > 0
            ? fmt::format("Least memory for at most {:g} % slowdown: <strong>{}</strong>.",
                          result.slowdown_per_cent, format_bytes(result.enough_bytes))
            : fmt::format("No limit tried is within {:g} % of infinite memory.", result.slowdown_per_cent);
    std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += "<title>" + escaped(result.graph) + ": iteration time against memory</title>\n<style>";
    page += style;
    page += "</style></head><body>\n<h1>" + escaped(result.graph) + "</h1>\n<p>" + verdict +
            " It cannot run below " + format_bytes(result.least_memory_bytes) + "; above " +
            format_bytes(result.peak_memory_bytes) +
            " nothing needs to move.</p>\n<div class=\"plot\"><canvas id=\"plot\"></canvas></div>\n";
    page +=
        "<table><thead><tr><th>memory</th><th>iteration</th><th>bound</th><th>x "
        "bound</th><th>speed</th><th>in</th><th>out</th></tr></thead><tbody>\n";
    page += rows + "</tbody></table>\n<script type=\"application/json\" id=\"data\">" + data +
            "</script>\n<script>";
    page += chart_js();
    page += "</script>\n<script>";
    page += script;
    page += "</script>\n</body></html>\n";
    return page;
}

}  // namespace swapadvisor::command
