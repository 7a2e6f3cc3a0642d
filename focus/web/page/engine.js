// The page without a server: answers what `app.js` asks for by itself, with a worker that solves.
"use strict";

(function () {
  const { make, rules } = Focus;
  let worker = null, about = null;

  function started() {
    if (worker) return worker;
    const fresh = new Worker("worker.js", { type: "module" });
    fresh.onerror = () => { // it may not even have been asked to solve yet
      if (worker === fresh) worker = null;
      if (fresh.fail) fresh.fail();
    };
    return (worker = fresh);
  }

  Focus.ask = async function (path, body, signal) {
    if (location.protocol === "file:")
      throw new Error("A browser lets no page compute from a file. Serve the folder: python3 -m http.server");
    about ||= fetch("solvers.json").then((answer) => answer.json());
    const { puzzles, ...rest } = await about.catch(() => {
      about = null;
      throw new Error("The solvers did not load. Is the folder complete?");
    });
    const kindOf = (name) => rest.kinds.find(({ kind }) => kind === name);
    const [name, query] = path.split("?");
    if (name === "api/checkpoints") return rest;
    if (name === "api/parse") return { puzzle: rules.parse(kindOf(body.kind), body.text) };
    if (name === "api/example") {
      const { kind, level, seed } = Object.fromEntries(new URLSearchParams(query));
      started().postMessage({ solver: kindOf(kind).checkpoints[0].name }); // loads while one looks
      const there = puzzles[kind][level];
      return { puzzle: there[seed % there.length] };
    }
    return solve(rest, body, signal);
  };

  async function solve({ kinds }, { checkpoints, puzzle, steps }, signal) {
    const kind = kinds.find((one) => one.checkpoints.some(({ name }) => name === checkpoints[0]));
    const most = Math.min(...kind.checkpoints.filter(({ name }) => checkpoints.includes(name)).map((one) => one.most));
    if (!Number.isInteger(steps) || steps < 1 || steps > most) throw new Error(`steps is a number from 1 to ${most}, not ${steps}`);
    const parsed = rules.parse(kind, puzzle);
    const solution = rules.solve(kind, parsed);
    const shown = { ...kind, puzzle: parsed, solution, repairs: [],
      note: solution === null ? "the search was given up" : null };
    for (const name of checkpoints) {
      shown.repairs.push(await repair(kind, shown, name, steps, signal));
      if (signal.aborted) break; // Stop ends them all
    }
    return shown;
  }

  function repair(kind, shown, name, steps, signal) {
    const frames = [], view = liveView(shown, name, steps);
    return new Promise((resolve, reject) => {
      const mine = started();
      mine.onmessage = ({ data }) => {
        if (data.error) return reject(new Error(data.error));
        const frame = frameOf(kind, shown, data, frames.at(-1));
        frames.push(frame);
        view.draw(frame);
        if (frame.step === steps) resolve(frames);
      };
      mine.fail = () => reject(new Error("The solver could not be started in this browser."));
      // Ends the worker, which is in the midst of a step; what it has found so far is kept.
      signal.addEventListener("abort", () => {
        mine.terminate();
        worker = null;
        if (signal.reason.name === "AbortError" && frames.length > 1) resolve(frames);
        else reject(signal.reason);
      }, { once: true });
      mine.postMessage({ solver: name, question: rules.codes(kind, shown.puzzle), steps });
    }).then(() => {
      const last = frames.at(-1);
      const wrong = frames.findLastIndex((frame) => !frame.valid);
      return { checkpoint: name, steps: last.step, answer: last.answer, valid: last.valid,
        solved_at: last.valid ? wrong + 1 : null, frames, energy: null, defect: null, frontier: null };
    });
  }

  function frameOf(kind, { puzzle, solution }, { step, answer, confidence, valid }, before) {
    const maze = kind.task === "maze", text = step ? rules.text(kind, answer) : puzzle;
    const counts = Array.from(puzzle, (symbol) => !maze || symbol !== "#");
    const right = solution && counts.filter((one, cell) => one && text[cell] === solution[cell]).length;
    const length = (path) => path.split("o").length;
    return {
      step, answer: text,
      confidence: confidence.map((sure) => Math.min(9, Math.floor(sure * 10))).join(""),
      changed: before ? Array.from(text).flatMap((symbol, cell) => (symbol === before.answer[cell] ? [] : [cell])) : [],
      // A shortest path, not any route.
      valid: step > 0 && valid && (!maze || length(text) === length(solution)),
      accuracy: step && solution ? right / counts.filter(Boolean).length : null,
    };
  }

  // The answer while it is being computed, where the player will be.
  function liveView(shown, name, steps) {
    const grid = Focus.gridView(shown), words = make("p", { class: "measure", id: "live" }, "Loading the solver…");
    const bar = make("progress", { max: steps, value: 0, "aria-label": "Steps taken" });
    document.getElementById("player").replaceChildren(
      make("div", { class: "player" }, bar, words, make("div", { class: "views alone" },
        make("figure", { class: "repair" }, make("figcaption", {}, name), grid.element))));
    document.getElementById("save").hidden = true; // what it would save is no longer shown
    if (document.activeElement.id === "solve") document.getElementById("result").scrollIntoView({ block: "nearest" });
    return {
      draw(frame) {
        grid.draw(frame);
        bar.value = frame.step;
        words.textContent = `step ${frame.step} of ${steps}${frame.valid ? " · solved ✓" : ""}`;
      },
    };
  }

  // Stores the folder in the browser, so that the page opens without a connection.
  if ("serviceWorker" in navigator && location.protocol !== "file:")
    addEventListener("load", () => { navigator.serviceWorker.register("offline.js").catch(() => {}); });
})();
