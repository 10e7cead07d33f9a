// Draws the panels when they come near, in the colours of the page; filters the ledger; keeps the navigation up to date.
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const day = { "@ink": "#1d2733", "@grid": "#e3e8ee", "@paper": "#ffffff" };
  // The classifiers' colours serve both modes, but for those too dark to see at night.
  const night = {
    "@ink": "#e4e9ef", "@grid": "#333d48", "@paper": "#14191f", "#000000": "#f2f4f7", "#111111": "#e4e9ef",
    "#222222": "#e4e9ef", "#333333": "#d5dbe3", "#555555": "#a8b0ba", "#666666": "#a8b0ba", "#777777": "#b4bcc6",
    "#0072b2": "#4aa8e0", "#5f6b7a": "#9aa7b6", "#7a5195": "#b58fd0", "#8c564b": "#c08a7e",
  };
  const coloured = (value) => {
    if (typeof value === "string") return (dark.matches ? night : day)[value.toLowerCase()] || value;
    if (Array.isArray(value)) return value.every((v) => typeof v === "number" || v === null) ? value : value.map(coloured);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v)]));
    return value;
  };
  const config = JSON.parse(document.getElementById("plot-config").textContent);
  const specification = (panel) => JSON.parse(panel.querySelector("script").textContent);
  const lines = (data, width) => {  // of the legend, which Plotly fills entry by entry
    let rows = 1, used = 0;
    for (const trace of data.filter((t) => t.showlegend)) {
      const entry = trace.name.replace(/<[^>]*>/g, "").length * 7 + 50;
      if (used && used + entry > width - 72) { rows += 1; used = 0; }
      used += entry;
    }
    return used ? rows : 0;
  };
  const wrapped = (text, letters) => {  // Plotly does not break the titles of axes by itself
    const rows = [""];
    for (const word of text.split(" ")) {
      const longer = rows[rows.length - 1] ? `${rows[rows.length - 1]} ${word}` : word;
      if (longer.length > letters && rows[rows.length - 1]) rows.push(word);
      else rows[rows.length - 1] = longer;
    }
    return rows.join("<br>");
  };
  const turned = (axis, width) => {  // names under an axis: upright where they do not fit side by side; the pixels they take
    const names = axis.ticks === "" ? axis.ticktext.map((name) => name.split("<br>")) : [];
    if (!names.length) return 0;
    const longest = 6.5 * Math.max(...names.flat().map((line) => line.length));
    const fits = longest < (width - 80) / names.length;
    axis.tickangle = fits ? 0 : -90;
    return fits ? 14 * Math.max(...names.map((name) => name.length)) : longest;
  };
  const below = (panel) => {  // pixels that the words under its plot take: those of the axis, and the legend
    const { data, layout } = specification(panel), width = panel.clientWidth;
    const label = wrapped(layout.xaxis.title.text, Math.max(18, (width - 80) / 8)).split("<br>").length - 1;
    return [label * 18 + turned(layout.xaxis, width), lines(data, width) * 20 + 6];
  };
  const draw = (panel) => {
    const { data, layout } = specification(panel), width = panel.clientWidth;
    layout.xaxis.title.text = wrapped(layout.xaxis.title.text, Math.max(18, (width - 80) / 8));
    layout.yaxis.title.text = wrapped(layout.yaxis.title.text, 28);
    turned(layout.xaxis, width);
    // Panels beside each other get the same room, so that their axes line up.
    const beside = [...panel.parentElement.children].filter((p) => p.offsetTop === panel.offsetTop).map(below);
    const [axis, legend] = [0, 1].map((part) => Math.max(...beside.map((pixels) => pixels[part])));
    layout.height = 340 + axis + legend;
    layout.margin.b = 56 + axis + legend;
    layout.legend.y = legend / layout.height;
    Plotly.react(panel.querySelector("div"), coloured(data), coloured(layout), config);
    panel.dataset.drawn = "yes";
  };
  let unpacked;
  const plotly = () => unpacked ||= (async () => {  // the script is packed, and unpacked when it is needed
    const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
  })();
  const panels = [...document.querySelectorAll(".panel")];
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) { near.unobserve(target); plotly().then(() => draw(target)); }
    }
  }, { rootMargin: "600px" });
  panels.forEach((panel) => near.observe(panel));
  const again = () => panels.filter((p) => p.dataset.drawn).forEach(draw);
  dark.addEventListener("change", again);
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(again, 200);
  });
  addEventListener("beforeprint", () => window.Plotly && panels.filter((p) => !p.dataset.drawn).forEach(draw));

  const fold = document.getElementById("ledger");
  if (fold) {
    const rows = [...fold.querySelectorAll("tbody tr")], shown = fold.querySelector("output");
    const [words, verdict, source] = fold.querySelectorAll("input, select");
    const filter = () => {
      const wanted = words.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        const fits = (!wanted || row.textContent.toLowerCase().includes(wanted))
          && (!verdict.value || row.dataset.verdict === verdict.value) && (!source.value || row.dataset.source === source.value);
        row.hidden = !fits;
        count += fits;
      }
      shown.textContent = `${count} of ${rows.length} claims`;
    };
    [words, verdict, source].forEach((field) => field.addEventListener("input", filter));
    filter();
  }
  for (const fold of document.querySelectorAll("details[id]")) {  // a link to a fold opens it
    const unfold = () => { if (location.hash === `#${fold.id}`) fold.open = true; };
    addEventListener("hashchange", unfold);
    document.querySelectorAll(`a[href="#${fold.id}"]`).forEach((a) => a.addEventListener("click", () => { fold.open = true; }));
    unfold();
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = entry.isIntersecting && links.get(entry.target.id);
      if (!link) continue;
      links.forEach((a) => a.removeAttribute("aria-current"));
      link.setAttribute("aria-current", "true");
      const bar = link.parentElement;
      bar.scrollLeft = link.offsetLeft - bar.clientWidth / 2;
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section, #ledger").forEach((part) => seen.observe(part));
})();
