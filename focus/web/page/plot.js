// Energy and defect over the steps, with the current step and the frontier marked.
"use strict";

// Asked of the parser, so that a stored page holds no address at all.
Focus.svg = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;

// Repairs side by side share the scales of the plot, which hold all of them.
Focus.scales = (repairs) => ({
  steps: Math.max(...repairs.map((repair) => repair.steps)),
  energy: [0, Math.max(1e-3, ...repairs.flatMap((repair) => repair.energy || []))],
  defect: [
    Math.min(-0.5, ...repairs.flatMap((repair) => repair.defect || [])),
    Math.max(0.5, ...repairs.flatMap((repair) => repair.defect || [])),
  ],
});

Focus.plot = function (repair, scales, onStep) {
  const width = 360, left = 40, right = 10, { steps } = scales;
  const panels = [
    { name: "energy", title: "Energy", top: 18, bottom: 92 },
    { name: "defect", title: `Defect over ${repair.h} steps`, top: 122, bottom: 196 },
  ];
  const svg = draw("svg", { viewBox: `0 0 ${width} 226`, class: "plot", role: "img" });
  svg.setAttribute("aria-label", describe(repair));
  // Most happens early: long repairs are drawn on a root scale.
  const power = steps > 32 ? 0.5 : 1;
  const x = (step) => left + (step / Math.max(1, steps)) ** power * (width - left - right);
  const stepAt = (place) => Math.round(Math.max(0, (place - left) / (width - left - right)) ** (1 / power) * steps);
  for (const panel of panels) {
    const [low, high] = scales[panel.name];
    const y = (value) => panel.bottom - ((value - low) / (high - low)) * (panel.bottom - panel.top);
    Object.assign(panel, { y, values: repair[panel.name] });
    draw("path", { class: "axis", d: `M${left} ${panel.top}V${panel.bottom}H${width - right}` }, svg);
    explain(text(left, panel.top - 6, panel.title, "title"), panel.name);
    for (const value of [low, high]) text(left - 4, y(value) + 3, short(value), "tick end");
    if (panel.name === "defect") {
      draw("path", { class: "gamma", d: `M${left} ${y(repair.gamma)}H${width - right}` }, svg);
      explain(text(width - right, y(repair.gamma) - 4, "γ", "tick end"), "gamma");
    }
    const points = panel.values.map((value, step) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`);
    if (points.length) draw("path", { class: `line ${panel.name}`, d: `M${points.join("L")}` }, svg);
  }
  const beneath = panels[1].bottom + 14;
  text(width - right, beneath, `${steps} steps`, "tick end");
  for (const step of power < 1 ? [4, 16, 64, 256].filter((one) => one < 0.6 * steps) : [])
    if (!repair.frontier || Math.abs(x(step) - x(repair.frontier.step)) > 18) text(x(step), beneath, String(step), "tick middle");
  const frontier = repair.frontier;
  if (frontier) {
    const at = x(frontier.step);
    const kind = frontier.replayed ? "frontier" : "frontier hollow";
    draw("path", { class: "frontier-line", d: upright(at) }, svg);
    for (const panel of panels) {
      const y = panel.y(panel.values[frontier.step]);
      draw("path", { class: kind, d: `M${at} ${y - 5}l5 5l-5 5l-5 -5z` }, svg);
    }
    explain(text(at, beneath, "t*", "mark middle"), "frontier");
  }
  if (!frontier || x(frontier.step) > left + 16) text(left, beneath, "0", "tick middle");
  const now = draw("path", { class: "now" }, svg);
  const dots = panels.map((panel) => draw("circle", { class: `dot ${panel.name}`, r: 3.5 }, svg));
  svg.addEventListener("pointerdown", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    onStep(stepAt(at));
  });

  function show(step) {
    now.setAttribute("d", upright(x(step)));
    panels.forEach((panel, number) => {
      const value = panel.values[step];
      dots[number].toggleAttribute("hidden", value === undefined);
      if (value === undefined) return;
      dots[number].setAttribute("cx", x(step));
      dots[number].setAttribute("cy", panel.y(value));
    });
  }
  return { element: svg, show };

  function draw(name, attributes, parent) {
    const element = document.createElementNS(Focus.svg, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  }
  function upright(at) {
    return panels.map(({ top, bottom }) => `M${at} ${top}V${bottom}`).join("");
  }
  function text(x, y, words, kind) {
    const element = draw("text", { x, y, class: kind }, svg);
    element.textContent = words;
    return element;
  }
  function explain(element, term) {
    draw("title", {}, element).textContent = Focus.terms[term].join(": ");
  }
  function short(value) {
    return Math.abs(value) < 10 ? value.toFixed(1) : value.toFixed(0);
  }
  function describe({ energy, frontier }) {
    const said = `Energy from ${short(energy[0])} to ${short(energy[energy.length - 1])}.`;
    return frontier ? `${said} ${Focus.frontierWords(frontier)}` : said;
  }
};

Focus.frontierWords = (frontier) =>
  frontier.replayed
    ? `The repair frontier t* is at step ${frontier.step}.`
    : `Nearest the frontier: step ${frontier.step}. ` +
      "Training would not replay it, because the repair ends solved.";
