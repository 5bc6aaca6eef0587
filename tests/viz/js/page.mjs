// Just as much of a web page as the widgets ask for, so that Node can run a whole one. What is drawn goes nowhere.
// Nothing is laid out by itself: `layOut(width)` does what a browser does when a widget gets its first size.

export const elements = [];  // all that were made, in order

const context = new Proxy({}, {
    get: (_, name) => name !== "createImageData" ? () => context
        : (columns, rows) => ({ data: new Uint8ClampedArray(4 * columns * rows) }),
    set: () => true,
});
let width = 0, observers = [];

class Element {
    constructor(name) {
        Object.assign(this, { name, children: [], listeners: {}, attributes: {}, dataset: {}, parentNode: null,
                              scrollTop: 0, style: { setProperty() {} } });
        const classes = this.classes = new Set();
        this.classList = {
            add: one => classes.add(one), remove: one => classes.delete(one), contains: one => classes.has(one),
            toggle: (one, on = !classes.has(one)) => on ? classes.add(one) : classes.delete(one),
        };
        elements.push(this);
    }

    set className(text) { this.classes.clear(); text.split(" ").forEach(one => this.classes.add(one)); }
    setAttribute(name, value) {
        if (name === "class") this.className = value; else this.attributes[name] = `${value}`;
    }

    getAttribute(name) { return this.attributes[name] ?? null; }
    removeAttribute(name) { delete this.attributes[name]; }
    append(...added) {
        for (const child of added) {
            if (child instanceof Element) { child.remove(); child.parentNode = this; }
            this.children.push(child);
        }
    }

    prepend(...added) { this.append(...added); }  // no test asks for an order
    after(...added) { this.parentNode.append(...added); }
    replaceChildren(...children) { this.children = []; this.append(...children); }
    remove() {
        if (this.parentNode) this.parentNode.children = this.parentNode.children.filter(each => each !== this);
        this.parentNode = null;
    }

    get textContent() { return this.children.map(each => each.textContent ?? each).join(""); }
    set textContent(text) { this.children = [`${text}`]; }
    get firstChild() { return this.children[0] ?? null; }
    get previousElementSibling() { return null; }
    get isConnected() { return true; }
    get clientWidth() { return width; }
    get offsetWidth() { return width; }
    get offsetTop() { return 0; }
    get offsetHeight() { return 0; }
    get clientHeight() { return 0; }
    getBoundingClientRect() { return { left: 0, top: 0, right: width, bottom: width, width, height: width }; }
    getContext() { return context; }
    closest() { return null; }
    contains() { return false; }
    focus() {}
    addEventListener(kind, act) { (this.listeners[kind] ??= []).push(act); }

    /** Somebody does something here. */
    happens(kind, event = {}) {
        const whole = { target: this, preventDefault() {}, stopPropagation() {}, ...event };
        for (const act of this.listeners[kind] ?? []) act(whole);
    }
}

class Observer {
    constructor(act) { this.act = act; }
    observe() { observers.push(this); }
    disconnect() { observers = observers.filter(each => each !== this); }
}

Object.assign(globalThis, {
    document: { body: new Element("body"), activeElement: null, createElement: name => new Element(name),
                createElementNS: (_, name) => new Element(name) },
    window: { devicePixelRatio: 1 },
    getComputedStyle: node => ({ color: "rgb(9, 9, 9)", getPropertyValue: () => "", ...node.style }),
    ResizeObserver: Observer, MutationObserver: class extends Observer { observe() {} },
    requestAnimationFrame: () => 0, cancelAnimationFrame() {},
});

/** A page without anything on it, on which nothing has a size yet. */
export function emptyPage() {
    elements.length = 0;
    observers = [];
    width = 0;
}

/** The browser gives everything a size: CSS pixels. */
export function layOut(pixels = 900) {
    width = pixels;
    for (const each of observers) each.act();
}

export const withTestId = id => elements.filter(each => each.attributes["data-testid"] === id);

/** A widget's view of a model with these values: {model, root}. model.change(name, value) is what a kernel does. */
export function show(widget, values) {
    const state = { frame: 0, opening: -1, playing: false, selected: "", speed: 10, following: false, columns: 0,
                    title: "t", guess: false, guesses_right: 0, guesses_made: 0, ...values };
    const handlers = {};
    const model = {
        get: name => state[name],
        set(name, value) { this.change(name, value); },
        change(name, value) { state[name] = value; (handlers[`change:${name}`] ?? []).forEach(act => act()); },
        on(name, act) { (handlers[name] ??= []).push(act); },
        off() {}, send() {}, save_changes() {},
    };
    const { initialize, render } = widget();
    initialize({ model });
    render({ el: new Element("div") });
    return { model, root: elements.find(each => each.classes.has("pk-root")) };
}
