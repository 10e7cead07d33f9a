/* Client side of the explorer: fields in step, the state in the URL, and no plot but that of the current state. */
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
  const triggered = () => window.dash_clientside.callback_context.triggered_id;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const DEBOUNCE = 80;
  let current = null; // key of the state that the fields show
  let drawn = null; // key of the state that the plot shows
  let pending = false; // a field has been touched and its state is not known yet
  let turn = 0;
  let timer = null;

  function digits(value, count) {
    return Number(Number(value).toPrecision(count));
  }

  /* A slider and its number field: whichever moved sets the other. */
  function sync(fromSlider, toSlider) {
    return function (slide, number) {
      const id = String(triggered() || "");
      if (id.startsWith("slide-")) {
        return [skip(), fromSlider(Number(slide))];
      }
      if (number === null || number === undefined || !Number.isFinite(Number(number))) {
        return [skip(), skip()];
      }
      const place = toSlider(Number(number));
      return [Number.isFinite(place) ? place : skip(), skip()];
    };
  }

  const log10 = (x) => (x > 0 ? Math.round(Math.log10(x) * 1e4) / 1e4 : NaN);

  /* All fields as one state: marked as current at once, sent on when the fields have been still for a moment. */
  async function collect() {
    const values = {};
    for (const input of window.dash_clientside.callback_context.inputs_list) {
      const name = input.id.slice(3);
      values[name] = input.value === undefined || input.value === "" ? null : input.value;
    }
    const key = JSON.stringify(values);
    const mine = ++turn;
    current = key;
    pending = false;
    stale(drawn !== current);
    const explorer = document.getElementById("explorer");
    if (explorer) Object.assign(explorer.dataset, { view: values.view, model: values.model });
    await pause(DEBOUNCE);
    if (mine !== turn) return skip();
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) {
      if (value !== null) query.set(name, value);
    }
    window.history.replaceState(window.history.state, "", "?" + query.toString());
    return { key: key, values: values };
  }

  /* The plot is hidden from the very event that touches a field; a touch that changes nothing brings it back. */
  document.addEventListener("input", function (event) {
    const id = String(event.target.id || "");
    if (!id.startsWith("in-") && !id.startsWith("slide-")) return;
    pending = true;
    stale(true);
    clearTimeout(timer);
    timer = setTimeout(function () {
      pending = false;
      stale(drawn !== current);
    }, 500);
  }, true);

  function stale(yes) {
    const area = document.getElementById("plot-area");
    if (area) area.dataset.stale = yes ? "yes" : "no";
  }

  function element(type, props) {
    return { type: type, namespace: "dash_html_components", props: props };
  }

  const STATUS = {
    curves: "theory exact in the limit, computed to 0.001; bars are standard errors",
    alignment: "closed form",
    capacity: "computed to 0.5 %; bars are standard errors",
    phase: "test errors computed to 0.001",
    bag: "one draw; another seed draws another",
    training: "all α₀ + α₁ samples in every step, in the limit of many dimensions; bands are two standard errors",
    lengths: "trained at L, tested at longer bags; theory computed to 0.005",
  };
  const BLACK = "#000000"; // the palette's black stands for ink: light on a dark page

  /* Simulated points in the colours of the curves they belong to. */
  function overlay(simulated, curves) {
    return curves.map(function (curve) {
      const model = curve.meta;
      const rows = simulated.rows.filter((row) => row.model === model);
      return {
        type: "scatter",
        mode: "markers",
        name: model + " simulated",
        x: rows.map((row) => row.x),
        y: rows.map((row) => row.y),
        error_y: { type: "data", array: rows.map((row) => row.error), visible: true },
        marker: { color: curve.line.color, size: 9, symbol: "circle-open", line: { width: 2 } },
        meta: "simulated-" + model,
      };
    });
  }

  function table(rows) {
    const line = function (row) {
      const value = row.test_error === null ? "–" : row.test_error.toFixed(5);
      const spread = row.standard_error > 0 ? "± " + row.standard_error.toExponential(1) : "exact";
      const error = row.test_error === null ? row.failure : spread;
      const cells = [row.label || (row.model === "bayes" ? "Bayes limit" : row.model), value, error];
      return element("Tr", { children: cells.map((cell) => element("Td", { children: cell })), id: "row-" + row.model });
    };
    const head = ["model", "test error", "standard error"].map((text) => element("Th", { children: text, scope: "col" }));
    return element("Table", {
      children: [
        element("Thead", { children: element("Tr", { children: head }) }),
        element("Tbody", { children: rows.map(line) }),
      ],
    });
  }

  /* The answer to the current state, or nothing: an answer to another state is never drawn. */
  function show(changed, answer, refined, completed, simulated) {
    const found = [completed, refined, answer].find((one) => one && one.key === current);
    if (!found) return [skip(), "computing …", skip(), skip()];
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim() || "#222";
    drawn = found.key;
    stale(pending);
    if (found.stage === "invalid" || found.stage === "failed") {
      const words = found.message || "Correct the marked fields to see the figure.";
      const note = { text: words, showarrow: false, font: { size: 16 } };
      const layout = {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", xaxis: { visible: false }, yaxis: { visible: false },
        annotations: [note], font: { color: ink }, meta: { key: found.key, stage: found.stage },
      };
      return [{ data: [], layout: layout }, words, "", ""];
    }
    const figure = JSON.parse(JSON.stringify(found.figure));
    for (const trace of figure.data) {
      for (const part of [trace.line, trace.marker]) {
        if (part && part.color === BLACK) part.color = ink;
      }
    }
    if (simulated && simulated.key === current && found.view === "curves") {
      figure.data = figure.data.concat(overlay(simulated, figure.data).filter((trace) => trace.x.length));
    }
    figure.layout.font = { color: ink };
    figure.layout.meta = { key: found.key, stage: found.stage };
    figure.layout.uirevision = found.view;
    let words = STATUS[found.view];
    if (found.stage === "quick") words = "quick answer, refining …";
    if (found.stage === "models") words = words + "; the Bayes limit follows …";
    if (found.remark) words = words + "; " + found.remark;
    if (found.failures.length) words = "some points have no answer: " + found.failures[0];
    return [figure, words, table(found.rows), found.code];
  }

  function simulation(found) {
    if (!found) return [skip(), skip(), skip(), skip(), skip()];
    const notes = found.notes.length ? " — " + found.notes.join("; ") : "";
    let words = found.done + " of " + found.total + " trials";
    if (found.cancelled) words = "cancelled after " + words;
    else if (found.finished) words = words + ", done";
    if (found.key !== current) words = words + " (for other parameters)";
    const over = found.finished || found.cancelled;
    return [words + notes, String(found.done), String(Math.max(found.total, 1)), !over, over];
  }

  function theme(choice) {
    document.documentElement.dataset.theme = choice || "auto";
    return (choice || "auto") + Date.now();
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    const graph = document.querySelector("#graph .js-plotly-plot");
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    if (graph && window.Plotly) window.Plotly.relayout(graph, { "font.color": ink });
  });

  function save() {
    const graph = document.querySelector("#graph .js-plotly-plot");
    const format = triggered() === "save-svg" ? "svg" : "png";
    if (graph && window.Plotly) {
      window.Plotly.downloadImage(graph, { format: format, filename: "sparsetoken", width: 900, height: 600 });
    }
    return format;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explorer: {
      syncLog: sync((x) => digits(10 ** x, 3), log10),
      syncLogWhole: sync((x) => Math.round(10 ** x), log10),
      syncLinear: sync((x) => digits(x, 6), (x) => x),
      syncLinearWhole: sync((x) => Math.round(x), (x) => x),
      collect: collect,
      show: show,
      simulation: simulation,
      theme: theme,
      save: save,
    },
  });
})();
