// The page with a server: choose, enter, solve, save.
"use strict";

(async function () {
  const at = (id) => document.getElementById(id);
  const { make } = Focus;
  let editor = null, kind = null, shown = null, asking = null;

  let about;
  try {
    about = await ask("api/checkpoints");
  } catch (error) {
    return complain(error);
  }
  const title = ({ task, side }) => `${task === "maze" ? "Maze" : "Sudoku"} ${side}×${side}`;
  at("kind").append(...about.kinds.map((one) => make("option", { value: one.kind }, title(one))));
  at("level").append(...about.levels.map((level) => make("option", { value: level }, level)));

  at("kind").addEventListener("change", choose);
  at("first").addEventListener("change", setSteps);
  at("second").addEventListener("change", limitSteps);
  at("generate").addEventListener("click", generate);
  at("clear").addEventListener("click", () => {
    complain(null);
    editor.write((kind.task === "maze" ? " " : ".").repeat(kind.side ** 2));
  });
  at("undo").addEventListener("click", () => editor.undo());
  at("use-text").addEventListener("click", () => use(at("text").value));
  at("text").closest("details").addEventListener("toggle", () => { at("text").value = editor.text(); });
  at("solve").addEventListener("click", solve);
  at("cancel").addEventListener("click", () => asking && asking.abort());
  at("save").addEventListener("click", save);
  const wanted = about.kinds.find((one) => one.checkpoints.some(({ name }) => name === about.against));
  if (wanted) at("kind").value = wanted.kind;
  choose();

  function choose() {
    kind = about.kinds.find((one) => one.kind === at("kind").value);
    const maze = kind.task === "maze";
    at("brushes").hidden = !maze;
    at("hint").textContent = maze
      ? "Click or drag to draw, tap on a touch screen. Keys: arrows move, space draws, # wall, S start, G goal, Backspace opens."
      : `Arrows move, 1–${kind.side} set, Backspace clears. Paste ${kind.side ** 2} characters anywhere in the grid.`;
    editor = Focus.editor(kind, {
      brush: () => document.querySelector("input[name=brush]:checked").value,
      onPaste: use,
    });
    at("editor").replaceChildren(editor.element);
    const options = () => kind.checkpoints.map(({ name }) => make("option", { value: name }, name));
    at("first").replaceChildren(...options());
    at("second").replaceChildren(make("option", { value: "" }, "nothing"), ...options());
    at("second").parentElement.hidden = kind.checkpoints.length < 2;
    at("alone").hidden = kind.checkpoints.length > 1;
    if (kind.checkpoints.some(({ name }) => name === about.against)) at("second").value = about.against;
    setSteps();
    welcome(editor);
  }

  // A first puzzle, unless the visitor was faster.
  async function welcome(empty) {
    await attempt(async () => {
      const puzzle = await drawn();
      if (!/[^ .]/.test(empty.read())) empty.write(puzzle);
    });
  }

  function setSteps() {
    for (const option of at("second").options) option.disabled = option.value === at("first").value;
    if (at("second").value === at("first").value) at("second").value = "";
    at("steps").value = "";
    limitSteps();
  }

  function limitSteps() {
    const names = [at("first").value, at("second").value];
    const chosen = kind.checkpoints.filter(({ name }) => names.includes(name));
    const most = Math.min(...chosen.map((one) => one.most));
    at("steps").max = most;
    const now = Number(at("steps").value);
    if (!now || now > most) at("steps").value = Math.min(...chosen.map((one) => one.steps));
  }

  async function drawn() {
    const seed = Math.floor(Math.random() * 1e9);
    const asked = new URLSearchParams({ kind: kind.kind, level: at("level").value, seed });
    return (await ask(`api/example?${asked}`)).puzzle;
  }

  async function generate() {
    const target = editor; // the kind may change while the puzzle is on its way
    await attempt(async () => target.write(await drawn()));
  }

  // The server parses, so that a paste is refused in the words of the command line.
  async function use(text) {
    const target = editor;
    await attempt(async () => {
      target.write((await ask("api/parse", { kind: kind.kind, text })).puzzle);
      at("status").textContent = "The puzzle is in the grid.";
    });
  }

  async function solve() {
    const checkpoints = [at("first").value, at("second").value].filter(Boolean);
    const steps = Number(at("steps").value);
    if (asking) return;
    at("solve").setAttribute("aria-disabled", "true"); // a disabled button would lose the focus
    at("cancel").hidden = false;
    asking = new AbortController();
    await attempt(async () => {
      at("status").textContent = "Solving…";
      shown = await patiently("api/solve", { checkpoints, puzzle: editor.read(), steps });
      at("result").hidden = false;
      const player = Focus.player(at("player"), shown);
      at("status").textContent = "";
      at("result").scrollIntoView({ block: "nearest" });
      player.focus();
    });
    at("solve").removeAttribute("aria-disabled");
    if (document.activeElement === at("cancel")) at("solve").focus();
    at("cancel").hidden = true;
    asking = null;
  }

  // A full queue says when to come back; come back then, until told to stop.
  async function patiently(path, body) {
    for (let attempts = 1; ; attempts++) {
      try {
        return await ask(path, body, asking.signal);
      } catch (error) {
        if (error.status !== 503) throw error;
        at("status").textContent = `Busy, waiting (${attempts})…`;
        const { signal } = asking;
        await new Promise((resolve) => {
          setTimeout(resolve, 1000 * error.retry);
          signal.addEventListener("abort", resolve, { once: true });
        });
        signal.throwIfAborted();
      }
    }
  }

  async function save() {
    const page = await (await fetch("standalone.html")).text();
    const data = JSON.stringify(shown)
      .replace(/[<>&]/g, (character) => "\\u00" + character.charCodeAt(0).toString(16));
    const file = new Blob([page.replace('{"repairs":null}', () => data)], { type: "text/html" });
    const link = make("a", { href: URL.createObjectURL(file), download: `${kind.kind}-repair.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  async function ask(path, body, signal) {
    if (Focus.ask) return Focus.ask(path, body, signal); // a page without a server, see engine.js
    const options = body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer. Is focus serve still running?");
    }
    const value = await answer.json().catch(() => ({ error: answer.statusText }));
    if (answer.ok) return value;
    const failure = new Error(value.error);
    failure.status = answer.status;
    failure.retry = Number(answer.headers.get("Retry-After")) || 2;
    throw failure;
  }

  async function attempt(work) {
    complain(null);
    try {
      await work();
    } catch (error) {
      complain(error.name === "AbortError" ? new Error("Stopped waiting.") : error);
    }
  }

  function complain(error) {
    at("message").textContent = error ? error.message : "";
    if (error) at("status").textContent = "";
  }
})();
