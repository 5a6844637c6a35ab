// One pod: the text of its tooltip, its details, and its marks.

import { $, el, moment, tipped, toast } from './dom.js';

export class Pod {
  name = null;
  shown = '';
  inputs = null;

  constructor(act) {
    this.act = act;
  }

  select(name) {
    this.name = name;
    this.shown = '';
    if (!name) $('inspector').hidden = true;
  }

  /** The lines of the tooltip. */
  lines(pod, place, all) {
    const where = place ? `number ${place} of ${all} in the order` : pod.zone === 'updated' ? 'of the current revision: this rollout does not delete it' : 'not in the order';
    return [
      pod.name,
      `${where}${pod.why ? `: ${pod.why}` : ''}`,
      `${pod.status}, ${pod.containers} containers ready${pod.restarts ? `, ${pod.restarts} restarts` : ''}`,
      pod.point && `pause point ${pod.point} this pod`,
      pod.zone === 'waits' && 'waits until the pause point is passed',
      pod.node ? `node ${pod.node}${pod.pool ? `, pool ${pod.pool}` : ''}` : 'no node',
    ];
  }

  draw(pod, place, all, readOnly) {
    const box = $('inspector');
    if (!this.name) return;
    if (!pod) {
      box.hidden = false;
      box.replaceChildren(el('p', { class: 'quiet', text: `The pod ${this.name} is gone.` }));
      this.shown = '';
      return;
    }
    const state = JSON.stringify([pod, place, all]);
    if (state === this.shown) return;
    const details = el('dl', { class: 'details' }, ...[
      ['Place', place ? `${place} of ${all}` : '–'],
      ['Why', pod.why ?? '–'],
      ['Revision', `${pod.revision}${pod.current ? ' (current)' : ' (old)'}`],
      ['Status', `${pod.status}, ${pod.containers} containers ready, ${pod.restarts} restarts`],
      ['Node', pod.node ? `${pod.node}${pod.pool ? ` (${pod.pool})` : ''}` : '–'],
      ['Priority', String(pod.priority)],
      ['Pause point', pod.point ? `${pod.point} this pod` : 'none'],
      ['Created', moment(pod.created)],
    ].map(([name, value]) => el('div', {}, el('dt', { text: name }), el('dd', {}, el('bdi', { text: value })))));
    // A form that the user fills in stays.
    if (!this.shown || this.form?.dataset.pod !== pod.name) this.form = readOnly ? null : this.marks(pod);
    this.shown = state;
    box.hidden = false;
    box.querySelector('.details')?.remove();
    const old = box.querySelector('h3');
    if (old?.textContent === pod.name && this.form === box.querySelector('form')) {
      old.after(details);
      return;
    }
    box.replaceChildren(el('h3', {}, el('bdi', { text: pod.name })), details, this.form ?? '');
  }

  marks(pod) {
    const priority = el('input', { type: 'number', id: 'mark-priority', min: '-2147483648', max: '2147483647', placeholder: String(pod.priority) });
    const pause = el('select', { id: 'mark-pause' }, ...[['', 'unchanged'], ['before', 'before it'], ['after', 'after it']]
      .map(([value, name]) => el('option', { value, text: name })));
    const length = el('input', { id: 'mark-length', placeholder: 'until resumed', autocomplete: 'off' });
    const mark = el('button', { type: 'submit', text: 'Mark' });
    const unmark = el('button', { type: 'button', text: 'Unmark' });
    for (const button of [mark, unmark]) {
      tipped(button, () => [`kubectl ordered ${button === mark ? 'mark' : 'unmark'} ${pod.name}`]);
    }
    const form = el('form', { class: 'inline', 'data-pod': pod.name, 'aria-label': 'Marks of the pod' },
      el('label', { for: 'mark-priority', text: 'Priority' }), priority,
      el('label', { for: 'mark-pause', text: 'Pause' }), pause,
      el('label', { for: 'mark-length', text: 'for' }), length, mark, unmark);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (priority.value === '' && !pause.value) return toast('Set a priority or a pause point.', true);
      this.act({
        action: 'mark', pod: pod.name,
        priority: priority.value === '' ? null : Number(priority.value),
        pause: pause.value || null,
        length: length.value.trim() || null,
      });
    });
    unmark.addEventListener('click', () => this.act({ action: 'unmark', pod: pod.name }));
    return form;
  }
}
