// Numbers in words, the same in every widget.

const WHOLE = new Intl.NumberFormat("en-US");  // toLocaleString would make one for every number, which takes longer than to draw

/** 12345 as "12,345". */
export function grouped(number) { return WHOLE.format(number); }

export function counted(number, what) { return `${grouped(number)} ${what}${number === 1 ? "" : "s"}`; }
