"use strict";
/* The case table of the report page: filter, search, sort, page and open cases.
 *
 * Cases lie in the page as compressed blocks and an index of columns; only the index is read at
 * the start, a block when one of its cases is shown or searched. Text of cases is foreign: it
 * reaches the document through textContent alone, never as markup.
 */
(() => {
  const ROWS = 50;        // cases on one screen page
  const KEPT_BLOCKS = 24; // decoded blocks held at a time: a search must not hold every text
  const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/;

  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  function element(name, options = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") made.className = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  /* ---- light and dark ---- */
  const themes = ["auto", "light", "dark"];
  let theme = "auto";
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    byId("theme").textContent = `Theme: ${theme}`;
  });

  const body = byId("case-rows");
  if (!body) return;
  const status = byId("case-status");
  if (typeof DecompressionStream === "undefined") {
    status.textContent = "This browser cannot unpack the cases; any browser since 2023 can.";
    return;
  }

  /* ---- reading ---- */
  async function unpack(id) {
    const text = byId(id).textContent;
    const raw = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const blocks = new Map(); // number -> promise of its cases, least recently used first
  function block(number) {
    const held = blocks.get(number) || unpack(`cases-${number}`);
    blocks.delete(number);
    blocks.set(number, held);
    if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
    return held;
  }

  let index = null;      // {size, models, outcomes, model[], outcome[], id[], score[], rank[]}
  let shown = [];        // positions of the cases that pass the filters, in order
  let screen = 0;        // which page of them
  let open = -1;         // position of the open case
  let order = { by: "", dir: "up" };
  let searching = false; // the table shows what was found before, and the status how far it is
  let turn = 0;          // rises with every search, so that an overtaken one stops
  let picture = 0;       // rises with every drawing, for the same reason

  const chosen = () => new Set(
    [...document.querySelectorAll("#outcome-filter input:checked")].map((box) => box.value));

  /* ---- filtering ---- */
  async function filter() {
    const mine = ++turn;
    const wanted = byId("search").value.trim().toLowerCase();
    const model = byId("model-filter").value;
    const outcomes = chosen();
    const base = [];
    for (let at = 0; at < index.id.length; at++) {
      if (model !== "" && index.model[at] !== Number(model)) continue;
      if (outcomes.size && !outcomes.has(index.outcomes[index.outcome[at]])) continue;
      base.push(at);
    }
    screen = 0;
    open = -1;
    searching = wanted !== "";
    const found = searching ? await search(base, wanted, mine) : base;
    if (mine !== turn) return;
    searching = false;
    shown = found;
    sortShown();
    await draw();
  }

  // Gives what was found; of a search that was overtaken, nobody asks.
  async function search(base, wanted, mine) {
    const found = [];
    let told = 0;
    for (let from = 0; from < base.length;) {
      const number = Math.floor(base[from] / index.size);
      const cases = await block(number);
      if (mine !== turn) return found;
      for (; from < base.length && Math.floor(base[from] / index.size) === number; from++) {
        const at = base[from];
        const one = cases[at % index.size];
        if (index.id[at].toLowerCase().includes(wanted) || one.some(
          (text) => typeof text === "string" && text.toLowerCase().includes(wanted))) {
          found.push(at);
        }
      }
      if (performance.now() - told > 150) { // let the page breathe, and say how far it is
        told = performance.now();
        status.textContent = `Searching: ${Math.round((100 * from) / base.length)} %`;
        await new Promise((resume) => setTimeout(resume));
      }
    }
    return found;
  }

  function sortShown() {
    const sign = order.dir === "up" ? 1 : -1;
    const value = {
      id: (at) => index.rank[at],
      model: (at) => index.models[index.model[at]],
      outcome: (at) => index.outcomes[index.outcome[at]],
      score: (at) => index.score[at] ?? -1,
    }[order.by || "id"];
    shown.sort((a, b) => {
      const x = value(a), y = value(b);
      return x < y ? -sign : x > y ? sign : index.rank[a] - index.rank[b];
    });
  }

  /* ---- drawing ---- */
  const isHighHalf = (text, at) => (text.charCodeAt(at) & 0xfc00) === 0xd800;
  const isLowHalf = (text, at) => (text.charCodeAt(at) & 0xfc00) === 0xdc00;

  // Text with what hides, turns direction or is half a character named, and the search marked.
  function foreign(text, wanted) {
    const made = document.createDocumentFragment();
    const lower = wanted ? text.toLowerCase() : "";
    let plain = "";
    const flush = () => { if (plain) made.append(plain); plain = ""; };
    for (let at = 0; at < text.length; at++) {
      // lower case of some letters is longer: then positions do not match and nothing is marked
      if (wanted && lower.length === text.length && lower.startsWith(wanted, at)) {
        flush();
        made.append(element("mark", {}, text.slice(at, at + wanted.length)));
        at += wanted.length - 1;
      } else if (isHighHalf(text, at) && isLowHalf(text, at + 1)) {
        plain += text.slice(at, at + 2);
        at += 1;
      } else if (CONTROL.test(text[at]) || isHighHalf(text, at) || isLowHalf(text, at)) {
        flush();
        const code = text.charCodeAt(at).toString(16).toUpperCase().padStart(4, "0");
        made.append(element("span", { class: "ctl" }, `U+${code}`));
      } else {
        plain += text[at];
      }
    }
    flush();
    return made;
  }

  function caseRow(at) {
    const outcome = index.outcomes[index.outcome[at]];
    const score = index.score[at];
    const button = element("button", {
      class: "open-case", type: "button", "aria-expanded": String(at === open),
    }, element("bdi", {}, foreign(index.id[at], "")));
    button.addEventListener("click", () => toggle(at));
    const row = element("tr", { class: at === open ? "case open" : "case" },
      element("td", {}, button),
      element("td", {}, element("bdi", {}, foreign(index.models[index.model[at]], ""))),
      element("td", {}, element("span", { class: `outcome ${index.classes[index.outcome[at]]}` },
        outcome)),
      element("td", { class: "num" }, score === null ? "\u2013" : String(Number(score.toFixed(4)))));
    row.dataset.at = at;
    return row;
  }

  async function detailRow(at) {
    const one = (await block(Math.floor(at / index.size)))[at % index.size];
    const wanted = byId("search").value.trim().toLowerCase();
    const [prompt, expected, response, extracted, rule, steps, category] = one;
    const list = element("dl");
    const field = (name, text) => {
      if (text === null || text === "") return;
      list.append(element("dt", {}, name), element("dd", {},
        element("pre", { class: "foreign", dir: "auto", tabindex: "0", "aria-label": name },
          foreign(text, wanted))));
    };
    field("Prompt", prompt);
    field("Expected", expected);
    list.append(element("dt", {}, "Response"), element("dd", {}, response === ""
      ? element("em", {}, "empty")
      : element("pre", { class: "foreign", dir: "auto", tabindex: "0", "aria-label": "Response" },
        foreign(response, wanted))));
    field("Extracted", extracted);
    field("Steps", steps.join("\n"));
    field("Rule", rule);
    field("Category", category);
    return element("tr", { class: "detail" }, element("td", { colspan: "4" }, list));
  }

  // Says whether it was drawn: what was asked for later is drawn instead.
  async function draw() {
    const mine = turn;
    const latest = ++picture;
    const opened = open; // another case may be opened before this one's text is there
    const last = Math.max(0, Math.ceil(shown.length / ROWS) - 1);
    screen = Math.min(Math.max(screen, 0), last);
    const rows = [];
    for (const at of shown.slice(screen * ROWS, (screen + 1) * ROWS)) {
      rows.push(caseRow(at));
      if (at === opened) rows.push(await detailRow(at));
      if (mine !== turn || latest !== picture) return false;
    }
    if (!rows.length) {
      rows.push(element("tr", {}, element("td", { colspan: "4" }, "No case fits these filters.")));
    }
    body.replaceChildren(...rows);
    const all = index.id.length.toLocaleString("en");
    if (!searching) status.textContent = `${shown.length.toLocaleString("en")} of ${all} cases`;
    byId("where").textContent = `Page ${screen + 1} of ${last + 1}`;
    byId("previous").disabled = screen === 0;
    byId("next").disabled = screen === last;
    body.dataset.ready = "yes";
    return true;
  }

  async function toggle(at) {
    open = open === at ? -1 : at;
    if (!await draw()) return;
    const row = body.querySelector(`tr[data-at="${at}"] button`);
    if (row) row.focus();
  }

  async function move(by) {
    screen += by;
    open = -1;
    await draw();
  }

  /* ---- keys and controls ---- */
  byId("previous").addEventListener("click", () => move(-1));
  byId("next").addEventListener("click", () => move(1));
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 160);
  });
  byId("model-filter").addEventListener("change", filter);
  byId("outcome-filter").addEventListener("change", filter);
  for (const button of document.querySelectorAll("#cases .sort")) {
    button.addEventListener("click", async () => {
      const by = button.dataset.by;
      order = { by, dir: order.by === by && order.dir === "up" ? "down" : "up" };
      for (const other of document.querySelectorAll("#cases .sort")) {
        const on = other === button;
        if (on) other.dataset.dir = order.dir; else delete other.dataset.dir;
        other.closest("th").setAttribute("aria-sort",
          on ? (order.dir === "up" ? "ascending" : "descending") : "none");
      }
      screen = 0;
      sortShown();
      await draw();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && document.activeElement === byId("search")
        && byId("search").value !== "") {
      event.preventDefault(); // not every browser empties the box, or tells of it
      byId("search").value = "";
      clearTimeout(waiting);
      filter();
    } else if (event.key === "Escape" && open >= 0) {
      // who is at a filter stays there
      if (typing) move(0); else toggle(open);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp")
        && document.activeElement.classList.contains("open-case")) {
      event.preventDefault();
      const buttons = [...body.querySelectorAll(".open-case")];
      const at = buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      if (buttons[at]) buttons[at].focus();
    }
  });

  (async () => {
    index = await unpack("case-index");
    const choice = byId("model-filter");
    index.models.forEach((name, number) => {
      const option = element("option", { value: String(number) });
      option.append(foreign(name, ""));
      choice.append(option);
    });
    shown = index.id.map((_, at) => at);
    sortShown();
    await draw();
  })().catch(() => {
    status.textContent = "The cases in this file are damaged; make the report again.";
  });
})();
