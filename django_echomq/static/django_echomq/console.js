// Refreshes what is live on a console page, and helps with selections. Every page works without it.
"use strict";
{
    const live = document.getElementById("echomq-live");
    const banner = document.getElementById("echomq-away");

    // Times in the reader's zone; the exact instant stays on hover.
    function localize(root) {
        const format = new Intl.DateTimeFormat(document.documentElement.lang || undefined, {
            dateStyle: "medium",
            timeStyle: "medium",
        });
        root.querySelectorAll("time[datetime]").forEach(function (el) {
            const at = new Date(el.dateTime);
            if (!Number.isNaN(at.getTime())) {
                el.textContent = format.format(at);
            }
        });
    }

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
            counter.textContent = chosen.length ? `${chosen.length} / ${all.length}` : "";
        }
        if (toggle) {
            toggle.checked = all.length > 0 && chosen.length === all.length;
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

    // An editor says at once when its text is not JSON of its kind.
    function fits(area) {
        try {
            const value = JSON.parse(area.value);
            const list = Array.isArray(value);
            return area.dataset.json === "list" ? list : !list && typeof value === "object" && value !== null;
        } catch {
            return false;
        }
    }
    document.addEventListener("input", function (event) {
        const form = event.target.closest(".echomq-edit");
        if (form) {
            const bad = Array.from(form.querySelectorAll("[data-json]")).filter((area) => !fits(area));
            form.querySelectorAll("[data-json]").forEach((area) => {
                area.setAttribute("aria-invalid", String(bad.includes(area)));
            });
            form.querySelector(".echomq-problem").hidden = bad.length === 0;
        }
    });

    // What the reader has chosen, opened or scrolled stays as it is over a refresh.
    function remember() {
        return {
            checked: new Set(boxes().filter((box) => box.checked).map((box) => box.value)),
            across: Boolean(live.querySelector("[name=select_across]:checked")),
            open: new Set(Array.from(live.querySelectorAll("details[open]"), (el) => el.id)),
            scrolled: Array.from(live.querySelectorAll(".results, .echomq-text"), (el) => [el.scrollLeft, el.scrollTop]),
            atEnd: Array.from(live.querySelectorAll(".echomq-log"), (el) => el.scrollTop + el.clientHeight >= el.scrollHeight - 4),
        };
    }

    function restore(seen) {
        boxes().forEach((box) => { box.checked = seen.checked.has(box.value); });
        const across = live.querySelector("[name=select_across]");
        if (across) {
            across.checked = seen.across;
        }
        live.querySelectorAll("details").forEach((el) => { el.open = seen.open.has(el.id); });
        live.querySelectorAll(".results, .echomq-text").forEach(function (el, n) {
            [el.scrollLeft, el.scrollTop] = seen.scrolled[n] || [0, 0];
        });
        live.querySelectorAll(".echomq-log").forEach(function (el, n) {
            if (seen.atEnd[n]) {
                el.scrollTop = el.scrollHeight;
            }
        });
        count();
    }

    function busy() {
        const active = document.activeElement;
        return live.contains(active) && active.matches("input:not([type=checkbox]), select, textarea");
    }

    async function refresh() {
        let answer;
        try {
            answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
        } catch {
            banner.hidden = false;
            return;
        }
        if (!answer.ok && answer.status !== 404) {
            banner.hidden = false;
            return;
        }
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("echomq-live");
        if (!fresh || busy()) {
            return;
        }
        banner.hidden = true;
        localize(fresh);
        if (fresh.innerHTML === live.innerHTML) {
            return;
        }
        const seen = remember();
        const focused = live.contains(document.activeElement) ? path(document.activeElement) : null;
        live.replaceChildren(...fresh.childNodes);
        restore(seen);
        if (focused) {
            const again = live.querySelector(focused);
            if (again) {
                again.focus({ preventScroll: true });
            }
        }
    }

    // A selector that finds the same element in the fresh page.
    function path(el) {
        const steps = [];
        for (let at = el; at && at !== live; at = at.parentElement) {
            const place = Array.prototype.indexOf.call(at.parentElement.children, at) + 1;
            steps.unshift(`${at.localName}:nth-child(${place})`);
        }
        return `:scope > ${steps.join(" > ")}`;
    }

    if (live) {
        localize(document);
        count();
        const seconds = Number(live.dataset.refresh);
        if (seconds > 0 && live.querySelector("form[method=post] [name=confirmed]") === null) {
            let timer = null;
            const turn = async function () {
                if (!document.hidden) {
                    await refresh();
                }
                timer = setTimeout(turn, seconds * 1000);
            };
            timer = setTimeout(turn, seconds * 1000);
            document.addEventListener("visibilitychange", function () {
                if (!document.hidden) {
                    clearTimeout(timer);
                    turn();
                }
            });
        }
    }
}
