// Requests to the server that this page came from.

export class Refused extends Error {
  constructor(said) {
    super(said.message);
    this.said = said;
  }
}

async function answer(response) {
  const type = response.headers.get("content-type") || "";
  if (!type.startsWith("application/json")) throw new Refused({ message: await response.text() });
  const found = await response.json();
  if (!response.ok) throw new Refused(found.error);
  return found;
}

export async function get(path, given = {}) {
  return answer(await fetch(path + "?" + new URLSearchParams(given)));
}

export async function post(path, given) {
  const body = JSON.stringify(given);
  return answer(await fetch(path, { method: "POST", body, headers: { "content-type": "application/json" } }));
}

// Calls `fn(news)` whenever something has changed, and `state(text)` when the connection does. A page
// that nobody sees lets its connection go: a browser has only six for all the pages of a server.
export function listen(fn, state) {
  let stream = null;
  function start() {
    stream = new EventSource("/api/live");
    stream.onopen = () => state("live");
    stream.onmessage = (message) => fn(JSON.parse(message.data));
    stream.onerror = ({ target }) => state(target.readyState === EventSource.CLOSED ? "stopped" : "connecting");
  }
  function stop() {
    if (stream) stream.close();
    stream = null;
    state("paused");
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else if (!stream) start();
  });
  if (document.hidden) stop();
  else start();
}
