// Numbers from the bytes of a message.

/** They may begin anywhere in a buffer. */
export function numbers(Type, bytes) {
    if (!bytes) return new Type(0);
    const { buffer, byteOffset, byteLength } = bytes;
    const size = Type.BYTES_PER_ELEMENT;
    return byteOffset % size ? new Type(buffer.slice(byteOffset, byteOffset + byteLength))
        : new Type(buffer, byteOffset, byteLength / size);
}
