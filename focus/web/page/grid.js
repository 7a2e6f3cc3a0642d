// Draws one answer: cells as a table, a maze as a picture with a description, other tasks as their text.
"use strict";
const Focus = {};

Focus.make = function (name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

Focus.capital = (word) => word[0].toUpperCase() + word.slice(1);

Focus.place = (cell, side) => `row ${Math.floor(cell / side) + 1} column ${(cell % side) + 1}`;

// `shown` is what the server says of a puzzle. The result has an element and draw(frame, reveal):
// `reveal` shows the true answer as well.
Focus.gridView = function (shown) {
  return { maze: mazeView, text: textView, cells: cellsView }[shown.view](shown);

  function cellsView({ side, rows, box, blank, puzzle, solution }) {
    const table = Focus.make("table", { class: "grid cells", role: "table" });
    table.style.setProperty("--side", side);
    table.append(Focus.make("caption", { class: "unseen" }, "The answer at this step"));
    const body = table.appendChild(Focus.make("tbody", { role: "rowgroup" }));
    const cells = [];
    for (let row = 0; row < rows; row++) {
      const line = body.appendChild(Focus.make("tr", { role: "row" }));
      for (let column = 0; column < side; column++) {
        const cell = line.appendChild(Focus.make("td", { role: "cell" }));
        cell.classList.toggle("box-top", box && row > 0 && row % box === 0);
        cell.classList.toggle("box-left", box && column > 0 && column % box === 0);
        cells.push(cell);
      }
    }
    const isGiven = (cell) => puzzle[cell] !== blank;
    function draw(frame, reveal) {
      const changed = new Set(frame.changed);
      cells.forEach((cell, number) => {
        const digit = frame.answer[number];
        const isBlank = digit === blank;
        const wrong = !isBlank && solution !== null && digit !== solution[number];
        const sure = Number(frame.confidence[number]);
        cell.textContent = isBlank ? "" : digit;
        if (reveal && (isBlank || wrong)) cell.dataset.true = solution[number];
        else delete cell.dataset.true;
        cell.classList.toggle("given", isGiven(number));
        cell.classList.toggle("changed", changed.has(number));
        cell.classList.toggle("wrong", wrong);
        cell.style.setProperty("--sure", isGiven(number) || isBlank ? 0 : sure / 9);
        const words = [Focus.place(number, side)];
        if (isGiven(number)) words.push(`given ${digit}`);
        else if (isBlank) words.push("blank");
        else words.push(digit, `${sure * 10} % sure`);
        if (wrong) words.push("wrong");
        if (cell.dataset.true) words.push(`the answer is ${cell.dataset.true}`);
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
    function draw(frame, reveal) {
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
        cell.classList.toggle("missed", isMissed && reveal);
        cell.classList.toggle("changed", changed.has(number));
        // The shade is how likely the cell is on the path, whatever the decoder made of it.
        cell.style.setProperty("--sure", frame.step ? (on ? sure : 9 - sure) / 9 : 0);
      });
      const judged = solution === null || !frame.step ? "" : `, ${astray} off the true path, ${missed} of it missed`;
      picture.setAttribute("aria-label", `Maze at step ${frame.step}: ${path} cells marked${judged}`);
    }
    return { element: picture, draw };
  }

  // As the task prints itself, in pieces; a piece that shows a cell is marked as the cell is.
  function textView({ blank, puzzle, solution }) {
    const board = Focus.make("pre", { class: "grid text", role: "img" });
    function draw(frame) {
      const changed = new Set(frame.changed);
      board.replaceChildren(...frame.pieces.map(([text, cell]) => {
        if (cell === null) return text;
        const isGiven = puzzle[cell] !== blank, symbol = frame.answer[cell];
        const piece = Focus.make("span", {}, text);
        piece.classList.toggle("given", isGiven);
        piece.classList.toggle("changed", changed.has(cell));
        piece.classList.toggle("wrong", symbol !== blank && solution !== null && symbol !== solution[cell]);
        piece.style.setProperty("--sure", isGiven || !frame.step ? 0 : Number(frame.confidence[cell]) / 9);
        return piece;
      }));
      board.setAttribute("aria-label", `The answer at step ${frame.step}: ${frame.answer}`);
    }
    return { element: board, draw };
  }
};

Focus.mazeClass = (symbol) =>
  ({ "#": "wall", S: "end start", G: "end goal" })[symbol] || "open";
