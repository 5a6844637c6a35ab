// The list of all OrderedDeployments.

import { $, el, text } from './dom.js';

const key = (namespace, name) => `${namespace}/${name}`;

export class List {
  rows = new Map();
  items = new Map();
  namespaces = false;
  shown = null;

  constructor() {
    $('filter').addEventListener('input', () => this.draw());
  }

  clear() {
    this.rows.clear();
  }

  show(object) {
    this.shown = object && key(object.namespace, object.name);
    this.draw();
  }

  take({ rows, gone }) {
    for (const [namespace, name] of gone) this.rows.delete(key(namespace, name));
    for (const row of rows) this.rows.set(key(row.namespace, row.name), row);
  }

  draw() {
    const wanted = $('filter').value.trim().toLowerCase();
    const all = [...this.rows.values()].sort((one, other) => compare(one, other));
    const rows = all.filter((row) => !wanted || describe(row).toLowerCase().includes(wanted));
    const paused = all.filter((row) => row.paused).length;
    text($('list-count'), `${all.length}${paused ? `, ${paused} paused` : ''}`);
    for (const [name, item] of this.items) {
      if (!this.rows.has(name)) {
        item.node.remove();
        this.items.delete(name);
      }
    }
    const nodes = rows.map((row) => this.item(row));
    const list = $('rows');
    if (nodes.length !== list.children.length || nodes.some((node, index) => list.children[index] !== node)) {
      list.replaceChildren(...nodes);
    }
    if (!all.length) text($('list-count'), 'none');
  }

  item(row) {
    const name = key(row.namespace, row.name);
    let item = this.items.get(name);
    if (!item) {
      const link = el('a', { href: `#/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}` });
      item = { node: el('li', {}, link), link, row: null };
      this.items.set(name, item);
    }
    if (item.row !== row) {
      item.row = row;
      const since = row.paused ? ` for ${row.paused}` : '';
      item.link.replaceChildren(
        el('span', { class: 'row-name' },
          el('span', { class: 'mark', text: row.mark, 'data-tone': row.tone, 'aria-hidden': 'true' }),
          el('bdi', { class: 'word', text: row.name }),
          this.namespaces ? el('bdi', { class: 'quiet word', text: row.namespace }) : ''),
        el('span', { class: 'row-state', 'data-tone': row.tone }, el('bdi', { text: `${row.state}${since}` })),
        el('span', { class: 'quiet', text: `${row.updated}/${row.desired} updated, ${row.available} available` }));
    }
    if (name === this.shown) item.link.setAttribute('aria-current', 'page');
    else item.link.removeAttribute('aria-current');
    return item.node;
  }
}

const describe = (row) => `${row.namespace}/${row.name} ${row.state} ${row.images.join(' ')}`;

function compare(one, other) {
  const [first, second] = [key(one.namespace, one.name), key(other.namespace, other.name)];
  return first < second ? -1 : first > second ? 1 : 0;
}
