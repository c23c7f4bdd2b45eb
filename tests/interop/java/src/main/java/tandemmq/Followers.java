package tandemmq;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.store.MessageArrivingListener;

/** Waits for Numbered messages in the place of a broker's held pulls: the store tells of what its queues have got, and each follower reads and copies it. */
final class Followers implements MessageArrivingListener {
    private final Numbered numbered;
    private final Map<String, Integer> topics = new HashMap<>();
    private final List<Follower> followers = new CopyOnWriteArrayList<>();

    /** Of the messages that are measured; null: of none. */
    private volatile Begun begun;

    Followers(Numbered numbered, int topicCount) {
        this.numbered = numbered;
        for (int t = 0; t < topicCount; t++) {
            topics.put(numbered.topic((long) t * numbered.queues), t);
        }
    }

    /** Notes how long it took from the begin of a put until a follower had the message, from now on. */
    void measure(Begun messages) {
        begun = messages;
    }

    /** The thread that builds the queues calls it, and no other. */
    @Override
    public void arriving(String topic, int queueId, long next, long tagsCode, long storeTime, byte[] filterBitMap, Map<String, String> properties) {
        Integer t = topics.get(topic);
        if (t == null) {
            return;
        }
        int queue = t * numbered.queues + queueId;
        followers.forEach(f -> f.arrived(queue, next));
    }

    /** Reads what is put from now on into queues that are empty. */
    Follower follow(Reading reading) {
        Follower f = new Follower(reading);
        followers.add(f);
        f.thread.start();
        return f;
    }

    /** One who reads all queues. */
    final class Follower {
        private final Reading reading;
        private final AtomicLongArray ends = new AtomicLongArray(numbered.all());
        private final AtomicIntegerArray waits = new AtomicIntegerArray(numbered.all());
        private final ConcurrentLinkedQueue<Integer> waiting = new ConcurrentLinkedQueue<>();
        private final long[] next = new long[numbered.all()];
        private final AtomicLong read = new AtomicLong();
        private final Samples tail = new Samples();
        private final Thread thread = new Thread(this::run, "follower");
        private volatile boolean over;
        private volatile Throwable failure;

        Follower(Reading reading) {
            this.reading = reading;
            thread.setDaemon(true);
        }

        private void arrived(int queue, long end) {
            ends.setRelease(queue, end);
            if (waits.getAcquire(queue) == 0 && waits.compareAndSet(queue, 0, 1)) {
                waiting.add(queue);
                LockSupport.unpark(thread);
            }
        }

        private void run() {
            try {
                while (!over) {
                    Integer queue = waiting.poll();
                    if (queue == null) {
                        LockSupport.park();
                    } else {
                        waits.set(queue, 0); // what arrives from now on is told again
                        read(queue, ends.getAcquire(queue));
                    }
                }
            } catch (Throwable e) {
                failure = e;
            }
        }

        private void read(int queue, long end) {
            while (next[queue] < end) {
                long from = next[queue];
                long to = reading.next(queue, from, Reading.BATCH);
                Begun measured = begun;
                for (long offset = from; measured != null && offset < to; offset++) {
                    long took = measured.since(offset * numbered.all() + queue);
                    if (took >= 0) {
                        tail.add(took);
                    }
                }
                next[queue] = to;
                read.addAndGet(to - from);
            }
        }

        /** How many messages it has read. */
        long read() {
            if (failure != null) {
                throw new IllegalStateException("a follower", failure);
            }
            return read.get();
        }

        /** Ends it, and returns how long it took until messages were read. */
        Samples stop() throws InterruptedException {
            over = true;
            LockSupport.unpark(thread);
            thread.join();
            read(); // of a failure
            return tail;
        }
    }
}
