// Keeps a console page up to date, and helps with selections and editors. Every page works
// without it.
"use strict";
{
    const live = document.getElementById("echomq-live");
    const away = document.getElementById("echomq-away");
    const language = document.documentElement.lang || undefined;
    const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium" });
    const calendar = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

    // In the reader's zone: the time alone today, else with the date.
    function told(iso) {
        const at = new Date(iso);
        if (Number.isNaN(at.getTime())) {
            return null;
        }
        return (at.toDateString() === new Date().toDateString() ? clock : calendar).format(at);
    }

    function localize(root) {
        root.querySelectorAll("time[datetime]").forEach(function (el) {
            el.textContent = told(el.dateTime) ?? el.textContent;
        });
        root.querySelectorAll("g[data-at] > title").forEach(function (el) {
            const when = told(el.parentElement.dataset.at);
            el.textContent = when ? `${when}: ${el.parentElement.dataset.counts}` : el.textContent;
        });
        root.querySelectorAll(".echomq-zone").forEach(function (el) {
            el.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
        });
    }

    // --- selections ---------------------------------------------------------------------------

    function boxes() {
        return Array.from(document.querySelectorAll(".echomq-selection .action-select"));
    }

    function count() {
        const all = boxes();
        const chosen = all.filter((box) => box.checked);
        const counter = document.querySelector(".echomq-selection .action-counter");
        const toggle = document.getElementById("action-toggle");
        all.forEach((box) => box.closest("tr").classList.toggle("selected", box.checked));
        if (counter) {
            const text = chosen.length ? `${chosen.length} / ${all.length}` : "";
            if (counter.textContent !== text) {
                counter.textContent = text;
            }
        }
        if (toggle) {
            toggle.checked = all.length > 0 && chosen.length === all.length;
            toggle.indeterminate = chosen.length > 0 && chosen.length < all.length;
        }
    }

    document.addEventListener("change", function (event) {
        if (event.target.id === "action-toggle") {
            boxes().forEach((box) => { box.checked = event.target.checked; });
        }
        if (event.target.closest(".echomq-selection")) {
            count();
        }
    });

    // --- forms --------------------------------------------------------------------------------

    function fits(area) {
        try {
            const value = JSON.parse(area.value);
            const list = Array.isArray(value);
            return area.dataset.json === "list" ? list : !list && typeof value === "object" && value !== null;
        } catch {
            return false;
        }
    }

    // An editor says at once when its text is not JSON of its kind.
    document.addEventListener("input", function (event) {
        const form = event.target.closest(".echomq-edit");
        if (form) {
            const areas = Array.from(form.querySelectorAll("[data-json]"));
            areas.forEach((area) => area.setAttribute("aria-invalid", String(!fits(area))));
            form.querySelector(".echomq-problem").hidden = areas.every(fits);
        }
    });

    // A time is typed in the reader's zone; the site is told which instant is meant.
    document.addEventListener("submit", function (event) {
        const field = event.target.querySelector("input[type=datetime-local]");
        const at = field && new Date(field.value);
        if (field && !Number.isNaN(at.getTime())) {
            const instant = document.createElement("input");
            instant.type = "hidden";
            instant.name = field.name;
            instant.value = at.toISOString();
            field.removeAttribute("name");
            event.target.append(instant);
        }
    });

    // --- refresh ------------------------------------------------------------------------------

    const key = (node) => node.id || node.dataset?.key || "";

    function touched(form) {
        return Array.from(form.elements).some(
            (field) => field.defaultValue !== undefined && field.type !== "hidden" && field.value !== field.defaultValue,
        );
    }

    // Makes an element like a fresh one, in place: what the reader has chosen, opened, typed,
    // scrolled or focused is a property of the elements that stay.
    function liken(old, fresh) {
        if (old.isEqualNode(fresh) || old.matches?.(".action-counter")) {
            return;
        }
        if (old.nodeType !== Node.ELEMENT_NODE) {
            old.nodeValue = fresh.nodeValue;
            return;
        }
        if (old.matches(".echomq-edit") && touched(old)) {
            return;
        }
        for (const { name } of Array.from(old.attributes)) {
            if (!fresh.hasAttribute(name) && !(name === "open" && old.localName === "details")) {
                old.removeAttribute(name);
            }
        }
        for (const { name, value } of fresh.attributes) {
            if (old.getAttribute(name) !== value) {
                old.setAttribute(name, value);
            }
        }
        const kept = new Map();
        const wanted = new Set(Array.from(fresh.children, key).filter(Boolean));
        for (const child of Array.from(old.children)) {
            if (wanted.has(key(child))) {
                kept.set(key(child), child);
            } else if (key(child)) {
                child.remove();
            }
        }
        let at = old.firstChild;
        for (const next of Array.from(fresh.childNodes)) {
            const same = kept.get(key(next)) ?? (at && !key(at) && !key(next) && at.nodeName === next.nodeName ? at : null);
            if (!same) {
                old.insertBefore(document.importNode(next, true), at);
            } else if (same === at) {
                at = at.nextSibling;
                liken(same, next);
            } else {
                old.insertBefore(same, at);
                liken(same, next);
            }
        }
        while (at) {
            const rest = at.nextSibling;
            at.remove();
            at = rest;
        }
    }

    async function look() {
        let answer, text;
        try {
            answer = await fetch(location.href, {
                credentials: "same-origin",
                redirect: "manual",
                signal: AbortSignal.timeout(10000),
            });
            text = await answer.text();
        } catch {
            return false;
        }
        if (answer.type === "opaqueredirect") {
            location.reload(); // logged out
            return true;
        }
        const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("echomq-live");
        if (!fresh || (!answer.ok && answer.status !== 404)) {
            return false;
        }
        localize(fresh);
        const atEnd = Array.from(live.querySelectorAll(".echomq-log"))
            .every((el) => el.scrollTop + el.clientHeight >= el.scrollHeight - 4);
        liken(live, fresh);
        if (atEnd) {
            live.querySelectorAll(".echomq-log").forEach((el) => { el.scrollTop = el.scrollHeight; });
        }
        count();
        return true;
    }

    if (live) {
        localize(document);
        count();
        live.querySelectorAll(".echomq-log").forEach((el) => { el.scrollTop = el.scrollHeight; });
        const seconds = Number(live.dataset.refresh);
        if (seconds > 0) {
            let timer = null;
            let looking = false;
            const turn = async function () {
                clearTimeout(timer);
                if (document.hidden || looking) {
                    return;
                }
                looking = true;
                away.hidden = await look();
                looking = false;
                timer = setTimeout(turn, seconds * 1000);
            };
            timer = setTimeout(turn, seconds * 1000);
            document.addEventListener("visibilitychange", turn);
        }
    }
}
