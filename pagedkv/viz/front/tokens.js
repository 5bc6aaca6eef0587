// How tokens read: as their text where somebody gave one, else as their numbers. tokens.py says the same, and what a piece
// is, and a partial one.

const MOST_SAID = 64;

/** Token → how it reads. */
export class TokenTexts extends Map {
    constructor() {
        super();
        this.joins = false;  // whether pieces stand next to each other as they are: a tokenizer's do
        this.partial = new Map();  // token → its bytes, if it is a part of a character
    }

    /** Add what a message tells. */
    add({ token_text: texts = {}, token_bytes: bytes = {}, token_joins: joins = false }) {
        for (const [token, text] of Object.entries(texts)) {
            this.set(+token, text);
            if (text !== text.trim()) this.ownBlanks = true;
        }
        for (const [token, part] of Object.entries(bytes)) this.partial.set(+token, Uint8Array.from(part));
        if (joins) this.joins = true;
    }

    /** Whether the pieces of a text bring their own blanks. */
    get bringBlanks() { return this.joins || Boolean(this.ownBlanks); }
}

/** The pieces of these tokens, one for each; put together they are the text, in one line. A character that several tokens
 *  make stands in the piece of its last one, the others are empty. joins: whether pieces bring their own blanks. */
export function readTokens(tokens, textOf, joins = textOf.bringBlanks) {
    const { partial } = textOf, pieces = [], decoder = partial?.size ? new TextDecoder() : null;
    for (const token of tokens) {
        const part = decoder && partial.get(token);
        const text = part ? decoder.decode(part, { stream: true })
            : (decoder?.decode() ?? "") + (textOf.get(token) ?? String(token));
        pieces.push((pieces.length && !joins ? " " : "") + text.replaceAll("\n", "⏎").replaceAll("\t", " "));
    }
    if (decoder && pieces.length) pieces[pieces.length - 1] += decoder.decode();
    return pieces;
}

/** The tokens in one line, the first `most` of them. Between two of them stands a blank, unless one brings its own. */
export function tokensInWords(tokens, textOf, most = MOST_SAID) {
    const some = tokens.slice(0, most);
    let text;
    if (textOf.joins) text = readTokens(some, textOf, true).join("").trim();
    else {
        const words = Array.from(some, token => textOf.get(token) ?? String(token));
        const own = words.some(word => word !== word.trim());
        text = words.join(own ? "" : " ").replaceAll("\n", "⏎").trim();
    }
    return tokens.length <= most ? text : `${text} …`;
}
