// Plays one or two repairs of a puzzle: play, pause, scrub, step.
"use strict";

Focus.player = function (host, shown) {
  if (!shown.repairs) {
    host.textContent = "This file holds no repair.";
    return null;
  }
  const { make } = Focus;
  const scales = Focus.scales(shown.repairs), { steps } = scales;
  const isMaze = shown.view === "maze";
  let step = 0, timer = null, reveal = false;

  const views = shown.repairs.map(oneRepair);
  const slider = make("input", { type: "range", min: 0, max: steps, value: 0, step: 1, class: "scrub",
    "aria-label": "Step" });
  const count = make("span", { class: "count" }); // no live region: it changes with every step
  const play = button("Play", toggle, "primary");
  const speed = make("select", { "aria-label": "Speed" });
  for (const [name, value] of [["slow", 2], ["normal", 5], ["fast", 15]])
    speed.append(make("option", { value }, name));
  speed.value = steps > 32 ? "15" : "5"; // a long repair is watched in ten seconds, too
  const live = make("p", { role: "status", class: "said" });
  const root = make("div", { class: "player", role: "group", "aria-label": "Player" },
    make("div", { class: "bar" },
      make("div", { class: "controls" },
        button("First", () => halt(0)), button("Back", () => halt(step - 1)), play,
        button("Forward", () => halt(step + 1)), button("Last", () => halt(steps)),
        make("label", {}, "Speed ", speed)),
      make("div", { class: "controls" }, slider, count, ...answerSwitch()),
      live),
    make("div", { class: views.length > 1 ? "views" : "views alone" }, ...views.map((view) => view.element)),
    legend(), Focus.glossary(shown.repairs[0]));
  if (shown.note) root.append(make("p", { class: "note" }, `No true answer to compare with: ${shown.note}.`));
  host.replaceChildren(root);

  slider.addEventListener("input", () => halt(Number(slider.value)));
  speed.addEventListener("change", () => { if (timer !== null) { stop(); start(); } });
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target === speed || event.target.type === "checkbox") return;
    const moves = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: steps };
    if (event.key in moves) halt(moves[event.key]);
    else if (event.key === " " && event.target.tagName !== "BUTTON") toggle();
    else return;
    event.preventDefault();
  });
  show(0);
  say();
  return { play: start, stop, isAtStart: () => step === 0 && timer === null, element: root, focus: () => slider.focus() };

  // The true answer is shown to those only who ask for it.
  function answerSwitch() {
    if (shown.solution === null || shown.view === "text") return [];
    const box = make("input", { type: "checkbox", class: "reveal" });
    box.addEventListener("change", () => {
      reveal = box.checked;
      show(step);
    });
    return [make("label", {}, box, " Show the answer")];
  }

  function button(name, action, kind = "") {
    const element = make("button", { type: "button", class: kind }, name);
    element.addEventListener("click", action);
    return element;
  }

  function oneRepair(repair) {
    const grid = Focus.gridView(shown);
    const words = make("p", { class: "measure", title: Focus.terms.energy.join(": ") });
    const beside = make("div", { class: "beside" }, words);
    const element = make("figure", { class: "repair" },
      make("figcaption", {}, repair.checkpoint), grid.element, beside);
    let plot = null;
    if (repair.energy) {
      plot = Focus.plot(repair, scales, halt);
      beside.append(plot.element);
      if (repair.frontier) beside.append(make("p", { class: "note" }, Focus.frontierWords(repair.frontier)));
    }
    const frameAt = (at) => repair.frames.findLast((frame) => frame.step <= at);
    let drawn = null, revealed = false;
    function show(at) {
      const frame = frameAt(at);
      if (frame !== drawn || revealed !== reveal) grid.draw(frame, reveal);
      drawn = frame;
      revealed = reveal;
      const parts = [frame.step === 0 ? "the puzzle" : frame.valid ? "solved ✓" : "not solved"];
      if (frame.step) parts.push(`${frame.changed.length} changed`);
      if (frame.accuracy !== null) parts.push(`${(frame.accuracy * 100).toFixed(0)} % of cells right`);
      if (repair.energy) parts.push(`energy ${(repair.energy[Math.min(at, repair.steps)]).toFixed(2)}`);
      words.textContent = parts.join(" · ");
      element.classList.toggle("is-solved", frame.valid);
      if (plot) plot.show(Math.min(at, repair.steps));
    }
    return { element, show, repair, frameAt };
  }

  function legend() {
    const items = [["key-given", "given"], ["key-sure", isMaze ? "bluer: likelier path" : "bluer: surer"], ["key-changed", "changed"],
      [isMaze ? "key-astray" : "key-wrong", "wrong"]];
    if (isMaze) {
      items[0] = ["key-path", "marked path"];
      items.push(["key-missed", "missed, with the answer shown"]);
    }
    return make("ul", { class: "legend" }, ...items.map(([kind, words]) =>
      make("li", {}, make("span", { class: `key ${kind}`, "aria-hidden": "true" }), words)));
  }

  function show(at) {
    step = Math.min(steps, Math.max(0, at));
    slider.value = step;
    slider.setAttribute("aria-valuetext", `step ${step} of ${steps}`);
    count.textContent = `${step} / ${steps}`;
    views.forEach((view) => view.show(step));
  }

  function halt(at) {
    stop();
    show(at);
    say();
  }

  // Said aloud at rest only: a voice cannot follow the playing.
  function say() {
    const said = views.map(({ repair, frameAt }) => {
      const frame = frameAt(step);
      const name = views.length > 1 ? `${repair.checkpoint}: ` : "";
      if (repair.solved_at !== null && step >= repair.solved_at) return `${name}solved at step ${repair.solved_at}`;
      if (step === steps) return `${name}not solved in ${repair.steps} steps`;
      return `${name}step ${step}, ${frame.changed.length} cells changed`;
    });
    live.textContent = said.join("; ");
  }

  function toggle() {
    if (timer !== null) {
      stop();
      say();
    } else start();
  }

  function start() {
    if (step >= steps) show(0);
    // Who prefers less motion gets steps one by one, without transitions, and slowly.
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches ? 2 : 1;
    timer = setInterval(() => {
      show(step + 1);
      if (step >= steps) halt(steps);
    }, (1000 / Number(speed.value)) * calm);
    play.textContent = "Pause";
    live.textContent = "";
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
};
