// Shows fresh figures: every second while work goes on, every five seconds otherwise.
const live = document.getElementById("live");

async function refresh() {
  if (!document.hidden) {
    try {
      const response = await fetch(live.dataset.url);
      if (!response.ok) throw new Error(response.statusText);
      live.innerHTML = await response.text();
      live.classList.remove("stale");
    } catch {
      live.classList.add("stale"); // the site is away: keep what is there, ask again
    }
  }
  plan();
}

function plan() {
  const busy = live.querySelector("[data-busy=yes]");
  setTimeout(refresh, busy ? 1000 : 5000);
}

plan();
