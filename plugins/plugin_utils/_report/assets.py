# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style sheet and script of the report's page. In Python, for a collection hands a plugin nothing else."""

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
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1rem 0 .3rem}
.soft{color:var(--soft)}.pass{color:var(--pass)}.fail{color:var(--fail)}
.undeterminable{color:var(--unsure)}.not_applicable{color:var(--none)}
.say{font-size:1.15rem;font-weight:600}
.tiles{display:flex;flex-wrap:wrap;gap:.6rem;margin:.8rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.4rem .9rem;min-width:7rem}
.tile b{display:block;font-size:1.5rem;line-height:1.2}
table{border-collapse:collapse;width:100%;font-size:.93em}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}
td{overflow-wrap:anywhere}td.name{white-space:nowrap}
.scroll{overflow-x:auto}
.map{display:flex;flex-wrap:wrap;gap:.3rem .9rem;align-items:flex-start}
.place{border-left:2px solid var(--line);padding-left:.4rem}.place>span{font-size:.78em;color:var(--soft)}
.cells{display:flex;flex-wrap:wrap;gap:2px;max-width:24rem}
.cells a{width:1.35rem;height:1.35rem;border-radius:3px;color:var(--on);text-align:center;font-size:.8rem;
line-height:1.35rem;text-decoration:none;font-weight:700}
a.pass{background:var(--pass)}a.fail{background:var(--fail)}a.undeterminable{background:var(--unsure)}
a.not_applicable{background:var(--none)}
a{color:var(--c0)}a:focus-visible,button:focus-visible,input:focus-visible{outline:3px solid var(--c0)}
svg{max-width:100%;height:auto;font-size:11px}svg text{fill:var(--fg)}svg text.on{fill:var(--on)}
.axis{stroke:var(--soft);fill:none}.grid{stroke:var(--line);fill:none;stroke-width:.5}
.line polyline{fill:none;stroke-width:1.6}.least,.least polyline{fill:none;stroke:var(--fail);stroke-dasharray:5 4}
.c0{fill:var(--c0);stroke:var(--c0)}.c1{fill:var(--c1);stroke:var(--c1)}.c2{fill:var(--c2);stroke:var(--c2)}
.c3{fill:var(--c3);stroke:var(--c3)}.c4{fill:var(--c4);stroke:var(--c4)}.c5{fill:var(--c5);stroke:var(--c5)}
rect{stroke:none}.bad{fill:var(--fail);stroke:var(--fail)}.line.bad polyline{stroke-width:2.6}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}
input{font:inherit;padding:.25rem .5rem;border:1px solid var(--line);border-radius:6px;background:var(--bg);
color:var(--fg);min-width:16rem}
button{font:inherit;background:none;border:0;padding:0;color:var(--c0);cursor:pointer;text-decoration:underline}
details>summary{cursor:pointer}
@media print{body{max-width:none;padding:0;font-size:11px}.screen{display:none}h2{break-after:avoid}
tr,.place,svg{break-inside:avoid}.cells a{border:1px solid #000;color:#000;background:none!important}}
"""

# The verdicts of all nodes are kept as numbers of sentences, for most nodes say the same; a node's are put together
# when somebody asks for them. Text is only ever set as text.
SCRIPT = """
(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  var detail = document.getElementById('detail');
  function add(parent, tag, text, name) {
    var made = document.createElement(tag);
    if (text) { made.textContent = text; }
    if (name) { made.className = name; }
    parent.appendChild(made);
    return made;
  }
  function show(index) {
    var node = data.nodes[index];
    detail.textContent = '';
    add(detail, 'h3', node.name + ': ' + data.words[node.status], node.status);
    add(detail, 'p', node.about, 'soft');
    var body = add(add(detail, 'table'), 'tbody');
    node.said.forEach(function (number) {
      var verdict = data.said[number], row = add(body, 'tr');
      add(row, 'td', data.words[verdict[0]], verdict[0]);
      add(row, 'td', verdict[1], 'name');
      var words = add(row, 'td', verdict[2]);
      if (verdict[3]) { add(words, 'div', verdict[3], 'soft'); }
    });
    detail.scrollIntoView({block: 'nearest'});
  }
  function chosen() {
    var match = /^#node-(\\d+)$/.exec(location.hash);
    if (match && data.nodes[match[1]]) { show(Number(match[1])); }
  }
  var filter = document.getElementById('filter'), rows = document.querySelectorAll('#nodes tbody tr');
  filter.addEventListener('input', function () {
    var wanted = filter.value.toLowerCase();
    rows.forEach(function (row) { row.hidden = row.textContent.toLowerCase().indexOf(wanted) < 0; });
  });
  window.addEventListener('hashchange', chosen);
  chosen();
})();
"""
