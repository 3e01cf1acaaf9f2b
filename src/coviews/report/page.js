"use strict";
const page = JSON.parse(document.getElementById("page-data").textContent);
const narrow = window.matchMedia("(max-width: 640px)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const settings = { displaylogo: false, responsive: true, displayModeBar: false };

function colours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue("--" + name).trim();
  return { ink: named("ink"), grid: named("grid"), ghost: named("ghost"), panel: named("panel"), faint: named("faint") };
}

// on a phone a long name of a bar has two lines, so that the bars have room
function inTwoLines(name) {
  if (!narrow.matches || name.length < 20) return name;
  const spaces = [...name].map((letter, i) => (letter === " " ? i : -1)).filter((i) => i > 0);
  if (!spaces.length) return name;
  const middle = spaces.reduce((a, b) => (Math.abs(b - name.length / 2) < Math.abs(a - name.length / 2) ? b : a));
  return name.slice(0, middle) + "<br>" + name.slice(middle + 1);
}

// the figure as it is drawn now: in the colours of the page and for the width of the screen
function dressed(figure) {
  const c = colours();
  const axis = { gridcolor: c.grid, linecolor: c.grid, zerolinecolor: c.grid, tickcolor: c.grid, tickfont: { size: narrow.matches ? 10 : 12 } };
  const map = figure.data[0]?.type === "heatmap";
  // on a phone every name of a few has its place, upright
  const upright = map && narrow.matches && figure.data[0].x.length > 6 && figure.data[0].x.length <= 24 ? { dtick: 1, tickangle: 90, title: { ...figure.layout.xaxis.title, standoff: 24 } } : {};
  const layout = {
    ...figure.layout,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: c.ink, size: 13, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { bgcolor: c.panel, bordercolor: c.faint, font: { color: c.ink } },
    margin: { l: 50, r: narrow.matches ? 8 : 16, t: 8, b: 44 },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0, font: { size: 12 } },
    xaxis: { ...axis, ...figure.layout.xaxis, ...upright, fixedrange: narrow.matches },
    yaxis: { ...axis, ...figure.layout.yaxis, fixedrange: narrow.matches },
  };
  const data = figure.data.map((trace) => {
    const colour = trace.meta?.faint ? c.ghost : dark.matches ? trace.meta?.dark : undefined;
    const interval = trace.error_x ? { error_x: { ...trace.error_x, color: c.ink }, y: trace.y.map(inTwoLines) } : {};
    if (colour) return { ...trace, ...interval, line: { ...trace.line, color: colour }, marker: { ...trace.marker, color: colour } };
    if (map) {
      // beside the map there is no room on a phone: the scale lies on top of it
      const lying = { orientation: "h", x: 0.5, xanchor: "center", y: 1, yanchor: "bottom", len: 1, thickness: 8, tickfont: { size: 10 } };
      const scale = dark.matches && trace.meta?.darkscale;
      return { ...trace, colorscale: scale || trace.colorscale, colorbar: { ...trace.colorbar, outlinewidth: 0, ...(narrow.matches ? lying : {}) } };
    }
    return { ...trace, ...interval };
  });
  return [data, layout];
}

const drawn = new Map();
for (const place of document.querySelectorAll(".plot")) {
  const figure = page.charts[place.dataset.chart];
  drawn.set(place, figure);
  Plotly.newPlot(place, ...dressed(figure), settings);
}

function dressAgain() {
  for (const [place, figure] of drawn) Plotly.react(place, ...dressed(figure), settings);
}
dark.addEventListener("change", dressAgain);
// a scale that lies and one that stands are not the same to plotly: it would keep the room of the other
narrow.addEventListener("change", () => {
  for (const [place, figure] of drawn) {
    Plotly.purge(place);
    Plotly.newPlot(place, ...dressed(figure), settings);
  }
});

function show(index) {
  const frame = page.frames[index];
  document.getElementById("frame-label").textContent = frame.label;
  document.getElementById("frame-told").textContent = frame.told;
  slider.setAttribute("aria-valuetext", frame.label);
  for (const [place, figure] of drawn) {
    const change = frame.changes[place.dataset.chart];
    if (!change) continue;
    for (const [name, values] of Object.entries(change)) {
      figure.data = figure.data.map((trace, i) => ({ ...trace, [name]: values[i] }));
    }
    place.closest("figure").querySelector("figcaption").textContent = frame.alts[place.dataset.chart];
    place.setAttribute("aria-label", frame.alts[place.dataset.chart]);
    Plotly.react(place, ...dressed(figure), settings);
  }
}
const slider = document.getElementById("frame");
if (slider) slider.addEventListener("input", () => show(Number(slider.value)));

for (const choice of document.querySelectorAll("input[name=mixture]")) {
  choice.addEventListener("change", () => {
    for (const part of document.querySelectorAll("[data-mixture]")) part.hidden = part.dataset.mixture !== choice.value;
    for (const place of document.querySelectorAll("[data-mixture]:not([hidden]) .plot")) Plotly.Plots.resize(place);
  });
}
// a page that is watched is loaded again when the run has written something
if (page.live) {
  setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (answer?.ok && (await answer.text()) !== page.live) location.reload();
  }, 3000);
}
document.documentElement.dataset.ready = "yes";
