// The keys of the page, and the few things that HTML can't do by itself. Nothing here writes HTML.
"use strict";
(() => {
  const NOTICE_MS = 8000;
  const GO_MS = 1500;
  const BESIDE_MS = 120;
  const one = (selector, root = document) => root.querySelector(selector);
  const isShown = (element) => element.getClientRects().length > 0;
  const first = (selector) => [...document.querySelectorAll(selector)].find(isShown);
  const hasLetters = () => document.documentElement.dataset.letters === "on";
  const isTyping = (element) => element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
  let goUntil = 0;

  // Rows: j and k move among the links of a list, and stop at its ends.
  function step(by) {
    const link = first(`[data-key="${by > 0 ? "j" : "k"}"]`);
    if (link) return link.click();
    const rows = [...document.querySelectorAll("[data-row]")].filter(isShown);
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    const target = next && (one("a, button", next) || next);
    if (target) { target.focus(); target.scrollIntoView({ block: "nearest" }); }
  }

  // Of several elements with the same key, one in a notice is pressed, or, for Escape, the last on the page.
  function press(key) {
    const found = [...document.querySelectorAll(`#notice [data-key="${key}"]`), ...document.querySelectorAll(`main [data-key="${key}"]`)].filter(isShown);
    const target = key === "Escape" ? found.at(-1) : found[0];
    if (!target) return false;
    // htmx begins in a task of its own; a click before would be lost.
    if (isTyping(target)) target.focus(); else setTimeout(() => target.click());
    return true;
  }

  function go(key) {
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    if (link) location.assign(link.href);
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target;
    if (event.key === "Escape") {
      if (isTyping(target)) target.blur();
      else if (!one("dialog[open]")) press("Escape");
      return;
    }
    if (isTyping(target) || !hasLetters() || one("dialog[open]")) return;
    if (Date.now() < goUntil) { goUntil = 0; event.preventDefault(); return go(event.key); }
    if (event.key === "g") goUntil = Date.now() + GO_MS;
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "/") { const box = first("#search"); if (box) { box.focus(); box.select(); } }
    else if (event.key === "?") one("#keys").showModal();
    else if (!/^[a-z]$/.test(event.key) || !press(event.key)) return;
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens], [data-reload], [data-copies]");
    if (!opener) return;
    if (opener.dataset.opens) document.getElementById(opener.dataset.opens).showModal();
    else if (opener.dataset.copies) navigator.clipboard.writeText(opener.dataset.copies).then(() => { opener.textContent = "Copied"; });
    else location.reload();
  });

  // A memory opens beside its list when its link has the focus, or immediately when it is clicked; in a narrow window,
  // it opens as a page. The address names it, so that a page that is loaded again opens it again.
  let besideTimer = 0;
  function markOpened() {
    for (const row of document.querySelectorAll("[data-beside]")) row.ariaCurrent = `#${row.id}` === location.hash ? "true" : null;
  }
  function openBeside(link, wait) {
    const detail = one(".beside");
    clearTimeout(besideTimer);
    if (!detail || !matchMedia("(min-width: 75rem)").matches) return false;
    history.replaceState(history.state, "", `#${link.id}`);
    markOpened();
    besideTimer = setTimeout(() => htmx.ajax("GET", link.href, { source: detail, target: detail }), wait);
    return true;
  }

  addEventListener("load", () => {
    const link = document.getElementById(location.hash.slice(1));
    if (link?.matches("[data-beside]")) openBeside(link, 0);
  });

  document.addEventListener("focusin", (event) => {
    if (event.target.matches("[data-beside]")) openBeside(event.target, BESIDE_MS);
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-beside]");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    if (link && isPlain && openBeside(link, 0)) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.submit();
  });

  // A notice disappears after a while, but not while the pointer or the focus is on it.
  function fade(notice) {
    setTimeout(() => {
      if (notice.matches(":hover, :focus-within")) fade(notice); else notice.remove();
    }, NOTICE_MS);
  }

  // Times are shown in the time zone of the browser: they are rewritten, in the same forms, if the server's is different.
  const DAY = { day: "numeric", month: "short" }, YEAR = { ...DAY, year: "numeric" }, CLOCK = { hour: "2-digit", minute: "2-digit" };
  function localTime(at, form, serverDay) {
    const say = (options) => at.toLocaleString("en-GB", options).replace(/Sept\b/, "Sep");
    const now = new Date(), isThisYear = at.getFullYear() === now.getFullYear();
    const daysAgo = Math.round((new Date(now).setHours(12, 0, 0) - new Date(at).setHours(12, 0, 0)) / 864e5);
    if (form === "date") return say(YEAR);
    if (form === "day") return ["Today", "Yesterday"][daysAgo] || say(isThisYear ? { weekday: "long", day: "numeric", month: "long" } : { ...YEAR, month: "long" });
    // Below the heading of a day, a time of another day has its date.
    if (form === "clock" ? at.toLocaleDateString("sv") === serverDay : !daysAgo) return say(CLOCK);
    return isThisYear ? `${say(DAY)} ${say(CLOCK)}` : say(YEAR);
  }
  function localize() {
    for (const time of document.querySelectorAll("time[data-form]")) {
      const at = new Date(time.dateTime), zone = /([+-])(\d\d):(\d\d)$/.exec(time.dateTime);
      if (!zone) continue;
      time.title = at.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
      if (`${zone[1]}1` * (zone[2] * 60 + +zone[3]) !== -at.getTimezoneOffset()) time.textContent = localTime(at, time.dataset.form, time.dateTime.slice(0, 10));
      delete time.dataset.form;
    }
  }
  localize();

  // How many items are newer than the page: the server sends their number while the page is in view.
  let news;
  function listen() {
    const address = document.hidden ? undefined : one("[data-live]")?.dataset.live;
    if (news?.address === address) return;
    news?.stream.close();
    news = address && { address, stream: new EventSource(address) };
    if (news) news.stream.onmessage = ({ data }) => {
      const button = one("#news button");
      button.hidden = data === "0";
      button.textContent = `${(+data).toLocaleString("en")} new – show`;
    };
  }
  listen();
  document.addEventListener("visibilitychange", listen);

  // The days of a chart: Tab reaches one of them, and the arrow keys move on from there.
  document.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
    const next = by && event.target.matches("[data-chart] > li") && event.target[by];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    event.preventDefault();
  });

  document.addEventListener("htmx:after:swap", () => {
    localize();
    listen();
    // An undo may bring back another memory than the one opened last.
    const opened = one(".beside [data-memory]")?.dataset.memory;
    if (opened) history.replaceState(history.state, "", `#${opened}`);
    markOpened();
    // A search from another view shows the list of memories, which thereby becomes the current view.
    setTimeout(() => {
      for (const link of document.querySelectorAll("nav a[data-go]")) {
        if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
        else if (one("#found")) link.removeAttribute("aria-current");
      }
    });
    for (const notice of document.querySelectorAll("[data-fades]")) {
      delete notice.dataset.fades;
      fade(notice);
    }
    const wanted = first("[data-focus]");
    if (wanted) { delete wanted.dataset.focus; wanted.focus(); }
  });
})();
