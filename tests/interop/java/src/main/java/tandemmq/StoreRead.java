package tandemmq;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.SplittableRandom;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Measures how the released store, with its defaults, opens a directory that was left in order and reads from it.
 *
 * <pre>
 * StoreRead DIR MODE PREFER ASSIGN SAMPLES
 * </pre>
 *
 * MODE is file, rocks or combine, PREFER and ASSIGN are file or rocks (of combine). The clock of opening starts at load(), when the classes of the constructor are
 * there. Then all queues are read by 32 messages a call, twice, of which the second pass is measured, each record copied out; SAMPLES single messages at random places of
 * random queues, as many at random places among the last 100 of each queue, SAMPLES queries of random messages by their keys (of a store that StorePut filled), and SAMPLES
 * searches of random store times; as many before each that are not measured. Prints one JSON line. Exit status: 0 measured, 1 failed, 2 wrong words.
 */
public final class StoreRead {
    private static final int BATCH = 32;
    private static final long NEWEST = 100;
    private static final long FIRST_KEY = 1_000_000_000_000L;

    private final OpenStore store;
    private final List<String> topics = new ArrayList<>();
    private final List<Integer> ids = new ArrayList<>();
    private final List<Long> ends = new ArrayList<>();
    private final byte[] sink = new byte[1 << 20];

    private StoreRead(OpenStore store) throws Exception {
        this.store = store;
        for (Map.Entry<String, SortedSet<Integer>> topic : store.queues().entrySet()) {
            for (int id : topic.getValue()) {
                topics.add(topic.getKey());
                ids.add(id);
                ends.add(store.messages.getMaxOffsetInQueue(topic.getKey(), id));
            }
        }
    }

    public static void main(String[] words) {
        int status = 1;
        try {
            if (words.length != 5) {
                throw new Args.UsageException("want: DIR MODE PREFER ASSIGN SAMPLES");
            }
            MessageStoreConfig config = OpenStore.quietConfig(words[0]);
            OpenStore.setMode(config, words[1], words[2], words[3]);
            try (OpenStore store = new OpenStore(config, words[1].equals("rocks"))) {
                StoreCheck.requireNoListeningSocket();
                new StoreRead(store).measure(Integer.parseInt(words[4]));
            }
            status = 0;
        } catch (Args.UsageException e) {
            System.err.println(e.getMessage());
            status = 2;
        } catch (Throwable e) {
            e.printStackTrace();
        }
        System.out.flush();
        System.err.flush();
        Runtime.getRuntime().halt(status); // see StoreCheck
    }

    private void measure(int samples) throws Exception {
        long messages = pull();
        long begin = System.nanoTime();
        pull();
        double pullSeconds = (System.nanoTime() - begin) / 1e9;
        long first = storeTime(0);
        long last = storeTime(ends.get(0) - 1);
        long[] gets = new long[samples];
        long[] times = new long[samples];
        long[] newest = new long[samples];
        long[] queries = new long[samples];
        for (int pass = 0; pass < 2; pass++) {
            gets(gets, Long.MAX_VALUE);
            times(times, first, last);
            gets(newest, NEWEST);
            queries(queries, messages);
        }
        System.out.println(Report.line("t", "read", "java", System.getProperty("java.version"), "loadMillis", store.loadNanos / 1e6,
            "startMillis", store.startNanos / 1e6, "readyMillis", store.readyNanos / 1e6, "queues", ids.size(), "messages", messages,
            "pullPerSecond", messages / pullSeconds, "getP50Nanos", at(gets, 0.5), "getP99Nanos", at(gets, 0.99),
            "timeP50Nanos", at(times, 0.5), "timeP99Nanos", at(times, 0.99), "newestP50Nanos", at(newest, 0.5), "newestP99Nanos", at(newest, 0.99),
            "queryP50Nanos", at(queries, 0.5), "queryP99Nanos", at(queries, 0.99)));
    }

    private long storeTime(long offset) {
        return store.messages.getMessageStoreTimeStamp(topics.get(0), ids.get(0), offset);
    }

    private long pull() {
        long n = 0;
        for (int i = 0; i < ids.size(); i++) {
            long offset = 0;
            while (offset < ends.get(i)) {
                GetMessageResult r = get(i, offset, BATCH);
                n += take(r);
                offset = r.getNextBeginOffset();
            }
        }
        return n;
    }

    /** Single messages, among the last of each queue. */
    private void gets(long[] nanos, long last) {
        SplittableRandom random = new SplittableRandom(7);
        for (int k = 0; k < nanos.length; k++) {
            int i = random.nextInt(ids.size());
            long offset = ends.get(i) - 1 - random.nextLong(Math.min(ends.get(i), last));
            long begin = System.nanoTime();
            if (take(get(i, offset, 1)) != 1) {
                throw new IllegalStateException("not one message");
            }
            nanos[k] = System.nanoTime() - begin;
        }
    }

    /** The messages are numbered as StorePut does it. */
    private void queries(long[] nanos, long messages) throws Exception {
        SplittableRandom random = new SplittableRandom(11);
        int topicCount = new HashSet<>(topics).size();
        int perTopic = topics.size() / topicCount;
        for (int k = 0; k < nanos.length; k++) {
            long n = random.nextLong(messages);
            String topic = "bench_" + n / perTopic % topicCount;
            long begin = System.nanoTime();
            QueryMessageResult r = store.messages.queryMessage(topic, "key-" + (FIRST_KEY + n), BATCH, 0, Long.MAX_VALUE);
            int found = r.getMessageMapedList().size();
            for (SelectMappedBufferResult m : r.getMessageMapedList()) {
                m.getByteBuffer().get(sink, 0, m.getSize());
            }
            r.release();
            nanos[k] = System.nanoTime() - begin;
            if (found < 1) {
                throw new IllegalStateException("the index does not know message " + n + " of " + topic);
            }
        }
    }

    private void times(long[] nanos, long first, long last) {
        SplittableRandom random = new SplittableRandom(9);
        for (int k = 0; k < nanos.length; k++) {
            int i = random.nextInt(ids.size());
            long time = first + random.nextLong(Math.max(1, last - first));
            long begin = System.nanoTime();
            store.messages.getOffsetInQueueByTime(topics.get(i), ids.get(i), time, BoundaryType.LOWER);
            nanos[k] = System.nanoTime() - begin;
        }
    }

    private GetMessageResult get(int i, long offset, int count) {
        GetMessageResult r = store.messages.getMessage("bench", topics.get(i), ids.get(i), offset, count, null);
        if (r.getStatus() != GetMessageStatus.FOUND) {
            throw new IllegalStateException(topics.get(i) + "/" + ids.get(i) + " at " + offset + ": " + r.getStatus());
        }
        return r;
    }

    private int take(GetMessageResult r) {
        int n = 0;
        for (SelectMappedBufferResult m : r.getMessageMapedList()) {
            m.getByteBuffer().get(sink, 0, m.getSize());
            n++;
        }
        r.release();
        return n;
    }

    private static long at(long[] nanos, double share) {
        long[] sorted = nanos.clone();
        Arrays.sort(sorted);
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, (long) (share * sorted.length))];
    }
}
