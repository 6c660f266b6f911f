"use strict";
(() => {
  const EACH = 25;
  const get = (id) => document.getElementById(id);
  const data = JSON.parse(get("rows-data").textContent), rubrics = data.rubrics;
  const there = (columns, k) => columns.map(([name, values]) => [name, values[k]]).filter((pair) => pair[1] !== null && pair[1] !== "");
  const rows = data.i.map((i, k) => ({
    i, r: data.r[k], q: there(data.q, k), a: data.e[k] ? null : [there(data.a, k)],
    s: data.s.map((columns) => columns.map((values) => values[k])), e: data.e[k] || null, p: data.p ? data.p[k] : null,
  }));
  const repeated = rows.some((row) => row.r > 0);
  const mixed = rows.some((row) => row.s.some((verdict) => verdict[0] === null));
  let found = rows, place = 0, wanted = "";

  const make = (tag, name, ...children) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children);
    return element;
  };

  // What was searched for stands out in the text.
  const marked = (text) => {
    if (!wanted) return [text];
    const parts = [], low = text.toLowerCase();
    let from = 0, at = low.length === text.length ? low.indexOf(wanted) : -1;
    while (at >= 0 && parts.length < 200) {
      parts.push(text.slice(from, at), make("mark", "", text.slice(at, at + wanted.length)));
      from = at + wanted.length;
      at = low.indexOf(wanted, from);
    }
    return [...parts, text.slice(from)];
  };

  const stateOf = (row) => {
    if (row.e || !row.a) return "none";
    const [right, , , , status] = row.s[0] || [null];
    if (status === "failed") return "none";
    if (status === "left out") return "left";
    if (right === null || right === undefined) return "scored";
    return right ? "right" : "wrong";
  };
  const WORDS = { none: "no answer", right: "right", wrong: "wrong", scored: "scored", left: "left out" };
  const said = (row) => (row.a || []).flat().find(([name]) => name === "text" || name === "label");

  const textOf = (row) => {
    if (row.text === undefined) {
      const pieces = [`row ${row.i}`, ...row.q.map((pair) => pair[1]), ...(row.a || []).flat().map((pair) => pair[1])];
      for (const verdict of row.s) pieces.push(verdict[2] || "", verdict[3] || "");
      if (row.e) pieces.push(...row.e.map(String));
      row.text = pieces.join("\n").toLowerCase();
    }
    return row.text;
  };

  const pairs = (list) => {
    const element = make("dl", "texts");
    for (const [name, value] of list) {
      const part = make("div", value.length > 80 || value.includes("\n") ? "long" : "");
      part.append(make("dt", "", name), make("dd", "", ...marked(value)));
      element.append(part);
    }
    return element;
  };

  const picture = (letters) => {
    const side = Math.round(Math.sqrt(letters.length));
    const svg = get("rows-picture").content.firstElementChild.cloneNode();
    svg.setAttribute("viewBox", `0 0 ${side} ${side}`);
    [...letters].forEach((letter, k) => {
      const level = letter.charCodeAt(0) - 97;
      if (!level) return;
      const pixel = document.createElementNS(svg.namespaceURI, "path");
      pixel.setAttribute("d", `M${k % side} ${Math.floor(k / side)}h1v1h-1z`);
      pixel.setAttribute("fill-opacity", level / 16);
      svg.append(pixel);
    });
    return svg;
  };

  // What all questions begin with tells none of them apart.
  const asked = (row) => { const pair = row.q.find(([, value]) => value.length > 0); return pair ? pair[1] : ""; };
  let same = rows.length > 1 ? asked(rows[0]) : "";
  for (const row of rows) while (same && !asked(row).startsWith(same)) same = same.slice(0, -1);
  same = same.slice(0, same.search(/\S*$/));
  const excerptOf = (row) => {
    const text = asked(row);
    return same.length > 20 && text.length > same.length ? `… ${text.slice(same.length, same.length + 160)}` : text.slice(0, 160);
  };

  const heading = (text) => make("p", "part", text);

  const verdicts = (row) => {
    const body = make("tbody");
    row.s.forEach(([right, score, prediction, target, status], k) => {
      const head = make("th", "", rubrics[k]);
      head.scope = "row";
      const verdict = status === "left out" ? "left out" : status === "failed" ? "no answer" : right === null ? "–" : right ? "right" : "wrong";
      body.append(make("tr", "", head, make("td", "", verdict), make("td", "number", score === null ? "–" : String(score)),
        make("td", "", prediction === null ? "nothing" : prediction), make("td", "", target === null ? "–" : target)));
    });
    const heads = ["Rubric", "Verdict", "Score", "Taken as the answer", "Should be"].map((name) => {
      const head = make("th", "", name);
      head.scope = "col";
      return head;
    });
    const box = make("div", "scroll", make("table", "", make("thead", "", make("tr", "", ...heads)), body));
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Scores of row ${row.i}`);
    return box;
  };

  const fill = (row, box) => {
    if (row.p) box.append(picture(row.p));
    box.append(heading("Asked"), pairs(row.q));
    (row.a || []).forEach((answer, k) => box.append(heading(row.a.length > 1 ? `Answered (${k + 1})` : "Answered"), pairs(answer)));
    if (row.e) {
      const [status, reason, message, body, tries] = row.e;
      const told = [["status", status], ["reason", reason], ["message", message], ["body", body], ["tries", tries]];
      box.append(heading("No answer"), pairs(told.filter((pair) => pair[1] !== null && pair[1] !== "").map(([name, value]) => [name, String(value)])));
    }
    if (row.s.length) box.append(heading("Scored"), verdicts(row));
  };

  const card = (row) => {
    const state = stateOf(row), answer = said(row);
    const summary = make("summary", "", make("span", `state ${state}`, state === "scored" && row.s.length ? (row.s[0][1] === null ? "–" : String(row.s[0][1])) : WORDS[state]),
      make("span", "where", `Row ${row.i}${repeated ? `, time ${row.r + 1}` : ""}`));
    if (row.p) summary.append(picture(row.p));
    if (!row.p) summary.append(make("span", "excerpt", ...marked(excerptOf(row))));
    if (answer) summary.append(make("span", "answer", "→ ", ...marked(answer[1].length > 160 ? `${answer[1].slice(0, 160)}…` : answer[1])));
    const target = row.s.length ? row.s[0][3] : null;
    if (answer && state === "wrong" && target && target.length <= 40) summary.lastChild.append(make("span", "target", `, should be ${target}`));
    const details = make("details", row.p ? "pictured" : "", summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) {
        const box = make("div", "whole");
        fill(row, box);
        details.append(box);
      }
    });
    return make("li", "", details);
  };

  const draw = () => {
    const pages = Math.max(1, Math.ceil(found.length / EACH));
    place = Math.min(place, pages - 1);
    const list = get("rows-list");
    list.replaceChildren(...found.slice(place * EACH, (place + 1) * EACH).map(card));
    list.start = place * EACH + 1;
    get("rows-found").textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
    get("rows-place").textContent = `Page ${place + 1} of ${pages}`;
    get("rows-before").disabled = place === 0;
    get("rows-after").disabled = place + 1 >= pages;
  };

  const find = () => {
    wanted = get("rows-search").value.trim().toLowerCase();
    const show = get("rows-show").value;
    found = rows.filter((row) => (show === "all" || stateOf(row) === show) && (!wanted || textOf(row).includes(wanted)));
    place = 0;
    draw();
  };

  const counts = {};
  for (const row of rows) counts[stateOf(row)] = (counts[stateOf(row)] || 0) + 1;
  const option = (value, text) => {
    const element = make("option", "", text);
    element.value = value;
    return element;
  };
  get("rows-show").append(option("all", `all rows (${rows.length.toLocaleString("en")})`),
    ...["wrong", "none", "left", "right", "scored"].filter((state) => counts[state] && (state !== "scored" || mixed))
      .map((state) => option(state, `${WORDS[state]} (${counts[state].toLocaleString("en")})`)));
  let waiting = 0;
  get("rows-search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 150);
  });
  get("rows-show").addEventListener("change", find);
  const turn = (by) => {
    place += by;
    draw();
    get("rows-list").scrollIntoView({ block: "nearest" });
  };
  get("rows-before").addEventListener("click", () => turn(-1));
  get("rows-after").addEventListener("click", () => turn(1));
  get("rows-tool").hidden = false;
  draw();
})();
