# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style sheet and script of the report's page. In Python, because a plugin can load no other files of a collection."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;
--pass:#1a7f37;--fail:#cf222e;--unsure:#9a6700;--none:#6e7781;--on:#fff;
--c0:#0969da;--c1:#8250df;--c2:#bf3989;--c3:#bc4c00;--c4:#1b7c83;--c5:#57606a;
--h0:#ddf4ff;--h1:#b6e3ff;--h2:#80ccff;--h3:#54aeff;--h4:#218bff;--h5:#0969da}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#f0f6fc;--soft:#9198a1;--line:#3d444d;--card:#151b23;
--pass:#3fb950;--fail:#f85149;--unsure:#d29922;--none:#9198a1;--on:#0d1117;
--c0:#4493f8;--c1:#ab7df8;--c2:#db61a2;--c3:#db6d28;--c4:#39c5cf;--c5:#9198a1;
--h0:#0c2d6b;--h1:#0d419d;--h2:#1158c7;--h3:#1f6feb;--h4:#388bfd;--h5:#79c0ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem 1.25rem 4rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1rem 0 .3rem}p{margin:.4rem 0}
a{color:var(--c0)}.soft{color:var(--soft)}.pass,.pass a{color:var(--pass)}.fail,.fail a,a.fail{color:var(--fail)}
.undeterminable,.undeterminable a,a.undeterminable{color:var(--unsure)}.not_applicable{color:var(--none)}
.headline{font-size:1.15rem;font-weight:600}
.tiles{display:flex;flex-wrap:wrap;gap:.5rem;margin:.8rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.3rem .8rem;min-width:6.5rem;
text-decoration:none;color:var(--fg)}a.tile.pass{color:var(--pass)}a.tile.not_applicable{color:var(--none)}
.tile b{display:block;font-size:1.5rem;line-height:1.2}
.problems{padding-left:1.6rem;margin:.4rem 0}.problems li{margin:0 0 .5rem}
abbr{border:1px solid var(--line);border-radius:4px;padding:0 .3rem;font-size:.85em;text-decoration:none}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem}dd{margin:0}
table{border-collapse:collapse;width:100%;font-size:.93em}
th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);
min-width:12ch}
.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
td.state,td.number{min-width:max-content;white-space:nowrap}
th button{font:inherit;font-weight:600;background:none;border:0;padding:0;color:inherit;cursor:pointer}
th[aria-sort=ascending] button:after{content:" ▴"}th[aria-sort=descending] button:after{content:" ▾"}
tr.open>td{background:var(--card)}
tr.detail>td,div.detail{padding:.2rem 0 1rem .8rem;border-left:3px solid var(--line)}
div.detail{flex:1 0 100%}.detail h3{margin:.3rem 0}.detail ul{margin:.3rem 0}.problems .detail li{margin:.15rem 0}
.tools{display:flex;flex-wrap:wrap;gap:.5rem;align-items:end;margin:.5rem 0}
.tools label{font-size:.85em;color:var(--soft)}
.tools select,.tools input{display:block;font:inherit;padding:.2rem .4rem;border:1px solid var(--line);
border-radius:6px;background:var(--bg);color:var(--fg);max-width:14rem}
.scroll{overflow-x:auto}
.map{display:flex;flex-wrap:wrap;gap:.3rem .9rem;align-items:flex-start}
.place{border-left:2px solid var(--line);padding-left:.4rem}.place>span{font-size:.78em;color:var(--soft)}
.cells{display:flex;flex-wrap:wrap;gap:2px;max-width:24rem}
.cells a{width:1.35rem;height:1.35rem;border-radius:3px;color:var(--on);text-align:center;font-size:.8rem;
line-height:1.35rem;text-decoration:none;font-weight:700}
.cells a.pass{background:var(--pass)}.cells a.fail{background:var(--fail)}
.cells a.undeterminable{background:var(--unsure)}.cells a.not_applicable{background:var(--none)}
a:focus-visible,button:focus-visible,input:focus-visible,select:focus-visible,summary:focus-visible{
outline:3px solid var(--c0)}
summary{cursor:pointer;color:var(--c0)}
svg text{fill:var(--fg);font-size:11px}
.plot{position:relative;height:15rem;margin:.8rem 2.2rem 2.8rem 4rem;border-left:1px solid var(--soft);
border-bottom:1px solid var(--soft)}
.plot svg{position:absolute;width:100%;height:100%;overflow:visible}
.plot path{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.8;stroke-linecap:round}
.plot .bad{stroke-width:3}.plot .least{stroke:var(--fail);stroke-dasharray:5 4}
.plot span{position:absolute;font-size:.78rem;color:var(--soft);white-space:nowrap}
.plot .y{right:100%;transform:translateY(50%);padding-right:.4rem}
.plot .x{top:100%;margin-top:.6rem;transform:translateX(-50%)}
.legend{list-style:none;padding:0;margin:.4rem 0;font-size:.93em}
.legend i{display:inline-block;width:.9rem;height:.6rem;margin-right:.4rem}
.legend .dashes{border-top:2px dashed var(--fail);height:.2rem}
.bars{font-size:.93em}.bar{display:grid;grid-template-columns:minmax(6rem,14rem) 1fr 8.5rem;gap:.6rem;
align-items:center;margin:2px 0}
.track{position:relative;height:.9rem;background:var(--card)}.track i{display:block;height:100%}
.track em{position:absolute;top:-2px;bottom:-2px;border-left:2px dashed var(--fail)}
.c0{background:var(--c0);stroke:var(--c0)}.c1{background:var(--c1);stroke:var(--c1)}
.c2{background:var(--c2);stroke:var(--c2)}.c3{background:var(--c3);stroke:var(--c3)}
.c4{background:var(--c4);stroke:var(--c4)}.c5{background:var(--c5);stroke:var(--c5)}
.bad{background:var(--fail);stroke:var(--fail);fill:var(--fail)}.plot .bad{fill:none}rect{stroke:none}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}
@media (max-width:640px){body{padding:.6rem .75rem 3rem}h2{margin-top:1.4rem}
.tile{min-width:0;flex:1 1 5.5rem;padding:.2rem .6rem}.tile b{font-size:1.2rem}
thead{display:none}tr{display:block;padding:.4rem 0;border-bottom:1px solid var(--line)}
tr[hidden]{display:none}
td{display:block;position:relative;border:0;padding:.05rem 0 .05rem 7.6rem;min-width:0}td.state{padding-left:0}
td:empty{display:none!important}td.number{text-align:left}
td[data-th]:not([data-th=""]):before{content:attr(data-th);color:var(--soft);position:absolute;left:0;width:7rem}
#nodes tr:not(.detail)>td{display:inline-block;padding-left:0;margin-right:.9rem}
#nodes tr:not(.detail)>td:before{position:static;margin-right:.3rem}
tr.detail>td{padding-left:.8rem}.bar{grid-template-columns:7rem 1fr 6rem}.plot{margin-left:3.2rem;margin-right:1.6rem}
.tools label,.tools select,.tools input{width:100%;max-width:none}.tools label{flex:1 1 9rem}}
@media print{body{max-width:none;padding:0;font-size:11px}.screen{display:none}h2{break-after:avoid}
tr,.place,.plot,.bar{break-inside:avoid}.cells a{border:1px solid #000;color:#000!important;background:none!important}}
"""

# The verdicts of a node are indices into one list, because most nodes have the same ones; they are joined when a node
# is opened. The view is in the address, so that it can be sent. Text is only ever set as text.
SCRIPT = """
(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var KEYS = ['state', 'queue', 'check', 'text', 'sort', 'node'];
  var ORDER = ['fail', 'undeterminable', 'pass', 'not_applicable'];
  var table = document.getElementById('nodes'), body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows), byName = {}, view = {};
  var words = new Intl.Collator(undefined, {numeric: true});
  data.nodes.forEach(function (node, index) { node.row = rows[index]; byName['=' + node.name] = node; });

  function add(parent, tag, text, name) {
    var made = document.createElement(tag);
    if (text) { made.textContent = text; }
    if (name) { made.className = name; }
    parent.appendChild(made);
    return made;
  }

  // The node's verdicts, failures first.
  function verdicts(node) {
    return node.verdicts.map(function (number) { return data.verdicts[number]; }).sort(function (one, other) {
      return ORDER.indexOf(one[0]) - ORDER.indexOf(other[0]);
    });
  }

  function list(parent, found) {
    var items = add(parent, 'ul');
    found.forEach(function (verdict) {
      var item = add(items, 'li'), asks = data.severities[verdict[5]];
      var watched = verdict[0] === 'fail' && verdict[5] === 'monitor';
      add(item, 'b', (watched ? data.watch : data.words[verdict[0]]) + ' ', verdict[0]);
      var device = verdict[2] ? ' (' + verdict[2] + ')' : '';
      item.appendChild(document.createTextNode(verdict[1] + device + ': ' + verdict[3]));
      if (verdict[4]) { add(item, 'div', verdict[4], 'soft'); }
      if (verdict[5] !== 'none' && asks) { add(item, 'div', 'severity ' + verdict[5] + ': ' + asks, 'soft'); }
    });
  }

  // Below the clicked row, map part or problem; otherwise below the node's row.
  function open(node, where) {
    var inTable = where.tagName === 'TR', made = document.createElement(inTable ? 'tr' : 'div');
    var holder = inTable ? add(made, 'td') : made, found = verdicts(node);
    var bad = found.filter(function (verdict) { return verdict[0] === 'fail' || verdict[0] === 'undeterminable'; });
    var rest = found.filter(function (verdict) { return bad.indexOf(verdict) < 0; });
    made.id = 'detail';
    made.className = 'detail';
    if (inTable) { holder.colSpan = where.cells.length; }
    add(holder, 'h3', node.name + ': ' + node.word, node.status);
    if (bad.length) { list(holder, bad); }
    if (rest.length) {
      var folded = add(holder, 'details');
      folded.open = !bad.length;
      add(folded, 'summary', rest.length + ' good or not judged');
      list(folded, rest);
    }
    where.classList.add('open');
    if (where.tagName === 'LI') { where.appendChild(made); } else { where.after(made); }
    return where;
  }

  function shown(node) {
    if (view.state && node.status !== view.state) { return false; }
    if (view.queue && node.queue !== view.queue) { return false; }
    if (view.check && !verdicts(node).some(function (verdict) {
      return verdict[1] === view.check && (verdict[0] === 'fail' || verdict[0] === 'undeterminable');
    })) { return false; }
    return !view.text || node.row.textContent.toLowerCase().indexOf(view.text.toLowerCase()) >= 0;
  }

  function value(row, column) {
    return row.cells[column].dataset.v || row.cells[column].textContent;
  }

  function sorted(all, column, down) {
    return all.slice().sort(function (one, other) {
      var order = words.compare(value(one, column), value(other, column));
      return down ? -order : order;
    });
  }

  function address() {
    var made = new URLSearchParams();
    KEYS.forEach(function (key) { if (view[key]) { made.set(key, view[key]); } });
    return '#' + made.toString();
  }

  function draw(where) {
    var before = document.getElementById('detail'), opened = document.querySelector('.open'), number = 0;
    var chosen = byName['=' + view.node], column = /^(-?)(\\d+)$/.exec(view.sort || '');
    if (before) { before.remove(); }
    if (opened) { opened.classList.remove('open'); }
    if (column && Number(column[2]) >= table.tHead.rows[0].cells.length) { column = null; }
    (column ? sorted(rows, Number(column[2]), column[1] === '-') : rows).forEach(function (row) {
      body.appendChild(row);
    });
    mark(table, column ? Number(column[2]) : -1, Boolean(column && column[1]));
    data.nodes.forEach(function (node) {
      node.row.hidden = !shown(node) && node.name !== view.node;
      number += node.row.hidden ? 0 : 1;
    });
    fields.forEach(function (field) { field.value = view[field.name] || ''; });
    counter.textContent = number + ' of ' + data.nodes.length + ' shown';
    clear.hidden = number === data.nodes.length;
    return chosen ? open(chosen, where || chosen.row) : null;
  }

  function mark(of, column, down) {
    Array.prototype.forEach.call(of.tHead.rows[0].cells, function (head, at) {
      head.setAttribute('aria-sort', at === column ? (down ? 'descending' : 'ascending') : 'none');
    });
  }

  // Every table can be sorted; the order of the node table is in the address.
  function headings(of) {
    Array.prototype.forEach.call(of.tHead.rows[0].cells, function (head, at) {
      var button = document.createElement('button');
      button.textContent = head.textContent || 'State';
      var first = of.tBodies[0].rows[0];
      if (first && first.cells[at].className === 'number') { head.className = 'number'; }
      head.textContent = '';
      head.appendChild(button);
      button.addEventListener('click', function () {
        var down = head.getAttribute('aria-sort') === 'ascending';
        if (of === table) {
          view.sort = (down ? '-' : '') + at;
          history.replaceState(null, '', address());
          draw();
          return;
        }
        sorted(Array.prototype.slice.call(of.tBodies[0].rows), at, down).forEach(function (row) {
          of.tBodies[0].appendChild(row);
        });
        mark(of, at, down);
      });
    });
  }

  var tools = document.getElementById('tools'), fields = [];
  function field(name, label, options) {
    var holder = add(tools, 'label', label), made = add(holder, options ? 'select' : 'input');
    made.name = name;
    (options || []).forEach(function (pair) { add(made, 'option', pair[1]).value = pair[0]; });
    made.addEventListener(options ? 'change' : 'input', function () {
      view[name] = made.value;
      history.replaceState(null, '', address());
      draw();
    });
    fields.push(made);
  }
  function choices(found) {
    return [['', 'all']].concat(Object.keys(found).sort(words.compare).map(function (name) {
      return [name.slice(1), name.slice(1)];
    }));
  }
  var queues = {}, checks = {};
  data.nodes.forEach(function (node) { if (node.queue) { queues['=' + node.queue] = 1; } });
  data.verdicts.forEach(function (verdict) {
    if (verdict[0] === 'fail' || verdict[0] === 'undeterminable') { checks['=' + verdict[1]] = 1; }
  });
  field('state', 'State', [['', 'all']].concat(ORDER.map(function (state) {
    return [state, data.words[state] + (state === 'fail' ? ' or ' + data.watch : '')];
  })));
  if (Object.keys(queues).length > 1) { field('queue', 'Queue', choices(queues)); }
  if (Object.keys(checks).length) { field('check', 'Not passed', choices(checks)); }
  field('text', 'Text');
  var counter = add(tools, 'span', '', 'soft'), clear = add(tools, 'a', 'show all');
  clear.href = '#state=';

  function follow(scroll) {
    var asked = new URLSearchParams(location.hash.slice(1));
    if (location.hash && !KEYS.some(function (key) { return asked.has(key); })) { return; }
    KEYS.forEach(function (key) { view[key] = asked.get(key) || ''; });
    var row = draw();
    if (scroll && location.hash) {
      (row || document.getElementById('all')).scrollIntoView({block: 'start'});
    }
  }
  Array.prototype.forEach.call(document.querySelectorAll('table'), headings);
  var age = Math.round((Date.now() - Date.parse(data.time)) / 60000);
  if (age >= 0) {
    document.getElementById('age').textContent = ', ' + (age < 120 ? age + ' minutes' : age < 2880 ?
      Math.round(age / 60) + ' hours' : Math.round(age / 1440) + ' days') + ' old';
  }
  // A node opens where it was clicked, and closes when it is clicked there again.
  document.addEventListener('click', function (event) {
    var link = event.target.closest('a[href^="#node="]'), where = link && link.closest('tr, li, .place');
    if (!where) { return; }
    var name = new URLSearchParams(link.hash.slice(1)).get('node');
    event.preventDefault();
    view.node = view.node === name && where.classList.contains('open') ? '' : name;
    history.pushState(null, '', address());
    draw(where);
  });
  window.addEventListener('hashchange', function () { follow(true); });
  view = {};
  draw();
  follow(true);
})();
"""
