// The revisions, and the last holds, resumes, aborts and retries.

import { $, el, moment } from './dom.js';

export class History {
  revisions = [];
  entries = [];

  constructor(head) {
    this.head = head;
  }

  show() {
    this.revisions = [];
    this.entries = [];
  }

  update(delta) {
    if (delta.revisions) this.revisions = delta.revisions;
    if (delta.history) this.entries = delta.history;
    // The buttons of the revisions follow that of the toolbar.
    return Boolean(delta.revisions || delta.history || delta.buttons);
  }

  draw() {
    const undo = this.head().button('undo');
    const revisions = this.revisions.map((revision) => [
      `${revision.number}${revision.current ? ' (current)' : ''}`, revision.pods, revision.images.join(', '),
      revision.cause ?? '–', moment(revision.created), this.back(revision, undo),
    ]);
    const entries = this.entries.map((entry) => [moment(entry.at), entry.action, entry.revision, entry.id ?? '–', entry.reason]);
    $('history').replaceChildren(
      table('Revisions', ['Revision', 'Pods', 'Images', 'Change cause', 'Created', 'Roll back'], revisions),
      entries.length
        ? table('Holds, resumes, aborts and retries', ['Time', 'Action', 'Revision', 'Pause point', 'Reason'], entries)
        : el('p', { class: 'quiet', text: 'No holds, resumes, aborts or retries yet.' }));
  }

  back(revision, undo) {
    if (!undo || revision.current) return '';
    const label = `Undo to revision ${revision.number}`;
    const button = el('button', { type: 'button', text: `Undo to ${revision.number}` });
    button.setAttribute('aria-disabled', String(Boolean(undo.reason)));
    const command = undo.command.replace('undo ', `undo --to-revision ${revision.number} `);
    button.addEventListener('click', () => {
      if (undo.reason) return this.head().press('undo');
      return this.head().run(undo, 'undo', { label, confirm: revision.confirm, command, revision: revision.number });
    });
    return button;
  }
}

function table(name, head, rows) {
  const cell = (value) => el('td', {}, value instanceof Node ? value : el('bdi', { text: String(value) }));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name },
    el('table', {}, el('caption', { text: name }),
      el('thead', {}, el('tr', {}, ...head.map((title) => el('th', { scope: 'col', text: title })))),
      el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map(cell))))));
}
