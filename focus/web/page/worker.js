// Runs the graphs of a solver off the page's thread, one step after another.
import * as ort from "./ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1; // more need headers that static hosts do not send

const loaded = new Map();

function load(solver) {
  if (!loaded.has(solver)) loaded.set(solver, (async () => {
    const graphs = {};
    for (const part of ["start", "step", "decode"]) {
      const answer = await fetch(new URL(`${encodeURIComponent(solver)}/${part}.onnx`, import.meta.url));
      if (!answer.ok) throw new Error(`${solver}/${part}.onnx did not load (${answer.status})`);
      graphs[part] = await ort.InferenceSession.create(new Uint8Array(await answer.arrayBuffer()));
    }
    return graphs;
  })());
  return loaded.get(solver);
}

const asked = (graph, held) => Object.fromEntries(graph.inputNames.map((name) => [name, held[name]]));

async function solve({ solver, question, steps }) {
  const { start, step, decode } = await load(solver);
  const codes = new ort.Tensor("int64", BigInt64Array.from(question, BigInt), [1, question.length]);
  const held = await start.run({ question: codes });
  for (let number = 0; ; number++) {
    const { answer, confidence, valid } = await decode.run(asked(decode, held));
    postMessage({ step: number, answer: Array.from(answer.data, Number),
      confidence: Array.from(confidence.data), valid: Boolean(valid.data[0]) });
    if (number === steps) return;
    for (const [name, value] of Object.entries(await step.run(asked(step, held))))
      held[name.replace("next.", "")] = value;
  }
}

addEventListener("message", async ({ data }) => {
  try {
    if (data.question) await solve(data);
    else await load(data.solver);
  } catch (error) {
    loaded.delete(data.solver); // what failed to load is asked for again
    postMessage({ error: String((error && error.message) || error) });
  }
});
