// The page: the session, the stream of events, and which object is shown. The server computes what the parts show.

import { $, clock, text, toast, untip } from './dom.js';
import { List } from './list.js';
import { Head } from './head.js';
import { Pods } from './pods.js';
import { Timeline } from './timeline.js';
import { History } from './history.js';

/** Without an event for this time, the dashboard does not run. */
const SILENCE = 15000;
const STORED = 'ordered-dashboard';

let session = null;
let source = null;
let shown = null;
let heard = 0;
let stopped = null;
let lost = null;
/** The next events are whole states. */
let fresh = { list: true, object: true };
let frame = 0;
const dirty = new Set();

const list = new List();
const head = new Head(act);
const pods = new Pods(act);
const timeline = new Timeline(plan);
const history = new History(() => head);
const parts = { list, head, pods, timeline, history };

/** Exchanges the token of the address for a cookie; a reload and a further page use that of before. */
async function enter() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  const stored = JSON.parse(localStorage.getItem(STORED));
  if (!token) return stored;
  const object = fragment.get('object');
  window.history.replaceState(null, '', object ? `#/${object}` : location.pathname);
  const answer = await fetch('/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  // A token works once. The other pages of this browser have the cookie.
  if (answer.status === 410 && stored) return stored;
  if (!answer.ok) throw new Error(await answer.text());
  const found = await answer.json();
  localStorage.setItem(STORED, JSON.stringify(found));
  return found;
}

/** The object in the address: `#/shop/web`. */
function chosen() {
  const [namespace, name] = location.hash.replace(/^#\//, '').split('/').map(decodeURIComponent);
  return namespace && name ? { namespace, name } : null;
}


function same(one, other) {
  return one?.namespace === other?.namespace && one?.name === other?.name;
}

/** Opens the stream of events for the object in the address. */
function open() {
  source?.close();
  $('confirm').close();
  shown = chosen();
  untip();
  for (const part of Object.values(parts)) part.show?.(shown);
  $('object').hidden = true;
  $('empty').hidden = false;
  text($('empty'), shown ? 'Loading' : 'Choose an OrderedDeployment.');
  document.title = shown ? `${shown.name} · OrderedDeployments` : 'OrderedDeployments';
  const path = shown ? `/${encodeURIComponent(shown.namespace)}/${encodeURIComponent(shown.name)}` : '';
  source = new EventSource(`${session.folder}/events${path}`);
  source.onopen = () => {
    fresh = { list: true, object: true };
    hear();
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) refused();
    else stop();
  };
  source.addEventListener('server', ({ data }) => {
    lost = JSON.parse(data).lost;
    hear();
  });
  source.addEventListener('list', ({ data }) => {
    const delta = JSON.parse(data);
    if (fresh.list) list.clear();
    fresh.list = false;
    list.take(delta);
    changed('list');
  });
  source.addEventListener('object', ({ data }) => {
    const delta = JSON.parse(data);
    if (delta.missing) return missing();
    if (fresh.object) {
      pods.clear();
      head.show(shown);
      history.show();
    }
    fresh.object = false;
    $('object').hidden = false;
    $('empty').hidden = true;
    for (const [name, part] of Object.entries(parts)) if (part.update?.(delta)) changed(name);
  });
}

/** Draws a part in the next frame. What is left of it is drawn in the frame after. */
function changed(name) {
  dirty.add(name);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const drawn = [...dirty];
    dirty.clear();
    for (const part of drawn) if (parts[part].draw()) changed(part);
  });
}

function missing() {
  // An object that is created again comes whole.
  fresh.object = true;
  $('object').hidden = true;
  $('empty').hidden = false;
  text($('empty'), `There is no OrderedDeployment ${shown.name} in ${shown.namespace}.`);
}

function hear() {
  heard = Date.now();
  stopped = null;
  banner();
}

function stop() {
  stopped ??= heard || Date.now();
  banner();
}

/** The dashboard answers, but not with events: it is another one, with another token, or too many pages are open. */
function refused() {
  source = null;
  ended('This page belongs to a dashboard that has ended, or too many pages are open. Open the address that kubectl ordered dashboard printed last.');
}

function ended(message) {
  $('columns').classList.add('old');
  text($('live'), 'Ended');
  $('live').dataset.tone = 'bad';
  $('banner').hidden = false;
  text($('banner'), message);
}

/** Says whether what the page shows is current. */
function banner() {
  const message = stopped
    ? `The dashboard does not answer since ${clock(stopped)}. Has it stopped? Run kubectl ordered dashboard again, and open its new address. The page shows the last known state.`
    : lost && `The API server does not answer since ${clock(lost.since)}: ${lost.error}. The page shows the last known state, and continues by itself.`;
  $('banner').hidden = !message;
  text($('banner'), message || '');
  $('columns').classList.toggle('old', Boolean(message));
  text($('live'), stopped ? 'Stopped' : lost ? 'Connection lost' : 'Live');
  $('live').dataset.tone = message ? 'bad' : 'good';
}

/** Requests a write of the shown object. Shows what the command prints. */
async function act(request, object = shown) {
  const answer = await fetch(`${session.folder}/act`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...object, act: request }),
  }).catch(() => null);
  if (!answer) return toast('The dashboard does not answer.', true);
  const said = await answer.json().catch(() => ({ error: `The dashboard refuses the request: ${answer.status}` }));
  if (answer.ok) toast(said);
  else toast(said.error, true);
  return answer.ok;
}

/** The plan of the shown object; with an image, of a rollout to it. */
async function plan(image) {
  const object = shown;
  const path = `${encodeURIComponent(object.namespace)}/${encodeURIComponent(object.name)}`;
  const query = image ? `?image=${encodeURIComponent(image)}` : '';
  const answer = await fetch(`${session.folder}/plan/${path}${query}`);
  const said = await answer.json();
  if (!same(object, shown)) return null;
  if (!answer.ok) throw new Error(said.error);
  return said;
}

async function start() {
  try {
    session = await enter();
  } catch (error) {
    return ended(error.message);
  }
  if (!session) return ended('Open the address that kubectl ordered dashboard printed: it contains a token.');
  text($('scope'), session.namespace ? `namespace ${session.namespace}` : 'all namespaces');
  $('read-only').hidden = !session.readOnly;
  list.namespaces = !session.namespace;
  pods.readOnly = session.readOnly;
  addEventListener('hashchange', () => {
    if (new URLSearchParams(location.hash.slice(1)).has('token')) location.reload();
    else if (!same(chosen(), shown)) open();
  });
  $('skip').addEventListener('click', (event) => {
    event.preventDefault();
    $('main').focus();
  });
  setInterval(() => source && Date.now() - heard > SILENCE && stop(), 1000);
  open();
}

start();
