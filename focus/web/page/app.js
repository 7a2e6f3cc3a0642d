// The page with a server: choose, enter, solve, save.
"use strict";

(async function () {
  const at = (id) => document.getElementById(id);
  const { make } = Focus;
  let editor = null, kind = null, shown = null, asking = null, player = null;
  let isFirst = true; // nothing was asked for yet: the page begins with a repair of its own

  let about;
  try {
    about = await ask("api/checkpoints");
  } catch (error) {
    return complain(error);
  }
  const title = ({ task, side, rows }) => `${Focus.capital(task)} ${rows > 1 ? `${rows}×` : ""}${side}`;
  for (const [name, address] of Object.entries(about.links || {}))
    at("links").append(" · ", make("a", { href: address, rel: "noopener" }, name));
  at("kind").append(...about.kinds.map((one) => make("option", { value: one.kind }, title(one))));
  at("level").append(...about.levels.map((level) => make("option", { value: level }, level)));
  at("level").value = about.levels.at(-1); // the hardest shows most of a repair

  at("kind").addEventListener("change", choose);
  at("first").addEventListener("change", setSteps);
  at("second").addEventListener("change", limitSteps);
  at("generate").addEventListener("click", generate);
  at("clear").addEventListener("click", () => {
    complain(null);
    editor.write(kind.blank.repeat(kind.side * kind.rows));
  });
  at("undo").addEventListener("click", () => editor.undo());
  at("use-text").addEventListener("click", () => use(at("text").value));
  at("text").closest("details").addEventListener("toggle", () => { at("text").value = editor.text(); });
  at("solve").addEventListener("click", () => solve());
  at("cancel").addEventListener("click", () => asking && asking.abort());
  at("save").addEventListener("click", save);
  const wanted = about.kinds.find((one) => one.checkpoints.some(({ name }) => name === about.against));
  if (wanted) at("kind").value = wanted.kind;
  choose();

  function choose() {
    kind = about.kinds.find((one) => one.kind === at("kind").value);
    const maze = kind.view === "maze", { symbols } = kind;
    at("brushes").hidden = !maze;
    at("hint").textContent = maze
      ? "Click or drag to draw, tap on a touch screen. Keys: arrows move, space draws, # wall, S start, G goal, Backspace opens."
      : `Type ${symbols[0]}–${symbols.at(-1)}, arrows move, Backspace clears. Or paste all ${kind.side * kind.rows} characters.`;
    forget();
    editor = Focus.editor(kind, {
      brush: () => document.querySelector("input[name=brush]:checked").value,
      onPaste: use,
      onChange: forget,
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

  // A first puzzle, unless the visitor was faster; the very first one is repaired at once.
  async function welcome(empty) {
    let isUntouched = false;
    await attempt(async () => {
      const puzzle = await drawn(), { blank } = kind;
      isUntouched = empty === editor && [...empty.read()].every((symbol) => symbol === blank);
      if (isUntouched) empty.write(puzzle);
    });
    if (isUntouched && isFirst) await solve({ unasked: true });
  }

  function changed() {
    return new DOMException("Another repair is wanted.", "ChangeError");
  }

  // A repair belongs to its puzzle: when the puzzle changes it goes.
  function forget() {
    if (asking) asking.abort(changed());
    if (player) player.stop();
    shown = player = null;
    at("player").replaceChildren(make("p", { class: "hint" }, "Press Solve to watch the repair of this puzzle."));
    at("save").hidden = true;
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

  async function solve({ unasked = false } = {}) {
    const checkpoints = [at("first").value, at("second").value].filter(Boolean);
    const steps = Number(at("steps").value);
    if (asking && !asking.unasked && !asking.signal.aborted) return;
    if (asking) asking.abort(changed());
    const own = asking = new AbortController();
    own.unasked = unasked;
    isFirst = false;
    at("solve").setAttribute("aria-disabled", "true"); // a disabled button would lose the focus
    at("cancel").hidden = false;
    await attempt(async () => {
      at("status").textContent = "Solving…";
      shown = await patiently("api/solve", { checkpoints, puzzle: editor.read(), steps }, own.signal);
      player = Focus.player(at("player"), shown);
      at("save").hidden = false;
      at("status").textContent = "";
      playInSight(player);
      if (unasked) return; // neither moves the page nor takes the focus
      at("result").scrollIntoView({ block: "nearest" });
      player.focus();
    });
    if (asking !== own) return; // another solve has begun
    at("solve").removeAttribute("aria-disabled");
    if (document.activeElement === at("cancel")) at("solve").focus();
    at("cancel").hidden = true;
    asking = null;
  }

  // On a small screen the player may be below; who prefers less motion presses Play.
  function playInSight(target) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const sight = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      sight.disconnect();
      if (target === player && target.isAtStart()) target.play();
    });
    sight.observe(target.element);
  }

  // A full queue says when to come back; come back then, until told to stop.
  async function patiently(path, body, signal) {
    for (let attempts = 1; ; attempts++) {
      try {
        return await ask(path, body, signal);
      } catch (error) {
        if (error.status !== 503) throw error;
        at("status").textContent = `Busy, waiting (${attempts})…`;
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
      if (signal && signal.aborted) throw error;
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
      if (error.name === "ChangeError") at("status").textContent = "";
      else complain(error.name === "AbortError" ? new Error("Stopped waiting.") : error);
    }
  }

  function complain(error) {
    at("message").textContent = error ? error.message : "";
    if (error) at("status").textContent = "";
  }
})();
