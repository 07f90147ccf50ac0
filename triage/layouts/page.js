"use strict";
// Texts reach the document by textContent only; the charts draw on canvas or SVG text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const make = (tag, text, cls) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (cls) node.className = cls;
    return node;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => innerWidth < 640;
  const utc = (ms) => new Date(ms).toISOString().replace("T", " ").replace("Z", "").replace(/\.000$/, "");
  const charts = [], line = data.timeline, off = new Set();
  const PAPER = 700;
  let printing = false;

  // ---- copy buttons -------------------------------------------------------------------------------------------------
  for (const box of document.querySelectorAll(".command")) {
    const button = make("button", "copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      const code = box.querySelector("code");
      try { await navigator.clipboard.writeText(code.textContent); }
      catch { const range = document.createRange(); range.selectNodeContents(code); getSelection().removeAllRanges(); getSelection().addRange(range); document.execCommand("copy"); }
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    box.append(button);
  }

  // ---- tables that sort and filter -----------------------------------------------------------------------------------
  const key = (cell) => {
    const text = cell.textContent.trim().replace(/^~/, ""), number = Number(text.replace(/,/g, ""));
    return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row, place) => [key(row.cells[column]), place, row]);
        rows.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
        table.tBodies[0].append(...rows.map((row) => row[2]));
      });
    });
    if (table.tBodies[0].rows.length < 6) return;
    const tools = make("div", undefined, "tools"), label = make("label", "filter "), input = make("input"), count = make("span", "", "soft");
    input.type = "search";
    count.setAttribute("aria-live", "polite");
    label.append(input);
    tools.append(label, count);
    table.parentElement.before(tools);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = words.length ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
    });
  }
  document.querySelectorAll("table.sorts").forEach(sortable);

  // ---- fleet: read a cell by pointer or arrow keys ---------------------------------------------------------------------
  const racks = document.getElementById("racks");
  if (racks) {
    const cells = [...racks.querySelectorAll(".cells li")], say = document.getElementById("say-fleet");
    const tell = (cell) => { if (cell) say.textContent = cell.querySelector(".vh").textContent; };
    cells.forEach((cell, place) => { cell.tabIndex = place ? -1 : 0; });
    racks.addEventListener("mouseover", (event) => tell(event.target.closest(".cells li")));
    racks.addEventListener("focusin", (event) => tell(event.target.closest(".cells li")));
    racks.addEventListener("click", (event) => tell(event.target.closest(".cells li")));
    racks.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
      const from = cells.indexOf(document.activeElement);
      if (!step || from < 0) return;
      const to = cells[Math.max(0, Math.min(cells.length - 1, from + step))];
      event.preventDefault();
      document.activeElement.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
    document.getElementById("byfaults").addEventListener("change", (event) => racks.classList.toggle("byfaults", event.target.checked));
  }

  // ---- charts ------------------------------------------------------------------------------------------------------
  const SYMBOL = { root: "diamond", operator: "pin", precursor: "triangle", cascade: "arrow", fact: "emptyCircle", symptom: "circle", teardown: "emptyRect", outcome: "rect", recovery: "emptyDiamond" };
  const SIGN = { root: "◆", operator: "▼", precursor: "▲", cascade: "➤", fact: "○", symptom: "●", teardown: "□", outcome: "■", recovery: "◇" };
  const base = () => ({
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: css("--ink") },
    backgroundColor: "transparent",
    tooltip: { trigger: "item", confine: true, enterable: false, backgroundColor: css("--card"), borderColor: css("--soft"), textStyle: { color: css("--ink") } },
  });
  function tip(title, ...lines) {
    const box = make("div", undefined, "tip");
    box.append(make("b", title));
    for (const line of lines) if (line) box.append(make("div", line));
    return box;
  }
  const zoomed = (chart) => (chart.getOption().dataZoom ?? []).map(({ start, end }) => ({ start, end }));
  const rezoom = (chart, kept) => kept.forEach((zoom, dataZoomIndex) => chart.dispatchAction({ type: "dataZoom", dataZoomIndex, ...zoom }));
  function paint(entry) {
    entry.element.replaceChildren();
    entry.element.style.height = `${entry.height()}px`;
    entry.chart = echarts.init(entry.element, null, { renderer: line && line.events.length > 1500 ? "canvas" : "svg", width: printing ? PAPER : undefined });
    entry.chart.setOption(entry.option());
  }
  function draw(element, option, height) {
    const entry = { option, element, height };
    paint(entry);
    entry.width = element.clientWidth;
    charts.push(entry);
    sizes.observe(element);
    return entry;
  }
  function repaint(entry) {
    const kept = zoomed(entry.chart);
    entry.chart.dispose();
    paint(entry);
    rezoom(entry.chart, printing ? kept.slice(0, 1) : kept);
  }
  const redraw = () => charts.forEach(repaint);
  // A width of nearly nothing is a page that is hidden or being laid out; the next notice has the real one.
  const sizes = new ResizeObserver(() => charts.forEach((entry) => {
    const width = entry.element.clientWidth;
    if (printing || width < 100 || width === entry.width) return;
    entry.width = width;
    repaint(entry);
  }));

  let words = [];
  const LANE = () => (printing ? Math.max(9, Math.min(20, 860 / line.lanes.length)) : narrow() ? 24 : 22);
  const lanesShown = (count) => Math.min(count, 36);
  const matches = (e) => !off.has(e[2]) && (!words.length || words.every((w) => `${line.lanes[e[1]] ?? ""} ${e[5]} ${e[6] ?? ""} ${e[8]}`.toLowerCase().includes(w)));
  const eventLines = (e) => [`${e[0] === null ? "no stamp" : utc(e[0]) + " UTC"}`, [line.lanes[e[1]], e[6], e[7] !== null && `rank ${e[7]}`, e[4] > 1 && `${e[4]} lines`].filter(Boolean).join(", "), e[8], e[9]];

  function bar(color, low, high, opacity) {
    return (params, api) => {
      const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]), size = api.size([0, 1])[1];
      const shape = echarts.graphic.clipRectByRect(
        { x: from[0], y: from[1] - size / 2 + size * low, width: Math.max(2, to[0] - from[0]), height: size * (high - low) },
        { x: params.coordSys.x, y: params.coordSys.y, width: params.coordSys.width, height: params.coordSys.height });
      return shape && { type: "rect", shape: { ...shape, r: 2 }, style: { fill: typeof color === "function" ? color(api) : color, opacity } };
    };
  }
  function series() {
    const end = (ms) => ms ?? line.to, start = (ms) => ms ?? line.from;
    const jobs = { type: "custom", name: "jobs", z: 1, clip: true, encode: { x: [1, 2], y: 0 }, renderItem: bar((api) => (api.value(3) ? css("--job") : css("--job-other")), 0.14, 0.86, 1),
      data: line.jobs.map((j) => ({ value: [j[0], start(j[1]), end(j[2]), j[3]], label: j[4] })) };
    const states = { type: "custom", name: "states", z: 2, clip: true, encode: { x: [1, 2], y: 0 }, renderItem: bar(css("--state"), 0.78, 0.94, 1),
      data: line.states.map((s) => ({ value: [s[0], start(s[1]), end(s[2])], label: s[3] })) };
    const waits = { type: "custom", name: "waits", z: 3, clip: true, encode: { x: [1, 2], y: 0 }, renderItem: bar(css("--symptom"), 0.46, 0.54, 0.6), silent: true,
      data: line.events.filter((e) => matches(e) && e[1] >= 0 && e[0] !== null && e[3] !== null && e[0] - e[3] > 1000).map((e) => [e[1], e[3], e[0]]) };
    const marks = line.roles.map((role, index) => ({ type: "scatter", name: role, z: 5 + (role === "root"), symbol: SYMBOL[role], symbolSize: role === "root" ? 15 : 11, clip: true, encode: { x: 0, y: 1 },
      itemStyle: { color: css(`--${role}`), borderColor: role === "root" || role === "symptom" || role === "outcome" ? css("--bg") : css(`--${role}`), borderWidth: 1 },
      data: line.events.filter((e) => e[2] === index && e[0] !== null && e[1] >= 0 && matches(e)).map((e) => ({ value: [e[0], e[1]], event: e })) }));
    return [jobs, states, waits, ...marks.filter((m) => m.data.length)];
  }
  function timelineOption() {
    const lanes = line.lanes.length, shown = lanesShown(lanes), left = narrow() ? 74 : Math.min(190, 24 + 7 * Math.max(...line.lanes.map((l) => l.length), 4));
    const zoom = [{ type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true, preventDefaultMouseMove: false },
      { type: "slider", show: !printing, xAxisIndex: 0, filterMode: "none", height: 18, bottom: 8, showDetail: false, brushSelect: false, borderColor: css("--line"), fillerColor: css("--job"), backgroundColor: css("--card"), handleStyle: { color: css("--soft") }, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } } }];
    if (lanes > shown && !printing) zoom.push({ type: "slider", yAxisIndex: 0, filterMode: "none", width: 14, right: 4, startValue: 0, endValue: shown - 1, zoomLock: true, brushSelect: false, showDetail: false, borderColor: css("--line"), fillerColor: css("--job"), backgroundColor: css("--card") });
    const focus = line.focus.filter((f) => f !== null), together = focus.length === 2 && focus[1] - focus[0] < 0.12 * (line.to - line.from);
    return { ...base(), useUTC: true,
      grid: { left, right: lanes > shown ? 28 : 16, top: 30, bottom: 50 },
      xAxis: { type: "time", min: line.from, max: line.to, position: "top", axisLabel: { color: css("--soft"), hideOverlap: true, fontSize: 11 }, axisLine: { lineStyle: { color: css("--line") } }, splitLine: { show: true, lineStyle: { color: css("--line"), opacity: 0.6 } }, splitNumber: narrow() ? 3 : 8 },
      yAxis: { type: "category", data: line.lanes, inverse: true, axisTick: { show: false }, axisLine: { show: false }, axisLabel: { color: css("--ink"), fontSize: Math.min(11, LANE() - 1), width: left - 10, overflow: "truncate", interval: 0 }, splitLine: { show: true, interval: 0, lineStyle: { color: css("--line"), opacity: 0.5 } } },
      dataZoom: zoom,
      tooltip: { ...base().tooltip, formatter: (p) => (p.data && p.data.event ? tip(`${SIGN[line.roles[p.data.event[2]]]} ${line.roles[p.data.event[2]]} ${p.data.event[5]}`, ...eventLines(p.data.event)) : tip(p.data.label ?? "", line.lanes[p.value[0]], `${utc(p.value[1])} to ${utc(p.value[2])} UTC`)) },
      series: series().map((s, i) => (i || !focus.length ? s : { ...s, markLine: { silent: true, symbol: "none", animation: false, lineStyle: { color: css("--soft"), type: "dashed" }, label: { show: true, position: "end", color: css("--soft"), fontSize: 10, formatter: (m) => (together ? (m.dataIndex ? "" : "began, ended") : m.dataIndex ? "ended" : "began"), distance: 3 }, data: focus.map((f) => ({ xAxis: f })) } })) };
  }

  function timelineTools(entry, element) {
    const roles = document.getElementById("roles"), zoomBox = document.getElementById("zoom"), say = document.getElementById("say-timeline");
    const again = () => { const kept = zoomed(entry.chart); entry.chart.setOption(entry.option(), { notMerge: true }); rezoom(entry.chart, kept); };
    line.roles.forEach((role, index) => {
      const count = line.events.filter((e) => e[2] === index).length;
      if (!count) return;
      const label = make("label"), box = make("input"), sign = make("span", SIGN[role], `key r-${role}`);
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => { box.checked ? off.delete(index) : off.add(index); again(); });
      label.append(box, sign, make("span", `${role} ${count}`));
      roles.append(label);
    });
    const label = make("label", "filter "), input = make("input");
    input.type = "search";
    input.addEventListener("input", () => { words = input.value.toLowerCase().split(/\s+/).filter(Boolean); again(); });
    label.append(input);
    roles.append(label);
    const span = () => { const z = entry.chart.getOption().dataZoom[0]; return [z.start, z.end]; };
    const set = (start, end) => { const width = Math.min(100, Math.max(0.01, end - start)), from = Math.max(0, Math.min(100 - width, start)); entry.chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start: from, end: from + width }); };
    let here = null;
    const share = (ms) => (100 * (ms - line.from)) / (line.to - line.from);
    const zoom = (factor) => { const [a, b] = span(), seen = here === null ? -1 : share(here), middle = seen > a && seen < b ? seen : (a + b) / 2, half = ((b - a) / 2) * factor; set(middle - half, middle + half); };
    const pan = (part) => { const [a, b] = span(); set(a + (b - a) * part, b + (b - a) * part); };
    const incident = () => { const [a, b] = line.focus.map((f) => share(f ?? line.to)), margin = Math.max((b - a) * 0.15, 0.2); set(a - margin, b + margin); };
    let at = -1;
    const visit = (step) => {
      const events = line.events.filter((e) => matches(e) && e[0] !== null);
      if (!events.length) return;
      at = (at + step + events.length) % events.length;
      const e = events[at], [a, b] = span(), s = share(e[0]);
      here = e[0];
      if (s < a || s > b) set(s - (b - a) / 2, s + (b - a) / 2);
      say.textContent = `${at + 1} of ${events.length}: ${line.roles[e[2]]} ${e[5]}; ${eventLines(e).join("; ")}`;
      const option = entry.chart.getOption();
      option.series.forEach((one, seriesIndex) => { const dataIndex = (one.data || []).findIndex((d) => d && d.event === e); if (one.type === "scatter" && dataIndex >= 0) entry.chart.dispatchAction({ type: "showTip", seriesIndex, dataIndex }); });
    };
    const acts = [["zoom in (+)", () => zoom(0.5)], ["zoom out (-)", () => zoom(2)], ["all (0)", () => set(0, 100)], ["incident (i)", incident], ["previous (p)", () => visit(-1)], ["next event (n)", () => visit(1)]];
    for (const [name, act] of acts) { const button = make("button", name); button.type = "button"; button.addEventListener("click", act); zoomBox.append(button); }
    const keys = { "+": acts[0][1], "=": acts[0][1], "-": acts[1][1], 0: acts[2][1], i: incident, p: acts[4][1], n: acts[5][1], ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), Escape: () => entry.chart.dispatchAction({ type: "hideTip" }) };
    element.addEventListener("keydown", (event) => { const act = keys[event.key]; if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); } });
  }
  function eventTable() {
    const details = document.getElementById("events");
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const wide = make("div", undefined, "wide"), table = make("table", undefined, "stack sorts"), head = make("tr"), body = make("tbody");
      const names = ["Time (UTC)", "Part", "Host", "GPU", "Rank", "Code", "What", "Lines", "Where"];
      for (const name of names) { const th = make("th", name); th.scope = "col"; head.append(th); }
      const thead = make("thead");
      thead.append(head);
      for (const e of line.events) {
        const row = make("tr"), values = [e[0] === null ? "no stamp" : utc(e[0]), line.roles[e[2]], line.lanes[e[1]] ?? "", e[6] ?? "", e[7] ?? "", e[5], e[8], e[4], e[9]];
        values.forEach((value, i) => { const td = make("td", String(value)); td.dataset.label = names[i]; if (i === 0) td.className = "time"; if (i === 6) td.className = "mono text"; row.append(td); });
        body.append(row);
      }
      table.append(thead, body);
      wide.append(table);
      details.append(wide);
      sortable(table);
    });
  }
  if (line && window.echarts) {
    const element = document.getElementById("chart-timeline");
    const entry = draw(element, timelineOption, () => (printing ? line.lanes.length : lanesShown(line.lanes.length)) * LANE() + 96);
    timelineTools(entry, element);
    eventTable();
  }

  // Stages are columns (rows on a phone), a stage of many nodes is spread across them.
  const graph = data.graph;
  function graphPlaces(down, width) {
    const columns = [["precursor", "operator", "unknown"], ["root"], ["cascade", "fact"], ["symptom", "teardown"], ["outcome", "recovery"]], places = new Map();
    const groups = columns.map((stages) => graph.nodes.filter((n) => stages.includes(n.stage))).filter((group) => group.length);
    const edge = Math.min(90, width / groups.length / 2 + 4);
    const most = Math.max(...groups.map((g) => g.length)), rows = [];
    // On a phone a stage of many nodes takes several rows of two.
    if (down) for (const group of groups) for (let i = 0; i < group.length; i += 2) rows.push(group.slice(i, i + 2));
    const height = down ? rows.length * 84 : Math.max(90, most * 66 + 10);
    if (down) rows.forEach((row, y) => row.forEach((n, x) => places.set(n.id, [(width / row.length) * (x + 0.5), y * 84 + 38])));
    else groups.forEach((group, x) => group.forEach((n, y) => places.set(n.id, [groups.length > 1 ? edge + (x * (width - 2 * edge)) / (groups.length - 1) : width / 2, height / 2 + (y - (group.length - 1) / 2) * 66])));
    return { places, height, columns: groups.length };
  }
  const linked = new Set(graph.edges.flatMap((e) => [e.source, e.target]));
  graph.nodes = graph.nodes.filter((n) => linked.has(n.id));
  const causes = document.getElementById("chart-causes");
  function graphOption() {
    const down = narrow(), width = printing ? PAPER : causes.clientWidth, { places, height, columns } = graphPlaces(down, width);
    const size = [down ? Math.min(150, width / 2 - 14) : Math.min(156, width / columns - 26), 50], unseen = (id, x, y) => ({ id, name: id, x, y, symbolSize: 2, itemStyle: { opacity: 0 }, label: { show: false }, tooltip: { show: false } });
    // Two unseen corners keep the drawing at one unit a pixel; unseen ports make arrows end at the edge of a box.
    const helpers = [unseen("corner0", 0, 0), unseen("corner1", width, height)];
    for (const [id, [x, y]] of places) helpers.push(unseen(`${id}:left`, x - size[0] / 2, y), unseen(`${id}:right`, x + size[0] / 2, y), unseen(`${id}:top`, x, y - 25), unseen(`${id}:bottom`, x, y + 25));
    const links = graph.edges.map((e) => {
      const [a, b] = [places.get(e.source), places.get(e.target)], across = down ? a[1] === b[1] : a[0] !== b[0];
      const [from, to] = across ? (a[0] < b[0] ? ["right", "left"] : ["left", "right"]) : a[1] < b[1] ? ["bottom", "top"] : ["top", "bottom"];
      return { ...e, source: `${e.source}:${from}`, target: `${e.target}:${to}` };
    });
    return { ...base(),
      tooltip: { ...base().tooltip, formatter: (p) => (p.dataType === "edge" ? tip(p.data.reason) : tip(`${p.data.stage} ${p.data.code}`, p.data.time, p.data.where, p.data.text)) },
      series: [{ type: "graph", layout: "none", roam: false, left: 0, top: 0, width, height, nodeScaleRatio: 1, symbol: "rect", symbolSize: size, edgeSymbol: ["none", "arrow"], edgeSymbolSize: 9, cursor: "default",
        // A label has an even border, a stretched symbol has not.
        label: { show: true, color: css("--ink"), fontSize: 11, lineHeight: 14, width: size[0] - 14, height: 44, padding: [2, 6], align: "center", verticalAlign: "middle", overflow: "truncate", backgroundColor: css("--card"), borderWidth: 2, borderRadius: 6, formatter: (p) => `{b|${p.data.stage}}\n${p.data.code}${p.data.where ? "\n" + p.data.where : ""}`, rich: { b: { fontWeight: 700, fontSize: 10, color: css("--soft"), align: "center" } } },
        lineStyle: { color: css("--soft"), width: 1.5, curveness: 0.06 },
        data: [...helpers, ...graph.nodes.map((n) => ({ ...n, name: n.id, x: places.get(n.id)[0], y: places.get(n.id)[1], itemStyle: { color: css("--card") }, label: { borderColor: css(`--${n.stage}`) } }))],
        links }] };
  }
  if (graph.edges.length && window.echarts) draw(causes, graphOption, () => graphPlaces(narrow(), printing ? PAPER : causes.clientWidth).height);

  // ---- dark or light: as the system has it, until the button is pressed ---------------------------------------------------
  const night = document.getElementById("night"), system = matchMedia("(prefers-color-scheme: dark)"), theme = make("button", undefined, "theme");
  let dark = null;
  const retheme = () => {
    const now = dark ?? system.matches;
    if (dark !== null) night.media = dark ? "screen" : "not all";
    theme.textContent = now ? "light colours" : "dark colours";
    redraw();
  };
  theme.type = "button";
  theme.addEventListener("click", () => { dark = !(dark ?? system.matches); retheme(); });
  document.querySelector("header").prepend(theme);
  system.addEventListener("change", retheme);
  retheme();
  let opened = [];
  addEventListener("beforeprint", () => { printing = true; document.documentElement.classList.add("paper"); opened = [...document.querySelectorAll("details.telling:not([open])")]; opened.forEach((d) => { d.open = true; }); redraw(); });
  addEventListener("afterprint", () => { printing = false; document.documentElement.classList.remove("paper"); opened.forEach((d) => { d.open = false; }); redraw(); });
})();
