// The rules of puzzles without a server: what text is one, and its true answer by search.
"use strict";

Focus.rules = (function () {
  const SYMBOLS = { maze: "# SGo", sudoku: ".123456789" };
  const PATIENCE = 500_000; // guesses before a search is given up

  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const refuse = (message) => { throw new Error(message); };
  const codes = (kind, text) => Array.from(text, (symbol) => SYMBOLS[kind.task].indexOf(symbol));
  const text = (kind, numbers) => Array.from(numbers, (code) => SYMBOLS[kind.task][code]).join("");

  // A puzzle as people type it, as the page keeps it; the words of a refusal are the command line's.
  function parse(kind, typed) {
    return kind.task === "maze" ? parseMaze(kind, typed) : parseSudoku(kind, typed);
  }

  function parseSudoku(kind, typed) {
    const lines = typed.split(/\r\n|\r|\n/).filter((line) => /[^ \t|+-]/.test(line));
    const signs = Array.from(lines.join("").replace(/[|+\s]/g, ""));
    checkSigns(signs, kind, "the sudoku", `.0${SYMBOLS.sudoku.slice(1, kind.side + 1)}`);
    const puzzle = signs.map((sign) => (sign === "0" ? "." : sign)).join("");
    for (const [name, groups] of Object.entries(groupsOf(kind)))
      groups.forEach((group, number) => {
        const given = group.map((cell) => puzzle[cell]).filter((sign) => sign !== ".").sort();
        const twice = given.find((sign, at) => sign === given[at + 1]);
        if (twice) refuse(`the givens contradict each other: ${twice} stands twice in ${name} ${number + 1}`);
      });
    return puzzle;
  }

  function parseMaze(kind, typed) {
    const { side } = kind;
    let lines = typed.replace(/^[\r\n]+|[\r\n]+$/g, "").split(/\r\n|\r|\n/);
    if (!typed.trim()) refuse(`the maze is empty; give ${side} lines of #, space, S and G`);
    if (lines.length > 1) {
      if (lines.length !== side) refuse(`the maze has ${lines.length} lines, ${side} are needed`);
      lines.forEach((line, number) => {
        const length = Array.from(line).length;
        if (length > side || (typed.includes(".") && length < side))
          refuse(`line ${number + 1} of the maze has ${counted(length, "character")}, ` +
            `${side} are needed: a maze is a square`);
      });
      lines = lines.map((line) => line.padEnd(side));
    }
    const signs = Array.from(lines.join(""));
    checkSigns(signs, kind, "the maze", "# .SG");
    const puzzle = signs.map((sign) => (sign === "." ? " " : sign)).join("");
    for (const end of "SG") {
      const count = puzzle.split(end).length - 1;
      if (count !== 1) refuse(`the maze has ${count} cells ${end}, exactly one is needed`);
    }
    return puzzle;
  }

  function checkSigns(signs, { side }, what, allowed) {
    if (signs.length !== side ** 2)
      refuse(`${what} has ${counted(signs.length, "character")}, ${side ** 2} are needed`);
    const odd = signs.findIndex((sign) => !allowed.includes(sign));
    if (odd >= 0)
      refuse(`${what} has '${signs[odd]}' at position ${odd + 1}; ` +
        `only the characters '${allowed}' may stand there`);
  }

  // The rows, columns and boxes of a Sudoku, as lists of cells.
  function groupsOf({ side, box }) {
    const groups = { row: [], column: [], box: [] };
    for (let cell = 0; cell < side ** 2; cell++) {
      const row = Math.floor(cell / side), column = cell % side;
      const places = { row, column, box: Math.floor(row / box) * box + Math.floor(column / box) };
      for (const [name, at] of Object.entries(places)) (groups[name][at] ||= []).push(cell);
    }
    return groups;
  }

  // The one true answer as text, or null where the search was given up.
  function solve(kind, puzzle) {
    return kind.task === "maze" ? solveMaze(kind, puzzle) : solveSudoku(kind, puzzle);
  }

  function solveSudoku(kind, puzzle) {
    const { side } = kind, all = (1 << side) - 1, groups = Object.values(groupsOf(kind)).flat();
    const of = Array.from(puzzle, (_, cell) =>
      groups.flatMap((group, number) => (group.includes(cell) ? [number] : [])));
    const used = groups.map(() => 0), answer = codes(kind, puzzle);
    let found = null, guesses = 0;
    const flip = (cell, digit) => {
      for (const group of of[cell]) used[group] ^= 1 << (digit - 1);
    };
    answer.forEach((digit, cell) => { if (digit) flip(cell, digit); });

    // Keeps the one answer as `found`; a second one refuses the puzzle.
    function search() {
      let best = -1, open = 0, fewest = 99;
      for (let cell = 0; cell < answer.length && fewest > 1; cell++) {
        if (answer[cell]) continue;
        let left = all;
        for (const group of of[cell]) left &= ~used[group];
        let count = 0;
        for (let bits = left; bits; bits &= bits - 1) count++;
        if (count < fewest) [best, open, fewest] = [cell, left, count];
      }
      if (best < 0) {
        if (found) refuse("this Sudoku has several solutions; it needs more givens");
        found = text(kind, answer);
        return;
      }
      for (let digit = 1; digit <= side; digit++) {
        if (!(open & (1 << (digit - 1)))) continue;
        if (fewest > 1 && ++guesses > PATIENCE) throw RangeError("given up");
        answer[best] = digit;
        flip(best, digit);
        search();
        flip(best, digit);
        answer[best] = 0;
      }
    }
    try {
      search();
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
    return found || refuse("this Sudoku has no solution; check the givens");
  }

  // Breadth first, neighbours in the order down, left, right, up: the canonical shortest path.
  function solveMaze({ side }, puzzle) {
    const start = puzzle.indexOf("S"), goal = puzzle.indexOf("G");
    const parent = new Map([[start, null]]), queue = [start];
    for (const cell of queue) {
      const row = Math.floor(cell / side), column = cell % side;
      const around = [row + 1 < side && cell + side, column > 0 && cell - 1,
        column + 1 < side && cell + 1, row > 0 && cell - side];
      for (const next of around)
        if (next !== false && puzzle[next] !== "#" && !parent.has(next)) {
          parent.set(next, cell);
          queue.push(next);
        }
    }
    if (!parent.has(goal)) refuse("the goal G cannot be reached from the start S");
    const answer = Array.from(puzzle);
    for (let cell = parent.get(goal); cell !== start && cell !== null; cell = parent.get(cell)) answer[cell] = "o";
    return answer.join("");
  }

  return { parse, solve, codes, text };
})();
