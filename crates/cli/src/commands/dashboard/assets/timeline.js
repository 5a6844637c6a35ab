// The plan as a timeline: how many pods are deleted by when, and the numbers at each pause point.

import { $, el, svg } from './dom.js';

/** A plan is computed again at most this often. */
const PAUSE = 5000;

export class Timeline {
  wanted = null;
  image = '';
  timer = 0;
  running = false;
  again = false;

  constructor(fetchPlan) {
    this.fetchPlan = fetchPlan;
    $('plan-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.image = $('plan-image').value.trim();
      this.load();
    });
  }

  show() {
    this.wanted = null;
    this.image = '';
    $('plan-image').value = '';
    $('plan').replaceChildren(el('p', { class: 'quiet', text: 'Computing the plan' }));
  }

  update(delta) {
    const next = delta.head?.plan;
    if (!next || next === this.wanted) return false;
    this.wanted = next;
    return true;
  }

  draw() {
    if (this.timer) return;
    this.load();
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.loaded !== this.wanted) this.load();
    }, PAUSE);
  }

  async load() {
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = true;
    this.again = false;
    this.loaded = this.wanted;
    try {
      const plan = await this.fetchPlan(this.image);
      if (plan) this.drawPlan(plan);
    } catch (error) {
      $('plan').replaceChildren(el('p', { class: 'bad', text: error.message }));
    }
    this.running = false;
    if (this.again) await this.load();
  }

  drawPlan(plan) {
    const nothing = !plan.deletions && !plan.pauses.length;
    const parts = [el('p', {}, el('strong', { text: plan.summary }), ` ${plan.outcome}`)];
    if (!nothing) parts.push(chart(plan));
    if (plan.pauses.length) parts.push(table(plan));
    parts.push(...plan.notes.map((note) => el('p', { class: 'note', text: note })));
    if (!nothing) {
      parts.push(el('details', {}, el('summary', { text: 'What is guaranteed, and what is assumed' }),
        el('p', { text: `Guaranteed: ${plan.guaranteed}.` }),
        el('p', { text: 'Assumed:' }),
        el('ul', {}, ...plan.assumptions.map((line) => el('li', { text: line })))));
    }
    $('plan').replaceChildren(...parts);
  }
}

function chart(plan) {
  const [width, height] = [1000, 100];
  const end = Math.max(plan.seconds, 1);
  const x = (seconds) => (seconds / end) * width;
  const y = (deleted) => height - (deleted / Math.max(plan.deletions, 1)) * (height - 6);
  let path = `M0 ${height}`;
  for (const [seconds, deleted] of plan.curve) path += `H${x(seconds)}V${y(deleted)}`;
  path += `H${width}`;
  const bands = plan.pauses.map((pause) => svg('rect', {
    class: 'band', x: x(pause.seconds), y: 0, height, width: Math.max(x(pause.until ?? end) - x(pause.seconds), 3),
  }));
  const drawing = svg('svg', {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', class: 'chart',
    'aria-label': `${plan.deletions} pods are deleted within ${Math.round(plan.seconds)} seconds, with ${plan.pauses.length} pauses`,
  }, ...bands, svg('path', { class: 'fill', d: `${path}V${height}Z` }), svg('path', { class: 'curve', d: path }));
  const labels = plan.pauses.map((pause, index) => {
    const label = el('span', { class: 'pause', text: `‖ ${index + 1}`, 'aria-hidden': 'true' });
    label.style.left = `${(pause.seconds / end) * 100}%`;
    return label;
  });
  const axis = el('p', { class: 'axis quiet' }, el('span', { text: 'now' }), el('span', { text: `${Math.round(plan.seconds)} s` }));
  return el('div', { class: 'timeline' }, el('div', { class: 'labels' }, ...labels), drawing, axis);
}

function table(plan) {
  const head = ['', 'After', 'Pause point', 'Updated', 'Available', 'Deleted', 'Ends'];
  const cell = (value) => el('td', {}, el('bdi', { text: String(value) }));
  const rows = plan.pauses.map((pause, index) => el('tr', {},
    el('th', { scope: 'row', text: `‖ ${index + 1}` }),
    cell(pause.after), cell(pause.place), cell(`${pause.updated} of ${pause.desired}`), cell(pause.available),
    cell(`${pause.deleted} of ${plan.deletions}`), cell(pause.ends)));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Pauses of the plan' },
    el('table', {}, el('thead', {}, el('tr', {}, ...head.map((name) => el('th', { scope: 'col', text: name || '#' })))), el('tbody', {}, ...rows)));
}
