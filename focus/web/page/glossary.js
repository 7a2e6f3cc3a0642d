// What the words beside a repair mean.
"use strict";

Focus.terms = {
  step: ["Step, K", "One revision of the whole answer. K is how many are made; more steps repair more."],
  confidence: ["Confidence", "How likely the solver holds what it shows in a cell: the deeper the blue, the surer."],
  energy: ["Energy", "How far the answer is from the true one; 0 is right and certain. It needs the true answer: training sees it, the solver never does."],
  defect: ["Defect D", "Whether the next h steps repair enough. Below 0 the energy falls by at least 1.5 % a step, above 0 it falls less or grows."],
  gamma: ["γ", "The defect that training looks for, 0: a state that is neither repaired anyway nor out of reach."],
  frontier: ["t*", "The repair frontier: the step whose defect is nearest γ. FOCUS goes on training from such states."],
};

// The constants are those of the run that trained the solver, where it is known.
Focus.glossary = function ({ h, rho } = {}) {
  const { make } = Focus;
  const list = make("dl");
  for (const [name, [term, meaning]] of Object.entries(Focus.terms)) {
    let words = meaning;
    if (name === "defect" && h) words = words.replace("next h steps", `next ${h} steps`)
      .replace("1.5 %", `${Number(((1 - rho) * 100).toPrecision(2))} %`);
    list.append(make("dt", {}, term), make("dd", {}, words));
  }
  return make("details", { class: "glossary" },
    make("summary", {}, "What do energy, defect, γ and t* mean?"), list);
};
