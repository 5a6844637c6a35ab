// The pods as squares, by pool and node. The pause line is across all nodes: what is right of it waits.
//
// A pod keeps its node in the page. An update touches only the pods that change, and the rows whose order changes. What
// takes longer than a part of a frame goes on in the next one, so that the page answers meanwhile.

import { $, el, text, tip, untip } from './dom.js';
import { Pod } from './pod.js';

/** How long one frame draws squares, in milliseconds. */
const SLICE = 12;
/** How far a column may be from the width that its pods need, as a part of it: a new width moves all squares. */
const SLACK = 0.15;
const ZONES = ['updated', 'ahead', 'waits'];
const place = (zone) => (zone === 'leaving' ? 'ahead' : zone);
const rowKey = (pool, node) => `${pool ?? ''}\n${node ?? ''}`;

export class Pods {
  pods = new Map();
  order = [];
  places = new Map();
  nodes = [];
  head = null;
  squares = new Map();
  rows = new Map();
  stale = new Set();
  shares = {};
  focused = null;
  readOnly = false;

  constructor(act) {
    this.inspector = new Pod(act);
    this.box = el('div', { role: 'listbox', class: 'rows', 'aria-label': 'Pods in deletion order' });
    this.titles = el('div', { class: 'titles', 'aria-hidden': 'true' });
    this.line = el('p', { class: 'line', id: 'line' });
    $('board').append(this.line, this.titles, this.box);
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.box.addEventListener('focusin', ({ target }) => this.focus(target));
    this.box.addEventListener('focusout', ({ target }) => untip(target));
    this.box.addEventListener('pointerover', ({ target }) => target.dataset.pod !== undefined && this.tell(target));
    this.box.addEventListener('pointerout', ({ target }) => document.activeElement !== target && untip(target));
    this.box.addEventListener('click', ({ target }) => target.dataset.pod !== undefined && this.select(target));
    legend();
  }

  show() {
    this.clear();
    this.inspector.select(null);
  }

  clear() {
    this.pods.clear();
    this.order = [];
    this.nodes = [];
    this.squares.clear();
    this.rows.clear();
    this.stale.clear();
    this.shares = {};
    this.focused = null;
    this.box.replaceChildren();
  }

  update(delta) {
    if (delta.head) this.head = delta.head;
    for (const name of delta.gone ?? []) {
      this.pods.delete(name);
      this.squares.get(name)?.remove();
      this.squares.delete(name);
    }
    for (const pod of delta.pods ?? []) {
      this.pods.set(pod.name, pod);
      this.stale.add(pod.name);
    }
    if (delta.nodes) this.nodes = delta.nodes;
    if (delta.order) {
      this.order = delta.order;
      this.places = new Map(delta.order.map((name, index) => [name, index + 1]));
    }
    return Boolean(delta.head || delta.gone || delta.pods || delta.nodes || delta.order);
  }

  /** Draws for a part of a frame. Returns whether something is left for the next one. */
  draw() {
    const end = performance.now() + SLICE;
    for (const name of this.stale) {
      if (performance.now() > end) return true;
      const pod = this.pods.get(name);
      if (pod) this.drawPod(pod);
      this.stale.delete(name);
    }
    const active = document.activeElement;
    this.drawRows();
    const unfinished = this.arrange(end);
    // A node that moves loses the focus.
    if (active !== document.activeElement && this.box.contains(active)) active.focus({ preventScroll: true });
    this.drawLine();
    const selected = this.inspector.name && this.pods.get(this.inspector.name);
    this.inspector.draw(selected, this.places.get(selected?.name), this.order.length, this.readOnly);
    if (!this.focused || !this.squares.has(this.focused)) this.rove(this.box.querySelector('[role=option]'));
    return unfinished;
  }

  drawPod(pod) {
    let square = this.squares.get(pod.name);
    if (!square) {
      square = el('div', { role: 'option', tabindex: '-1', 'aria-selected': 'false', 'data-pod': pod.name });
      this.squares.set(pod.name, square);
    }
    const point = pod.point ? ` point-${pod.point}` : '';
    const shape = `square ${pod.current ? 'new' : 'old'} ${pod.zone} ${pod.health}${point}`;
    if (square.className !== shape) square.className = shape;
    const which = pod.current ? 'current revision' : 'old revision';
    const pause = pod.point ? `, pause point ${pod.point} it` : '';
    const label = `${pod.name}, ${which} ${pod.revision}, ${pod.status}${pause}`;
    if (square.getAttribute('aria-label') !== label) square.setAttribute('aria-label', label);
  }

  /** One row for each node, under the name of its pool. */
  drawRows() {
    const wanted = new Set(this.nodes.map(({ pool, node }) => rowKey(pool, node)));
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        row.node.remove();
        this.rows.delete(key);
      }
    }
    this.nodes.forEach(({ pool, node }, index) => {
      const key = rowKey(pool, node);
      if (!this.rows.has(key)) this.rows.set(key, row(pool, node));
      const { node: element } = this.rows.get(key);
      if (this.box.children[index] !== element) this.box.insertBefore(element, this.box.children[index] ?? null);
      const first = index === 0 || this.nodes[index - 1].pool !== pool;
      element.classList.toggle('first-of-pool', first);
    });
  }

  /** Puts each square into its row and zone, in the order. Returns whether rows are left when the time is over. */
  arrange(end) {
    const cells = new Map();
    const put = (pod) => {
      const key = rowKey(pod.pool, pod.node);
      if (!cells.has(key)) cells.set(key, { updated: [], ahead: [], waits: [] });
      cells.get(key)[place(pod.zone)].push(pod.name);
    };
    const counts = { updated: 0, ahead: 0, waits: 0 };
    for (const pod of this.pods.values()) {
      counts[place(pod.zone)] += 1;
      if (!this.places.has(pod.name)) put(pod);
    }
    for (const name of this.order) {
      const pod = this.pods.get(name);
      if (pod) put(pod);
    }
    this.widths(counts);
    for (const [key, { zones, shown }] of this.rows) {
      let filled = false;
      const cell = cells.get(key) ?? { updated: [], ahead: [], waits: [] };
      for (const zone of ZONES) {
        const names = cell[zone];
        const before = shown[zone];
        const box = zones[zone];
        const same = before.length === names.length && before.every((name, index) => name === names[index]);
        if (same && box.children.length === names.length) continue;
        shown[zone] = names;
        fill(box, names.map((name) => this.squares.get(name)));
        filled = true;
      }
      // After a row that differs: each frame gets further, also if the time is over before the first row.
      if (filled && performance.now() > end) return true;
    }
    return false;
  }

  /** The columns are as wide as their pods need. */
  widths(counts) {
    const board = $('board');
    const { rolling, line } = this.head;
    const shown = { updated: rolling || counts.updated > 0, ahead: true, waits: Boolean(line) };
    for (const zone of ZONES) {
      board.classList.toggle(`no-${zone}`, !shown[zone]);
      const needed = shown[zone] ? Math.max(counts[zone], this.pods.size / 8, 1) : 0;
      // There is no share at first, and NaN is not within the slack.
      if (Math.abs(this.shares[zone] - needed) <= SLACK * needed) continue;
      this.shares[zone] = needed;
      board.style.setProperty(`--${zone}`, needed ? `minmax(5.3rem, ${needed}fr)` : '0px');
    }
    board.classList.toggle('dense', this.pods.size > 400);
    board.classList.toggle('denser', this.pods.size > 2000);
    const titles = {
      updated: `Updated ${counts.updated}`,
      ahead: `${rolling ? 'Next' : 'In order'} ${counts.ahead}`,
      waits: `${line?.reached ? 'Waits' : 'After the pause'} ${counts.waits}`,
    };
    if (!this.titles.children.length) {
      this.titles.append(el('span'), ...ZONES.map((zone) => el('span', { class: `title-${zone}` })));
    }
    ZONES.forEach((zone, index) => text(this.titles.children[index + 1], titles[zone]));
  }

  drawLine() {
    const { line } = this.head;
    this.line.hidden = !line;
    text(this.line, line ? `‖ ${line.text}` : '');
    $('board').classList.toggle('reached', Boolean(line?.reached));
  }

  /** The reason on hover and on focus. */
  tell(square) {
    const pod = this.pods.get(square.dataset.pod);
    if (pod) tip(square, this.inspector.lines(pod, this.places.get(pod.name), this.order.length));
  }

  /** One square can be reached by Tab; the arrows go on from there. */
  rove(square) {
    if (this.focused) this.squares.get(this.focused)?.setAttribute('tabindex', '-1');
    this.focused = square?.dataset.pod ?? null;
    square?.setAttribute('tabindex', '0');
  }

  focus(square) {
    if (square.dataset.pod === undefined) return;
    this.rove(square);
    this.tell(square);
  }

  select(square) {
    this.box.querySelector('[aria-selected=true]')?.setAttribute('aria-selected', 'false');
    square.setAttribute('aria-selected', 'true');
    this.inspector.select(square.dataset.pod);
    const pod = this.pods.get(square.dataset.pod);
    this.inspector.draw(pod, this.places.get(pod?.name), this.order.length, this.readOnly);
  }

  key(event) {
    const square = event.target;
    if (square.dataset.pod === undefined) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      return this.select(square);
    }
    const next = this.neighbor(square, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  neighbor(square, key) {
    const inRow = (element) => [...element.querySelectorAll('[role=option]')];
    const row = square.closest('.row');
    const all = inRow(this.box);
    const at = all.indexOf(square);
    const column = inRow(row).indexOf(square);
    const vertical = (step) => {
      for (let other = row[step]; other; other = other[step]) {
        const squares = inRow(other);
        if (squares.length) return squares[Math.min(column, squares.length - 1)];
      }
      return null;
    };
    switch (key) {
      case 'ArrowRight': return all[at + 1];
      case 'ArrowLeft': return all[at - 1];
      case 'ArrowDown': return vertical('nextElementSibling');
      case 'ArrowUp': return vertical('previousElementSibling');
      case 'Home': return all[0];
      case 'End': return all[all.length - 1];
      default: return null;
    }
  }
}

/** Makes these nodes the children, in this order. A node that moves costs one step, whichever way it moves. */
function fill(box, nodes) {
  if (!box.firstChild) return box.append(...nodes);
  let next = box.firstChild;
  for (const node of nodes) {
    if (node === next) {
      next = next.nextSibling;
    } else if (next && next.nextSibling === node) {
      // The one before it has moved back: it comes again later.
      next.remove();
      next = node.nextSibling;
    } else {
      box.insertBefore(node, next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

function row(pool, node) {
  const name = node ?? 'no node';
  const zones = Object.fromEntries(ZONES.map((zone) => [zone, el('div', { class: `zone zone-${zone}`, role: 'presentation' })]));
  const label = el('div', { class: 'node', role: 'presentation' },
    el('bdi', { class: 'word', text: name }), pool ? el('bdi', { class: 'pool word', text: pool }) : '');
  const element = el('div', { class: 'row', role: 'group', 'aria-label': pool ? `node ${name}, pool ${pool}` : `node ${name}` },
    label, ...Object.values(zones));
  return { node: element, zones, shown: { updated: [], ahead: [], waits: [] } };
}

function legend() {
  const all = [
    ['old ready', 'old revision'],
    ['new ready', 'current revision'],
    ['new starting', 'not ready'],
    ['old failing', 'failing'],
    ['old inactive', 'terminating'],
    ['old ready point-before', 'pause point'],
  ];
  $('legend').append(...all.map(([shape, name]) => el('li', {}, el('span', { class: `square ${shape}`, 'aria-hidden': 'true' }), name)));
}
