package tandemmq;

import java.util.concurrent.locks.LockSupport;

/** Looks at the end of each queue in turn, with a pause between, and notes how long it took from the begin of a put until its message is before the end. */
final class Watcher {
    private static final long PAUSE_NS = 50_000;

    private final OpenStore store;
    private final Numbered numbered;
    private final Begun begun;
    private final long messages;
    private final long[] seen;
    private final Samples readable = new Samples();
    private final Thread thread = new Thread(this::run, "watcher");
    private volatile Throwable failure;

    /** Until the queues have so many messages in all. */
    Watcher(OpenStore store, Numbered numbered, Begun begun, long messages) {
        this.store = store;
        this.numbered = numbered;
        this.begun = begun;
        this.messages = messages;
        seen = new long[numbered.all()];
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        try {
            for (long all = 0; all < messages; LockSupport.parkNanos(PAUSE_NS)) {
                for (int i = 0; i < seen.length; i++) {
                    long end = store.messages.getMaxOffsetInQueue(numbered.topic(i), numbered.queueId(i));
                    for (; seen[i] < end; seen[i]++) {
                        long took = begun.since(seen[i] * seen.length + i);
                        if (took >= 0) {
                            readable.add(took);
                        }
                        all++;
                    }
                }
            }
        } catch (Throwable e) {
            failure = e;
        }
    }

    Samples await(long limitMillis) throws InterruptedException {
        thread.join(limitMillis);
        if (thread.isAlive() || failure != null) {
            throw new IllegalStateException("not all messages were seen", failure);
        }
        return readable;
    }
}
