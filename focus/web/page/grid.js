// Draws one answer: a Sudoku as a table, a maze as a picture with a description.
"use strict";
const Focus = {};

Focus.make = function (name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

Focus.place = (cell, side) => `row ${Math.floor(cell / side) + 1} column ${(cell % side) + 1}`;

// `shown` is what the server says of a puzzle; the result has an element and draw(frame).
Focus.gridView = function (shown) {
  return shown.task === "maze" ? mazeView(shown) : sudokuView(shown);

  function sudokuView({ side, box, puzzle, solution }) {
    const table = Focus.make("table", { class: "grid sudoku", role: "table" });
    table.style.setProperty("--side", side);
    table.append(Focus.make("caption", { class: "unseen" }, "The answer at this step"));
    const body = table.appendChild(Focus.make("tbody", { role: "rowgroup" }));
    const cells = [];
    for (let row = 0; row < side; row++) {
      const line = body.appendChild(Focus.make("tr", { role: "row" }));
      for (let column = 0; column < side; column++) {
        const cell = line.appendChild(Focus.make("td", { role: "cell" }));
        cell.classList.toggle("box-top", row > 0 && row % box === 0);
        cell.classList.toggle("box-left", column > 0 && column % box === 0);
        cells.push(cell);
      }
    }
    const isGiven = (cell) => puzzle[cell] !== ".";
    function draw(frame) {
      const changed = new Set(frame.changed);
      cells.forEach((cell, number) => {
        const digit = frame.answer[number];
        const blank = digit === ".";
        const wrong = !blank && solution !== null && digit !== solution[number];
        const sure = Number(frame.confidence[number]);
        cell.textContent = blank ? "" : digit;
        cell.classList.toggle("given", isGiven(number));
        cell.classList.toggle("changed", changed.has(number));
        cell.classList.toggle("wrong", wrong);
        cell.style.setProperty("--sure", isGiven(number) || blank ? 0 : sure / 9);
        const words = [Focus.place(number, side)];
        if (isGiven(number)) words.push(`given ${digit}`);
        else if (blank) words.push("blank");
        else words.push(digit, `${sure * 10} % sure`);
        if (wrong) words.push("wrong");
        if (changed.has(number)) words.push("changed");
        cell.setAttribute("aria-label", words.join(", "));
      });
    }
    return { element: table, draw };
  }

  function mazeView({ side, puzzle, solution }) {
    const picture = Focus.make("div", { class: "grid maze", role: "img" });
    picture.style.setProperty("--side", side);
    const cells = Array.from(puzzle, (symbol) => {
      const cell = picture.appendChild(Focus.make("div", { "aria-hidden": "true" }));
      cell.className = Focus.mazeClass(symbol);
      if (symbol === "S" || symbol === "G") cell.textContent = symbol;
      return cell;
    });
    function draw(frame) {
      const changed = new Set(frame.changed);
      let path = 0, astray = 0, missed = 0;
      cells.forEach((cell, number) => {
        if (puzzle[number] !== " ") return;
        const on = frame.answer[number] === "o";
        const wanted = solution !== null && solution[number] === "o";
        const sure = Number(frame.confidence[number]);
        path += on;
        const isAstray = on && solution !== null && !wanted, isMissed = !on && wanted;
        astray += isAstray;
        missed += isMissed;
        cell.classList.toggle("path", on);
        cell.classList.toggle("wrong", isAstray);
        cell.classList.toggle("missed", isMissed);
        cell.classList.toggle("changed", changed.has(number));
        // The shade is how likely the cell is on the path, whatever the decoder made of it.
        cell.style.setProperty("--sure", frame.step ? (on ? sure : 9 - sure) / 9 : 0);
      });
      const judged = solution === null ? "" : `, ${astray} off the true path, ${missed} of it missed`;
      picture.setAttribute("aria-label", `Maze at step ${frame.step}: ${path} cells marked${judged}`);
    }
    return { element: picture, draw };
  }
};

Focus.mazeClass = (symbol) =>
  ({ "#": "wall", S: "end start", G: "end goal" })[symbol] || "open";
