/* Client side of the explorer: fields in step, the state in the URL, and no undimmed plot but that of the current state. */
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
  const context = () => window.dash_clientside.callback_context;
  const triggered = () => String(context().triggered_id || "");
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const DEBOUNCE = 40;
  const MAPS = ["phase", "bag"]; // views whose two settings stand below each other; lines are laid over each other
  const NARROW = 600; // px: names in two columns of small letters, so that they leave room for the plot
  const TWO_COLUMNS = { font: { size: 10 }, entrywidthmode: "fraction", entrywidth: 0.5 };
  const DARK_INK = "#1f2937";
  const BLACK = "#000000"; // the palette's black stands for ink: light on a dark page
  let current = null; // key of the state that the fields show
  let drawn = null; // key of the state whose answer is on the screen
  let looks = "no"; // how that answer leaves the plot, see stale()
  let clicked = null; // id of the button that was clicked last
  let pending = false; // a field has been touched and its state is not known yet
  let turn = 0;
  let timer = null;
  let exported = null; // what is on the screen, for pictures and tables
  let note = null; // what the last action has to say above the page; null: nothing was done since

  function digits(value, count) {
    return Number(Number(value).toPrecision(count));
  }

  /* A slider and its number field: whichever moved sets the other. */
  function sync(fromSlider, toSlider) {
    return function (slide, number) {
      if (triggered().startsWith("slide-")) {
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

  /* The values of the fields among a callback's inputs or states. */
  function valuesOf(list) {
    const values = {};
    for (const input of list) {
      if (!input.id.startsWith("in-")) continue;
      values[input.id.slice(3)] = input.value === undefined || input.value === "" ? null : input.value;
    }
    if ("compare" in values) values.compare = values.compare || "";
    return values;
  }

  /* All fields as one state: marked as current at once, sent on when the fields have been still for a moment. */
  async function collect() {
    const values = valuesOf(context().inputs_list);
    const key = JSON.stringify(values);
    const mine = ++turn;
    current = key;
    pending = false;
    stale(drawn === current ? looks : "yes");
    const explorer = document.getElementById("explorer");
    if (explorer) Object.assign(explorer.dataset, { view: values.view, model: values.model });
    for (const [name, value] of Object.entries(values)) {
      const slider = document.getElementById("slide-" + name); // many move a logarithm: say the value itself
      if (slider) slider.setAttribute("aria-valuetext", String(value));
    }
    await pause(DEBOUNCE);
    if (mine !== turn) return skip();
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) {
      if (value !== null && !(name === "compare" && !value)) query.set(name, value);
    }
    window.history.replaceState(window.history.state, "", "?" + query.toString());
    return { key: key, values: values };
  }

  /* What belongs to the view, from the event that chose it on. */
  function touched() {
    const words = context().states_list[0].value;
    const values = valuesOf(context().inputs_list);
    const views = Object.keys(words.captions);
    const tabs = views.flatMap((name) => [String(name === values.view), name === values.view ? "0" : "-1"]);
    const tab = document.getElementById("tab-" + values.view);
    if (tab && tab.getAttribute("aria-selected") !== "true") tab.parentNode.scrollLeft = tab.offsetLeft - tab.parentNode.offsetLeft - 60;
    const same = drawn === JSON.stringify(values);
    const said = note === null ? skip() : note;
    note = null;
    return [
      same ? skip() : "updating …", same ? skip() : words.captions[values.view] || "", said,
      !values.compare, !values.compare, ...tabs, "tab-" + values.view,
    ];
  }

  /* Buttons, tabs and clicks into a phase diagram, as changes of the fields. */
  function act(...args) {
    const states = context().states_list;
    const names = states.filter((one) => one.id.startsWith("in-")).map((one) => one.id.slice(3));
    const words = states.find((one) => one.id === "words").value;
    const values = valuesOf(states);
    // Quick clicks reach this as one call: the last of them counts.
    const ids = context().triggered.map((one) => one.prop_id.split(".")[0]);
    const id = ids.includes(clicked) ? clicked : triggered();
    let changes = {};
    note = "";
    if (id.startsWith("tab-")) changes = { view: id.slice(4) };
    else if (id.startsWith("preset-")) {
      const { label, shows, values } = words.presets[id.slice(7)];
      changes = Object.assign({}, chosen(words.defaults, words), values);
      note = label + ". " + shows + (values.view ? " Shown in the view “" + words.choices.view[values.view] + "”." : "");
    }
    else if (id === "reset") changes = chosen(words.defaults, words);
    else if (id === "keep") changes = { compare: asText(values, words) };
    else if (id === "end") changes = { compare: "" };
    else if (id === "swap" && values.compare) {
      const other = new URLSearchParams(values.compare);
      changes = chosen(words.defaults, words);
      for (const [name, text] of other) {
        if (name in changes) changes[name] = typeof words.defaults[name] === "number" ? Number(text) : text;
      }
      changes.compare = asText(values, words);
    } else if (id === "graph" && values.view === "phase") {
      const click = args[context().inputs_list.findIndex((one) => one.id === "graph")];
      const point = click && click.points && click.points[0];
      if (point && point.z !== undefined) changes = { [values.x]: point.x, [values.y]: point.y };
    }
    const moved = names.map((name) => name in changes && changes[name] !== values[name]);
    if (!moved.includes(true)) note = null; // nothing follows that could show it
    return names.map((name, i) => (moved[i] ? changes[name] : skip()));
  }

  const chosen = (values, words) => Object.fromEntries(words.compared.map((name) => [name, values[name]]));

  /* A setting as a query: what differs from the defaults, and always one field, so that it is never empty. */
  function asText(values, words) {
    const query = new URLSearchParams();
    for (const name of words.compared) {
      if (values[name] !== null && (name === words.compared[0] || values[name] !== words.defaults[name])) query.set(name, values[name]);
    }
    return query.toString();
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest && event.target.closest("button[id]");
    if (button) clicked = button.id;
  }, true);

  /* The plot is dimmed from the very event that touches a field; a touch that changes nothing brings it back. */
  document.addEventListener("input", function (event) {
    const id = String(event.target.id || "");
    if (!id.startsWith("in-") && !id.startsWith("slide-")) return;
    pending = true;
    note = "";
    stale("yes");
    clearTimeout(timer);
    timer = setTimeout(function () {
      pending = false;
      if (drawn === current) stale(looks);
    }, 500);
  }, true);

  /* "no": the figure is that of the fields; "yes": its successor is on the way; "none": the fields have none. */
  function stale(how) {
    const area = document.getElementById("plot-area");
    if (area) area.dataset.stale = how;
  }

  /* Tabs as everywhere: arrows, Home and End move between them. */
  document.addEventListener("keydown", function (event) {
    const tab = event.target.closest && event.target.closest("[role=tab]");
    if (!tab) return;
    const all = Array.from(tab.parentNode.querySelectorAll("[role=tab]"));
    const at = all.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[(to + all.length) % all.length];
    next.focus();
    next.click();
  });

  /* Whole numbers on a logarithmic slider: an arrow moves by a step of 2 %, and by one at least. */
  document.addEventListener("keydown", function (event) {
    const id = String(event.target.id || "");
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!id.startsWith("slide-") || !way || event.target.step !== "any") return;
    const field = document.getElementById("in-" + id.slice(6));
    const value = Number(field.value);
    const ends = [event.target.min, event.target.max].map((place) => Math.round(10 ** Number(place)));
    event.preventDefault();
    const next = Math.min(Math.max(value + way * Math.max(1, Math.round(0.02 * value)), ends[0]), ends[1]);
    if (!Number.isFinite(next) || next === value) return;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, String(next));
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });

  /* Names and descriptions that the component library has no property for. */
  function describe() {
    const theme = document.getElementById("theme");
    if (theme) theme.setAttribute("aria-label", "Colours of the page");
    for (const tip of document.querySelectorAll(".tip")) {
      const name = tip.id.slice(4);
      for (const id of ["in-" + name, "slide-" + name]) {
        const field = document.getElementById(id);
        if (!field || field.getAttribute("aria-describedby")) continue;
        field.setAttribute("aria-describedby", tip.id);
        if (document.getElementById("label-" + name)) field.setAttribute("aria-labelledby", "label-" + name + " " + id);
      }
    }
  }
  new MutationObserver(describe).observe(document.documentElement, { childList: true, subtree: true });

  function element(type, props) {
    return { type: type, namespace: "dash_html_components", props: props };
  }

  /* Simulated points in the colours of the curves they belong to. */
  function overlay(simulated, curves) {
    return curves.map(function (curve) {
      const model = curve.meta;
      const rows = simulated.rows.filter((row) => row.model === model);
      return {
        type: "scatter",
        mode: "markers",
        name: "simulated at d = " + simulated.d,
        legendgroup: "simulated",
        showlegend: model === "attention",
        x: rows.map((row) => row.x),
        y: rows.map((row) => row.y),
        error_y: { type: "data", array: rows.map((row) => row.error), visible: true },
        marker: { color: curve.line && curve.line.color, size: 9, symbol: "circle-open", line: { width: 2 } },
        meta: "simulated-" + model,
      };
    });
  }

  /* The other setting's lines, paler. A dash of its own for each of the figure's, so that two lines of one colour stay apart;
     lines that both settings have in common are not drawn twice. */
  const DECORATION = /_band$|_guide$|^(best|here|legend|contours)$/;
  const DASHES = { dash: "dashdot", dot: "2px,6px" };
  function ghosts(data, own) {
    const same = (a, b) => JSON.stringify([a.x, a.y]) === JSON.stringify([b.x, b.y]);
    const twin = (trace) => own.find((one) => one.meta === trace.meta);
    const lines = data.filter((trace) => trace.type === "scatter" && !DECORATION.test(trace.meta));
    return lines.filter((trace) => !twin(trace) || !same(trace, twin(trace))).map(function (trace) {
      return Object.assign({}, trace, {
        name: "A: " + trace.name, meta: "other-" + trace.meta, showlegend: false, opacity: 0.7,
        line: Object.assign({}, trace.line, { dash: DASHES[trace.line.dash] || "dot", width: 2 }),
      });
    });
  }

  /* What tells the two settings apart, as entries of the legend. */
  function keys(own, other, narrow) {
    const entry = (name, dash) => ({
      type: "scatter", mode: "lines", name: name, x: [null], y: [null], meta: "legend", line: { color: "#888888", dash: dash, width: 2 },
    });
    return [entry(narrow ? "B" : "B: " + own, "solid"), entry(narrow ? "A, dotted" : "A, dotted: " + other, "dot")];
  }

  /* Axes that hold both settings: ranges and ticks that were fixed for one are widened by the other's. */
  function widened(layout, other) {
    const both = Object.assign({}, layout);
    for (const name of ["xaxis", "yaxis", "yaxis2"]) {
      const [a, b] = [layout[name], (other || {})[name]];
      if (!a || !b || a.type !== b.type) continue;
      both[name] = Object.assign({}, a);
      if (a.range && b.range) both[name].range = [Math.min(a.range[0], b.range[0]), Math.max(a.range[1], b.range[1])];
      if (a.tickvals && b.tickvals) {
        const texts = new Map(a.tickvals.map((v, i) => [v, a.ticktext[i]]).concat(b.tickvals.map((v, i) => [v, b.ticktext[i]])));
        let ticks = Array.from(texts.keys()).sort((x, y) => x - y);
        const decades = ticks.filter((v) => Number.isInteger(Math.round(Math.log10(v) * 1e9) / 1e9));
        if (ticks.length > 9 && decades.length > 2) ticks = decades;
        Object.assign(both[name], { tickvals: ticks, ticktext: ticks.map((v) => texts.get(v)) });
      }
    }
    return both;
  }

  /* Two maps of one view have the same colours for the same values. */
  function sameColours(a, b) {
    const values = [...a.z.flat(), ...b.z.flat()].filter((v) => v !== null);
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (a.zmid === 0) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
    for (const heat of [a, b]) Object.assign(heat, { zmin: low, zmax: high });
  }

  function table(rows, others) {
    const shown = (row) => (row.test_error === null ? "–" : row.test_error.toFixed(5));
    const line = function (row) {
      const spread = (one) => (one.test_error === null ? one.failure : one.standard_error > 0 ? "± " + one.standard_error.toExponential(1) : "exact");
      const cells = [row.label, shown(row), spread(row)];
      if (others) {
        const other = others.find((one) => one.model === row.model);
        cells.push(other ? shown(other) : "–", other ? spread(other) : "");
      }
      return element("Tr", { children: cells.map((cell) => element("Td", { children: cell })), id: "row-" + row.model });
    };
    const titles = others
      ? ["model", "test error (B)", "standard error (B)", "test error (A)", "standard error (A)"]
      : ["model", "test error", "standard error"];
    const head = titles.map((text) => element("Th", { children: text, scope: "col" }));
    return element("Table", {
      "aria-label": "Test errors at these settings",
      children: [
        element("Thead", { children: element("Tr", { children: head }) }),
        element("Tbody", { children: rows.map(line) }),
      ],
    });
  }

  /* A figure in a given ink. */
  function inked(data, layout, ink) {
    const copy = JSON.parse(JSON.stringify({ data: data, layout: layout }));
    for (const trace of copy.data) {
      for (const part of [trace.line, trace.marker]) {
        if (part && part.color === BLACK) part.color = ink;
      }
    }
    copy.layout.font = { color: ink };
    return copy;
  }

  const EMPTY = {
    data: [], layout: { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", xaxis: { visible: false }, yaxis: { visible: false } },
  };
  const pageInk = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() || DARK_INK;

  /* The answer to the current state, or nothing: an answer to another state is never drawn. */
  function show(changed, answer, exact, simulated, words) {
    const found = [exact, answer].find((one) => one && one.key === current);
    if (!found) return Array(11).fill(skip());
    const ink = pageInk();
    drawn = found.key;
    if (found.stage === "invalid" || found.stage === "failed") {
      stale((looks = "none")); // the last figure stays, dimmed
      exported = null;
      const text = found.message || "Correct the marked fields to see their figure; the one above has the last values that were right.";
      return [...Array(7).fill(skip()), text, "", "", ""];
    }
    looks = "no";
    stale(pending ? "yes" : looks);
    const map = MAPS.includes(found.view);
    const other = found.other;
    let data = found.data.slice();
    if (simulated && simulated.key === current && found.view === "curves") {
      data = data.concat(overlay(simulated, found.data).filter((trace) => trace.x.length));
    }
    const narrow = window.innerWidth < NARROW;
    if (other && !map) data = data.concat(ghosts(other.data, found.data), keys(found.differs, other.differs, narrow));
    if (other && map) sameColours(data[0], other.data[0]);
    const setting = (other ? "B: " : "") + found.setting;
    const layout = other && !map ? widened(found.layout, other.layout) : found.layout;
    exported = {
      view: found.view, title: found.title, settings: other ? [setting, "A: " + other.setting] : [setting],
      data: data, layout: layout, other: other,
    };
    const figure = inked(data, layout, ink);
    if (narrow) figure.layout.legend = Object.assign({}, figure.layout.legend, TWO_COLUMNS);
    figure.layout.meta = { key: found.key, stage: found.stage };
    figure.layout.uirevision = found.view;
    const second = other && map ? inked(other.data, other.layout, ink) : EMPTY;
    const parts = [words.status[found.view]];
    if (found.stage === "quick") parts[0] = "quick answer, refining …";
    if (found.remark) parts.push(found.remark);
    if (other && other.remark && other.remark !== found.remark) parts.push("of A: " + other.remark);
    if (other && other.failures.length) parts.push("some points of A have no answer: " + other.failures[0]);
    if (found.no_other) parts.push("nothing to compare with: " + found.no_other);
    if (found.failures.length) parts.unshift("some points have no answer: " + found.failures[0]);
    const named = (letter, one) => letter + (one.differs ? " (" + one.differs + ")" : "") + ": " + one.setting;
    const below = other ? named("A", other) + (map && other.title !== found.title ? ". " + other.title : "") : "";
    const caption = [words.captions[found.view], found.finding, other && other.finding ? "In A: " + other.finding.replace(/^Here /, "").replace(/^At /, "at ") : ""];
    return [
      figure, second, !other, !(other && map), below, found.title, other ? named("B", found) : setting, parts.join("; "),
      caption.filter(Boolean).join(" "), table(found.rows, other && other.rows), found.code,
    ];
  }

  /* How the simulation stands; one of other parameters is only told of while it takes time. */
  function simulation(changed, found) {
    if (!found) return [skip(), skip(), skip(), skip(), skip()];
    const over = found.finished || found.cancelled;
    let words = found.done + " of " + found.total + " trials";
    if (found.key !== current) words = over ? "" : "simulating earlier parameters: " + words;
    else {
      if (found.cancelled) words = "cancelled after " + words;
      else if (found.finished) words = words + ", done";
      words = [words].concat(found.notes).join("; ");
    }
    return [words, found.key === current || !over ? String(found.done) : "0", String(Math.max(found.total, 1)), !over, over];
  }

  function theme(choice) {
    document.documentElement.dataset.theme = choice || "auto";
    return (choice || "auto") + Date.now();
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    for (const graph of document.querySelectorAll(".graph .js-plotly-plot")) {
      if (window.Plotly) window.Plotly.relayout(graph, { "font.color": pageInk() });
    }
  });

  /* Pictures have a white ground and dark ink, whatever the page's colours, and say what they show. */
  const SIZE = { width: 1000, height: 650 };
  const LONGEST_LINE = 150; // letters of a picture's small print, which are 6 px wide
  function picture(title, data, layout, settings) {
    const figure = inked(data, layout, DARK_INK);
    const lines = settings.flatMap((text) => (text.length > LONGEST_LINE ? text.split(/(?<=loss;) /) : [text]));
    const small = lines.map((text) => '<span style="font-size:11px">' + text + "</span>");
    Object.assign(figure.layout, {
      paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff",
      title: { text: [title].concat(small).join("<br>"), font: { size: 15 }, x: 0.02, xanchor: "left", y: 0.97, yanchor: "top" },
    });
    figure.layout.margin = Object.assign({}, figure.layout.margin, { t: 70 + 16 * small.length });
    delete figure.layout.meta;
    return figure;
  }

  /* As SVG; two maps that are compared stand below each other. */
  async function drawing() {
    const { data, layout, settings, other } = exported;
    const stacked = MAPS.includes(exported.view) && other;
    const figures = stacked
      ? [picture(exported.title, data, layout, [settings[0]]), picture(other.title, other.data, other.layout, [settings[1]])]
      : [picture(exported.title, data, layout, settings)];
    const parts = [];
    for (const figure of figures) {
      const address = await window.Plotly.toImage(figure, Object.assign({ format: "svg" }, SIZE));
      parts.push(decodeURIComponent(address.slice(address.indexOf(",") + 1)));
    }
    if (!stacked) return [parts[0], SIZE.height];
    const height = SIZE.height * parts.length;
    const placed = parts.map((text, i) => text.replace("<svg ", '<svg y="' + SIZE.height * i + '" '));
    return ['<svg xmlns="http://www.w3.org/2000/svg" width="' + SIZE.width + '" height="' + height + '">' + placed.join("") + "</svg>", height];
  }

  async function saved(format) {
    const [text, height] = await drawing();
    if (format === "svg") return new Blob([text], { type: "image/svg+xml" });
    const image = new Image();
    image.src = "data:image/svg+xml," + encodeURIComponent(text);
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * SIZE.width, height: 2 * height }); // for sharp print
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  /* The numbers of the figure: a row per point, per cell for maps. */
  function csv() {
    const quoted = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    };
    const map = MAPS.includes(exported.view);
    const axes = [exported.layout.xaxis.title.text, exported.layout.yaxis.title.text];
    const rows = [map ? ["series", axes[0], axes[1], "value", "setting"] : ["series", axes[0], axes[1], "standard error", "setting"]];
    const both = [[exported.data, exported.settings[0]]];
    if (map && exported.other) both.push([exported.other.data, exported.settings[1]]);
    for (const [data, setting] of both) {
      for (const trace of data) {
        const name = String(trace.meta);
        if (DECORATION.test(name) && name !== "best") continue;
        const mine = name.startsWith("other-") ? exported.settings[1] : setting;
        const series = trace.name || (exported.view === "phase" ? exported.title : name);
        trace.x.forEach(function (x, i) {
          if (trace.z) trace.y.forEach((y, j) => rows.push([series, x, y, trace.z[j][i], mine]));
          else if (map) rows.push([series, x, "", trace.y[i], mine]);
          else rows.push([series, x, trace.y[i], trace.error_y ? trace.error_y.array[i] : trace.customdata ? trace.customdata[i] : "", mine]);
        });
      }
    }
    return rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  async function save() {
    const format = triggered().slice(5);
    if (!exported || !window.Plotly) return skip();
    const name = "sparsetoken-" + exported.view + "." + format;
    const file = format === "csv" ? new Blob(["\ufeff" + csv()], { type: "text/csv;charset=utf-8" }) : await saved(format);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    return format + turn;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explorer: {
      syncLog: sync((x) => digits(10 ** x, 3), log10),
      syncLogWhole: sync((x) => Math.round(10 ** x), log10),
      syncLinear: sync((x) => digits(x, 6), (x) => x),
      syncLinearWhole: sync((x) => Math.round(x), (x) => x),
      collect: collect,
      touched: touched,
      act: act,
      show: show,
      simulation: simulation,
      theme: theme,
      save: save,
    },
  });
})();
