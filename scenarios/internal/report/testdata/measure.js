// Measures the page: evaluated in it by the browser test.
(() => {
  const out = {overflow: [], charts: [], sections: [], bars: 0, hidden: [], contrast: [], small: [], back: 0};
  const round = v => Math.round(v * 10) / 10;
  const name = e => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + (e.getAttribute('class') ? '.' + e.getAttribute('class') : '') + ' ' + (e.textContent || '').trim().slice(0, 30);
  const rgb = text => { const n = text.match(/[\d.]+/g).map(Number); return {c: n.slice(0, 3), a: n.length > 3 ? n[3] : 1}; };
  const luminance = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const backOf = e => { for (; e; e = e.parentElement) { const b = rgb(getComputedStyle(e).backgroundColor); if (b.a > 0.99) return b.c; } return [255, 255, 255]; };
  const wide = document.documentElement.clientWidth;
  out.back = luminance(backOf(document.body));
  if (document.documentElement.scrollWidth > wide) out.overflow.push('the page, ' + document.documentElement.scrollWidth + ' of ' + wide);
  for (const e of document.querySelectorAll('body *')) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > wide + 1 && !e.closest('svg svg')) out.overflow.push(name(e));
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || e.closest('svg') || r.width === 0) continue;
    const s = getComputedStyle(e), a = luminance(rgb(s.color).c), b = luminance(backOf(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) out.contrast.push(name(e) + ' ' + contrast.toFixed(2));
    if (parseFloat(s.fontSize) < 11) out.small.push(name(e) + ' ' + s.fontSize);
  }
  const boxOf = (e, id) => { const r = e.getBoundingClientRect(); return {id, x: round(r.left), width: round(r.width), height: round(r.height)}; };
  for (const e of document.querySelectorAll('svg.chart')) {
    const r = e.getBoundingClientRect();
    out.charts.push(boxOf(e, e.querySelector('title').id));
    if (r.width < 100 || r.height < 50 || getComputedStyle(e).visibility !== 'visible') out.hidden.push(name(e));
    const lines = [...e.querySelectorAll('path.line')];
    if (!lines.some(l => { const b = l.getBBox(); return b.width > 1; })) out.hidden.push('the lines of ' + name(e));
    for (const l of lines) {
      const c = rgb(getComputedStyle(l).stroke).c, a = luminance(c), b = luminance(backOf(e));
      if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3) out.contrast.push('a line of ' + name(e));
    }
  }
  for (const e of document.querySelectorAll('svg.bar')) {
    if (e.getClientRects().length === 0) continue; // left out on a narrow page
    out.bars++;
    const r = e.querySelector('rect').getBoundingClientRect();
    if (r.width < 0.3 || r.height < 4) out.hidden.push('a bar in ' + name(e.parentElement));
  }
  for (const e of document.querySelectorAll('header, section')) out.sections.push(boxOf(e, e.id || e.className));
  return out;
})()
