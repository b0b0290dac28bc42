// Zoom, readings and details of the picture. The page is complete without it.
(function () {
  "use strict";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  function describe(text) {
    tip.replaceChildren();
    const [head, ...rows] = text.split("\n");
    const title = document.createElement("b");
    title.textContent = head;
    const list = document.createElement("dl");
    for (const row of rows) {
      const at = row.indexOf(": ");
      const name = document.createElement("dt");
      const value = document.createElement("dd");
      name.textContent = row.slice(0, at);
      value.textContent = row.slice(at + 2);
      list.append(name, value);
    }
    tip.append(title, list);
  }

  function show(mark, x, y) {
    describe(mark.getAttribute("aria-label"));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(x + 14, window.innerWidth - box.width - 8));
    const top = y + 18 + box.height < window.innerHeight ? y + 18 : Math.max(8, y - box.height - 14);
    tip.style.left = left + "px";
    tip.style.top = top + "px";
  }

  function hide() { tip.hidden = true; }

  // A title shows a second, slower tip; the name for screen readers stays.
  for (const title of document.querySelectorAll(".plot title")) {
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }

  // One stop of the Tab key for each row; the arrow keys go on within the row.
  function moveFocus(event) {
    const mark = event.target.closest("[data-row]");
    if (!mark) return;
    if (event.key === "Escape") { hide(); return; }
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const row = [...event.currentTarget.querySelectorAll("[data-row]")].filter((one) => one.dataset.row === mark.dataset.row);
    row.sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left);
    const next = row[row.indexOf(mark) + by];
    if (!next) return;
    mark.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  const before = d3.bisector((point) => point[0]).right;
  function lastOf(points, at) {
    const found = before(points, at);
    return found ? points[found - 1] : null;
  }
  function seconds(ms) { return (ms >= 0 ? "+" : "−") + Math.abs(ms / 1000).toFixed(3) + " s"; }
  function number(value) { return value.toLocaleString("en-US"); }

  function readingAt(data, at) {
    const parts = [seconds(at)];
    const hw = lastOf(data.hw, at);
    const age = hw && at - hw[0] > 1000 ? ", last seen at " + seconds(hw[0]) : "";
    parts.push("HW " + (hw ? number(hw[1]) + " (broker " + hw[2] + age + ")" : "not seen yet"));
    for (const [broker, points] of Object.entries(data.ends)) {
      const end = lastOf(points, at);
      if (end) parts.push("log end of " + broker + ": " + number(end[1]));
    }
    const bin = Math.floor((at - data.first) / data.bin);
    if (data.acked.length) {
      parts.push("acked " + number(data.acked[bin] || 0), "consumed " + number(data.consumed[bin] || 0));
    }
    for (const [broker, spans] of Object.entries(data.roles)) {
      const span = spans.find((one) => one[0] <= at && (one[1] === null || at < one[1]));
      if (span) parts.push("broker " + broker + ": " + span[2]);
    }
    return parts.join(" · ");
  }

  for (const figure of document.querySelectorAll("figure.partition")) {
    const plot = figure.querySelector(".plot");
    const time = plot.querySelector(".time");
    const cursor = plot.querySelector(".cursor");
    const controls = figure.querySelector(".controls");
    const slider = controls.querySelector("input");
    const reading = controls.querySelector("output");
    const ticks = plot.querySelector(".ticks");
    const data = JSON.parse(figure.querySelector(".readings").textContent);
    const texts = [...plot.querySelectorAll("[data-fit]")];
    const tickBottom = Number(ticks.querySelector("text").getAttribute("y"));
    const guilty = plot.querySelector(".line.guilty, .line.losing");
    let pointed = guilty ? (parseFloat(guilty.getAttribute("x")) / 100) * (data.end - data.begin) + data.begin : (data.begin + data.end) / 2;
    let zoomed = d3.zoomIdentity;
    controls.hidden = false;

    function width() { return plot.getBoundingClientRect().width; }
    function timeAt(x) { return data.begin + ((x - zoomed.x) / (zoomed.k * width())) * (data.end - data.begin); }
    function placeOf(at) { return zoomed.x + ((at - data.begin) / (data.end - data.begin)) * zoomed.k * width(); }

    function read(at) {
      const clamped = Math.max(data.begin, Math.min(data.end, at));
      pointed = clamped;
      const x = placeOf(clamped);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      reading.textContent = readingAt(data, clamped);
      slider.value = String(Math.round(((clamped - data.begin) / (data.end - data.begin)) * 1000));
      slider.setAttribute("aria-valuetext", reading.textContent);
    }

    function drawTicks() {
      const edge = 20; // A text nearer to the edge would be cut off.
      const low = timeAt(edge) / 1000;
      const high = timeAt(width() - edge) / 1000;
      const shapes = [];
      const space = "http://www.w3.org/2000/svg";
      for (const value of d3.ticks(low, high, Math.max(2, width() / 90))) {
        const x = (100 * (value * 1000 - data.begin)) / (data.end - data.begin) + "%";
        const line = document.createElementNS(space, "line");
        for (const [name, place] of [["x1", x], ["x2", x], ["y1", 0], ["y2", tickBottom - 14]]) line.setAttribute(name, place);
        const text = document.createElementNS(space, "text");
        text.setAttribute("x", x);
        text.setAttribute("y", tickBottom);
        text.textContent = Number(value.toPrecision(8)) + " s";
        shapes.push(line, text);
      }
      ticks.replaceChildren(...shapes);
    }

    function lay() {
      const wide = width();
      if (!wide) return;
      time.setAttribute("x", zoomed.x);
      time.setAttribute("width", 100 * zoomed.k + "%");
      for (const text of texts) text.style.display = text.dataset.fit <= wide * zoomed.k ? "inline" : "none";
      drawTicks();
    }

    const zoom = d3.zoom()
      .scaleExtent([1, 200])
      // A wheel alone scrolls the page, and so does one finger.
      .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : event.type !== "touchstart" || event.touches.length > 1) && !event.button)
      .on("zoom", (event) => { zoomed = event.transform; hide(); lay(); });
    const chosen = d3.select(plot).call(zoom).on("dblclick.zoom", null);
    function fit() {
      zoom.extent([[0, 0], [width(), 1]]).translateExtent([[0, 0], [width(), 1]]);
      chosen.call(zoom.transform, d3.zoomIdentity);
    }
    new ResizeObserver(fit).observe(plot);

    for (const button of controls.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const by = Number(button.dataset.zoom);
        if (by) chosen.call(zoom.scaleBy, by, [Math.max(0, Math.min(width(), placeOf(pointed))), 0]);
        else chosen.call(zoom.transform, d3.zoomIdentity);
      });
    }
    slider.addEventListener("input", () => read(data.begin + (slider.value / 1000) * (data.end - data.begin)));
    plot.addEventListener("pointermove", (event) => {
      read(timeAt(event.clientX - plot.getBoundingClientRect().left));
      const mark = event.target.closest("[data-row]");
      if (mark) show(mark, event.clientX, event.clientY);
      else hide();
    });
    plot.addEventListener("click", (event) => {
      read(timeAt(event.clientX - plot.getBoundingClientRect().left));
      const mark = event.target.closest("[data-row]");
      if (mark) show(mark, event.clientX, event.clientY);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("focusin", (event) => {
      const mark = event.target.closest("[data-row]");
      if (!mark) return;
      const box = mark.getBoundingClientRect();
      show(mark, Math.max(box.left, 0), box.bottom - 8);
    });
    plot.addEventListener("focusout", hide);
    plot.addEventListener("keydown", moveFocus);
    reading.textContent = "Point at the picture, tap it or move the slider to read off its values.";
    slider.value = String(Math.round(((pointed - data.begin) / (data.end - data.begin)) * 1000));
  }
})();
