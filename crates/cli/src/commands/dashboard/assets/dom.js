// Elements, the tooltip, messages and the dialog. Text is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children. `class`, `text` and `on` are special; other keys are attributes. */
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  set(node, options);
  node.append(...children);
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

/** An element of a drawing. */
export function svg(tag, options = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  set(node, options);
  node.append(...children);
  return node;
}

function set(node, options) {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'text') node.textContent = value;
    else if (key === 'on') for (const [name, act] of Object.entries(value)) node.addEventListener(name, act);
    else node.setAttribute(key, value === true ? '' : value);
  }
}

/** Sets the text of a node if it differs: a live region announces only what changes. */
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

/** The time of day. */
export const clock = (time) => new Date(time).toLocaleTimeString();

/** The date and the time. */
export const moment = (time) => (time ? new Date(time).toLocaleString() : '–');

let owner = null;

/** Shows a tooltip at a node; `lines` are its texts. */
export function tip(node, lines) {
  const box = $('tip');
  if (owner && owner !== node) owner.removeAttribute('aria-describedby');
  owner = node;
  box.replaceChildren(...lines.filter(Boolean).map((line, index) => el('p', { text: line, class: index ? null : 'first' })));
  box.hidden = false;
  node.setAttribute('aria-describedby', 'tip');
  follow();
}

/** Puts the tooltip beside its node. */
function follow() {
  if (!owner) return;
  const box = $('tip');
  const at = owner.getBoundingClientRect();
  const size = box.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
  const above = at.top - size.height - 8;
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${above < 8 ? at.bottom + 8 : above}px`;
}

/** Hides the tooltip, if it is that of the node. */
export function untip(node) {
  if (node && owner !== node) return;
  owner?.removeAttribute('aria-describedby');
  owner = null;
  $('tip').hidden = true;
}

/** Shows the tooltip of a node on hover and on focus. */
export function tipped(node, lines) {
  node.addEventListener('pointerenter', () => tip(node, lines()));
  node.addEventListener('pointerleave', () => document.activeElement !== node && untip(node));
  node.addEventListener('focus', () => tip(node, lines()));
  node.addEventListener('blur', () => untip(node));
}

addEventListener('keydown', (event) => event.key === 'Escape' && untip());
addEventListener('resize', follow);
addEventListener('scroll', follow, { passive: true, capture: true });

/** Shows a message: the output of a command, or an error. */
export function toast(message, bad = false) {
  const close = el('button', { type: 'button', class: 'close', text: 'Close' });
  const box = el('div', { class: bad ? 'toast bad' : 'toast' }, el('p', { text: message }), close);
  close.addEventListener('click', () => box.remove());
  $('toasts').append(box);
  while ($('toasts').children.length > 3) $('toasts').firstElementChild.remove();
  if (!bad) setTimeout(() => box.remove(), 12000);
}

/** Asks; true if the user confirms. */
export function confirmed(title, question, command) {
  const dialog = $('confirm');
  text($('confirm-title'), title);
  text($('confirm-text'), question);
  text($('confirm-command'), command);
  text($('confirm-yes'), title);
  return new Promise((resolve) => {
    const end = (answer) => () => { dialog.close(); resolve(answer); };
    $('confirm-yes').onclick = end(true);
    $('confirm-no').onclick = end(false);
    dialog.oncancel = () => resolve(false);
    // It is also closed if the page shows another object.
    dialog.onclose = () => resolve(false);
    dialog.showModal();
    $('confirm-no').focus();
  });
}
