// Enter a puzzle: a maze by drawing, any other by keyboard or paste.
"use strict";

// The result has an element, read() -> text, write(text) and undo(); `onPaste` gets pasted text,
// `onChange` is called when the puzzle has become another.
Focus.editor = function ({ task, view, side, rows, box, blank, symbols: allowed }, { brush, onPaste, onChange }) {
  const { make } = Focus;
  const isMaze = view === "maze";
  const grid = make("div", { class: `grid ${isMaze ? "maze" : "cells"}`, role: "grid",
    "aria-label": `${Focus.capital(task)} of ${rows} by ${side} cells` });
  grid.style.setProperty("--side", side);
  const cells = [];
  let active = 0;
  for (let row = 0; row < rows; row++) {
    const line = grid.appendChild(make("div", { role: "row" }));
    for (let column = 0; column < side; column++) {
      const holder = make("div", { role: "gridcell" });
      const cell = isMaze ? holder : make("input", {
        inputmode: /^[0-9]*$/.test(allowed) ? "numeric" : "text", maxlength: 1, autocomplete: "off", autocorrect: "off" });
      if (cell !== holder) holder.append(cell);
      holder.classList.toggle("box-top", box && row > 0 && row % box === 0);
      holder.classList.toggle("box-left", box && column > 0 && column % box === 0);
      cell.tabIndex = -1;
      line.append(holder);
      cells.push(cell);
    }
  }
  const symbols = Array(cells.length).fill(blank);
  const number = (target) => cells.indexOf(target);

  // What the grid held before each change; a stroke is one change.
  const past = [];
  function remember() {
    onChange();
    past.push(symbols.join(""));
    if (past.length > 200) past.shift();
  }

  function set(cell, symbol) {
    remember();
    if (isMaze && (symbol === "S" || symbol === "G"))
      symbols.forEach((other, at) => { if (other === symbol && at !== cell) put(at, " "); });
    put(cell, symbol);
  }

  function put(cell, symbol) {
    symbols[cell] = symbol;
    const element = cells[cell], place = Focus.place(cell, side);
    if (isMaze) {
      element.className = Focus.mazeClass(symbol);
      element.textContent = symbol === "S" || symbol === "G" ? symbol : "";
      const name = { "#": "wall", " ": "open", S: "start", G: "goal" }[symbol];
      element.setAttribute("aria-label", `${place}, ${name}`);
    } else {
      element.value = symbol === blank ? "" : symbol;
      element.classList.toggle("given", symbol !== blank);
      element.setAttribute("aria-label", symbol === blank ? `${place}, blank` : `${place}, given ${symbol}`);
    }
  }

  // Roving focus: one cell of the grid is in the tab order.
  function move(to) {
    cells[active].tabIndex = -1;
    active = to;
    cells[active].tabIndex = 0;
    cells[active].focus();
    if (cells[active].select) cells[active].select();
  }

  // The symbol that a key means, in either case; undefined where it means none.
  function symbolOf(key) {
    return isMaze || key.length !== 1 ? undefined
      : [key, key.toUpperCase(), key.toLowerCase()].find((one) => allowed.includes(one));
  }

  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = number(event.target);
    if (at < 0) return;
    const row = Math.floor(at / side), column = at % side;
    const go = {
      ArrowUp: row > 0 ? at - side : at, ArrowDown: row < rows - 1 ? at + side : at,
      ArrowLeft: column > 0 ? at - 1 : at, ArrowRight: column < side - 1 ? at + 1 : at,
      Home: row * side, End: row * side + side - 1,
    };
    if (event.key in go) move(go[event.key]);
    else if (symbolOf(event.key)) {
      set(at, symbolOf(event.key));
      cells[at].select();
    } else if (["Backspace", "Delete", ".", "0"].includes(event.key)) set(at, blank);
    else if (isMaze && (event.key === " " || event.key === "Enter")) paint(at);
    else if (isMaze && ["s", "g", "S", "G"].includes(event.key)) set(at, event.key.toUpperCase());
    else if (isMaze && event.key === "#") set(at, "#");
    else if (!isMaze && event.key.length === 1) { /* no other character may stand there */ }
    else return;
    event.preventDefault();
  });

  // Keyboards of phones send no useful keydown; what arrives in the field counts.
  grid.addEventListener("input", (event) => {
    const at = number(event.target);
    if (at >= 0) set(at, symbolOf(event.target.value) || blank);
  });

  grid.addEventListener("focusin", (event) => {
    const at = number(event.target);
    if (at >= 0 && at !== active) {
      cells[active].tabIndex = -1;
      active = at;
      cells[at].tabIndex = 0;
    }
  });

  grid.addEventListener("paste", (event) => {
    event.preventDefault();
    onPaste(event.clipboardData.getData("text"));
  });

  // The first cell of a stroke decides whether it builds or takes away.
  let stroke = null;
  function paint(at) {
    const chosen = brush();
    set(at, chosen === "#" && symbols[at] === "#" ? " " : chosen);
    return symbols[at];
  }
  if (isMaze) {
    // A finger scrolls; only its tap draws, which ends where it began.
    let tapped = -1;
    grid.addEventListener("pointerup", (event) => {
      const at = number(document.elementFromPoint(event.clientX, event.clientY));
      if (event.pointerType !== "touch" || at < 0 || at !== tapped) return;
      move(at);
      paint(at);
    });
    grid.addEventListener("pointerdown", (event) => {
      const at = number(event.target);
      tapped = event.pointerType === "touch" ? at : -1;
      if (at < 0 || tapped >= 0) return;
      event.preventDefault();
      move(at);
      stroke = paint(at);
    });
    grid.addEventListener("pointermove", (event) => {
      if (stroke !== "#" && stroke !== " ") return;
      const at = number(document.elementFromPoint(event.clientX, event.clientY));
      if (at >= 0 && symbols[at] !== "S" && symbols[at] !== "G") put(at, stroke);
    });
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => { stroke = null; });
  }

  function fill(text) {
    Array.from(text).forEach((symbol, at) => put(at, symbol));
  }
  function write(text) {
    remember();
    fill(text);
  }
  function undo() {
    if (!past.length) return;
    onChange();
    fill(past.pop());
  }
  fill(symbols.join(""));
  cells[0].tabIndex = 0;
  const lines = () => symbols.join("").match(new RegExp(`.{${side}}`, "g")).join("\n");
  return { element: grid, read: () => symbols.join(""), text: lines, write, undo };
};
