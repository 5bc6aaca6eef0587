// How tokens read: as their text where somebody gave one, else as their numbers. tokens.py says the same.

const MOST_SAID = 64;

/** The tokens in one line, the first `most` of them. Between two of them stands a blank, unless one brings its own. */
export function tokensInWords(tokens, textOf, most = MOST_SAID) {
    const words = Array.from(tokens.slice(0, most), token => textOf.get(token) ?? String(token));
    const own = words.some(word => word !== word.trim());
    const text = words.join(own ? "" : " ").replaceAll("\n", "⏎").trim();
    return tokens.length <= most ? text : `${text} …`;
}
