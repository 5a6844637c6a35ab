// The state of the shown object in words and numbers, and the buttons.

import { $, confirmed, el, text, tipped, toast } from './dom.js';

export class Head {
  head = null;
  buttons = [];
  nodes = new Map();

  constructor(act) {
    this.act = act;
  }

  show(object) {
    this.object = object;
    this.head = null;
    this.buttons = [];
  }

  update(delta) {
    if (delta.head) this.head = delta.head;
    if (delta.buttons) this.buttons = delta.buttons;
    return Boolean(delta.head || delta.buttons);
  }

  /** The button of an action. */
  button(action) {
    return this.buttons.find((button) => button.action === action);
  }

  draw() {
    const { head } = this;
    if (!head) return;
    $('name').replaceChildren(el('bdi', { text: head.name }), el('small', {}, el('bdi', { text: ` in ${head.namespace}` })));
    const state = $('state');
    state.dataset.tone = head.tone;
    text(state, `${head.mark} ${head.state}`);
    optional($('detail'), head.detail);
    const part = head.desired ? Math.min(1, head.updated / head.desired) : 1;
    $('meter-updated').style.width = `${part * 100}%`;
    $('meter').setAttribute('aria-label', `${head.updated} of ${head.desired} pods updated`);
    counts(head);
    text($('strategy'), `${head.counts}. ${head.strategy}`);
    lines($('notes'), head.notes.map((note) => el('li', {}, el('bdi', { text: note }))));
    lines($('commands'), head.commands.map(([what, command]) => el('li', {}, `${what} `, el('code', { text: command }))));
    this.drawButtons();
  }

  drawButtons() {
    $('buttons').hidden = !this.buttons.length;
    const nodes = this.buttons.map((button) => this.node(button));
    const now = [...$('buttons').children];
    if (nodes.length !== now.length || nodes.some((node, index) => node !== now[index])) {
      $('buttons').replaceChildren(...nodes);
    }
  }

  /** The node of a button. It stays the same while the action is shown: it keeps the focus. */
  node({ action, label, reason }) {
    // A pause and its end take turns at one place.
    const place = action === 'unpause' ? 'pause' : action;
    let node = this.nodes.get(place);
    if (!node) {
      node = el('button', { type: 'button' });
      node.addEventListener('click', () => this.press(node.dataset.action));
      tipped(node, () => this.explain(node.dataset.action));
      this.nodes.set(place, node);
    }
    node.dataset.action = action;
    text(node, label);
    // It stays focusable, so that the reason can be read.
    node.setAttribute('aria-disabled', String(Boolean(reason)));
    node.classList.toggle('primary', action === 'resume' && !reason);
    return node;
  }

  explain(action) {
    const button = this.button(action);
    return button ? [button.reason, button.command] : [];
  }

  async press(action) {
    const button = this.button(action);
    if (!button) return;
    if (button.reason) return toast(button.reason, true);
    await this.run(button, action);
  }

  /** Asks if needed, then writes. */
  async run(button, action, more = {}) {
    const { label, confirm, command, hold, revision } = { ...button, ...more };
    // The page can show another object by the time the user confirms.
    const object = this.object;
    if (confirm && !(await confirmed(label, confirm, command))) return;
    const request = { action };
    if (action === 'resume') request.hold = hold;
    // The revision that the user has seen. The server refuses the request if the rollout is another one by now.
    else if (revision !== null) request.revision = revision;
    const node = this.nodes.get(action === 'unpause' ? 'pause' : action);
    node?.setAttribute('aria-busy', 'true');
    await this.act(request, object);
    node?.removeAttribute('aria-busy');
  }
}

function optional(node, value) {
  node.hidden = !value;
  text(node, value ?? '');
}

function lines(list, items) {
  list.hidden = !items.length;
  list.replaceChildren(...items);
}

function counts(head) {
  const all = [['Desired', head.desired], ['Updated', head.updated], ['Ready', head.ready], ['Available', head.available]];
  const list = $('counts');
  if (!list.children.length) {
    list.append(...all.map(([name]) => el('div', {}, el('dt', { text: name }), el('dd'))));
  }
  all.forEach(([, value], index) => text(list.children[index].lastElementChild, String(value)));
}
