package tandemmq;

import java.util.concurrent.atomic.AtomicLongArray;

/** When the puts of messages began that are measured: so many from a first one on. One producer puts them in turn. */
final class Begun {
    private final long first;
    private final AtomicLongArray at;

    Begun(long first, int count) {
        this.first = first;
        at = new AtomicLongArray(count);
    }

    /** Before message n is put. */
    void begin(long n) {
        at.setRelease((int) (n - first), System.nanoTime());
    }

    /** How long ago the put of message n began; negative: it is not measured. */
    long since(long n) {
        long i = n - first;
        return i < 0 || i >= at.length() ? -1 : System.nanoTime() - at.getAcquire((int) i);
    }
}
