// Time: which frame is shown, and how it moves on while playing.

export const SPEEDS = [1, 2, 5, 10, 30, 60, 250, 1000, 5000];  // events per second

export class Player {
    constructor(numFrames, frame = 0, speed = 10) {
        this.last = numFrames;
        this.frame = frame;
        this.speed = speed;
        this.playing = false;
        this.rest = 0;  // the part of an event that has passed
    }

    play() {
        if (this.frame >= this.last) this.frame = 0;
        this.rest = 0;
        this.playing = this.last > 0;
    }

    pause() { this.playing = false; }

    /** Go to a frame, or the nearest one there is. */
    go(frame) {
        this.frame = Math.max(0, Math.min(this.last, Math.round(frame)));
        this.rest = 0;
    }

    /** Let time pass. Stops at the end. True if the frame changed. */
    advance(milliseconds) {
        if (!this.playing) return false;
        this.rest += milliseconds * this.speed / 1000;
        const events = Math.floor(this.rest);
        if (!events) return false;
        this.rest -= events;
        this.frame = Math.min(this.last, this.frame + events);
        if (this.frame === this.last) this.playing = false;
        return true;
    }
}

/** What a key does to a player: a new frame, "toggle", "clear", or null if it does nothing. */
export function keyAction(key, shift, player) {
    const far = shift ? 10 : 1;
    switch (key) {
    case " ": return "toggle";
    case "Escape": return "clear";
    case "ArrowRight": return player.frame + far;
    case "ArrowLeft": return player.frame - far;
    case "Home": return 0;
    case "End": return player.last;
    default: return null;
    }
}
