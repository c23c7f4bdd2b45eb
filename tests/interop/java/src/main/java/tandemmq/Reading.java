package tandemmq;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/** Reads Numbered messages, the first so many of which are there. Each is copied out of the log, as one that sends it does. It belongs to one thread. */
final class Reading {
    static final int BATCH = 32;
    private static final int QUEUE_OFFSET_AT = 20;

    private final OpenStore store;
    private final Numbered numbered;
    private final long messages;
    private final SplittableRandom random;
    private final byte[] sink = new byte[1 << 20];
    private long firstTime = -1;
    private long lastTime;

    Reading(OpenStore store, Numbered numbered, long messages, long seed) {
        this.store = store;
        this.numbered = numbered;
        this.messages = messages;
        random = new SplittableRandom(seed);
    }

    /** How many messages are in the queue of message i, which is one of the first of each. */
    private long count(int i) {
        return (messages - i + numbered.all() - 1) / numbered.all();
    }

    private int anyQueue() {
        return random.nextInt((int) Math.min(numbered.all(), messages));
    }

    /** Reads from the queue of message i on; returns the offset of what comes next. */
    long next(int i, long offset, int atMost) {
        GetMessageResult r = store.messages.getMessage("bench", numbered.topic(i), numbered.queueId(i), offset, atMost, null);
        try {
            if (r.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException(numbered.topic(i) + "/" + numbered.queueId(i) + " at " + offset + ": " + r.getStatus());
            }
            long at = offset;
            for (SelectMappedBufferResult m : r.getMessageMapedList()) {
                m.getByteBuffer().get(sink, 0, m.getSize());
                long has = ByteBuffer.wrap(sink).getLong(QUEUE_OFFSET_AT);
                if (has != at) {
                    throw new IllegalStateException(numbered.topic(i) + "/" + numbered.queueId(i) + " at " + at + ": message " + has);
                }
                at++;
            }
            if (at == offset || at != r.getNextBeginOffset()) {
                throw new IllegalStateException(numbered.topic(i) + "/" + numbered.queueId(i) + ": " + (at - offset) + " messages from " + offset
                    + ", the next one is said to be " + r.getNextBeginOffset());
            }
            return at;
        } finally {
            r.release();
        }
    }

    /** Reads the queue of message i to its end. Returns how many messages it has. */
    long pull(int i) {
        long end = count(i);
        for (long offset = 0; offset < end;) {
            offset = next(i, offset, BATCH);
        }
        return end;
    }

    /** Reads all queues, one after the other. */
    long pull() {
        long n = 0;
        for (int i = 0; i < Math.min(numbered.all(), messages); i++) {
            n += pull(i);
        }
        return n;
    }

    /** One message of any queue, among the last so many of it. */
    void get(long last) {
        int i = anyQueue();
        long end = count(i);
        next(i, end - 1 - random.nextLong(Math.min(end, last)), 1);
    }

    /** One message by its key. */
    void query() throws Exception {
        long n = random.nextLong(messages);
        QueryMessageResult r = store.messages.queryMessage(numbered.topic(n), Numbered.key(n), BATCH, 0, Long.MAX_VALUE);
        int found = r.getMessageMapedList().size();
        for (SelectMappedBufferResult m : r.getMessageMapedList()) {
            m.getByteBuffer().get(sink, 0, m.getSize());
        }
        r.release();
        if (found < 1) {
            throw new IllegalStateException("the index does not know message " + n + " of " + numbered.topic(n));
        }
    }

    /** A place in any queue by any store time between that of the first and the last message of the first queue. */
    void time() {
        if (firstTime < 0) {
            firstTime = storeTime(0, 0);
            lastTime = storeTime(0, count(0) - 1);
        }
        int i = anyQueue();
        long at = firstTime + random.nextLong(Math.max(1, lastTime - firstTime));
        long offset = store.messages.getOffsetInQueueByTime(numbered.topic(i), numbered.queueId(i), at, BoundaryType.LOWER);
        if (offset < 0 || offset > count(i)) {
            throw new IllegalStateException(numbered.topic(i) + "/" + numbered.queueId(i) + " at time " + at + ": offset " + offset + " of " + count(i));
        }
    }

    private long storeTime(int i, long offset) {
        return store.messages.getMessageStoreTimeStamp(numbered.topic(i), numbered.queueId(i), offset);
    }
}
