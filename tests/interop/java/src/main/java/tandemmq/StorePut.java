package tandemmq;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * Measures how fast the released store takes messages into a new directory, with its defaults: file queues (unless --mode says otherwise) and index are
 * built beside the log.
 *
 * <pre>
 * StorePut DIR [options]
 *
 * --mode file|rocks|combine  --prefer file|rocks  --assign file|rocks (of combine)
 * --flush async|sync  --threads N  --body BYTES  --topics N  --queues N (of each topic)
 * --warmup N          messages put before the clock starts, so that the code is compiled
 * --messages N        how many are put and measured, over all threads;  --seconds S  or for how long, with 0 messages
 * </pre>
 *
 * Messages are Numbered. Prints one JSON line, and only after the queues hold what was acknowledged and the index answers for the first message. Exit status: 0 measured,
 * 1 failed, 2 wrong words.
 */
public final class StorePut {
    private static final long DISPATCH_LIMIT_NS = TimeUnit.MINUTES.toNanos(10);

    private final OpenStore store;
    private final Map<String, String> given;
    private final int topics;
    private final int queues;
    private final Numbered numbered;

    /** What one thread saw. */
    private static final class Seen {
        long puts;
        final Samples nanos = new Samples();
        final Map<String, Long> statuses = new TreeMap<>();
        long ended;

        void add(long took, String status) {
            puts++;
            nanos.add(took);
            statuses.merge(status, 1L, Long::sum);
        }
    }

    private StorePut(OpenStore store, Map<String, String> given) throws Exception {
        this.store = store;
        this.given = given;
        topics = number("topics");
        queues = number("queues");
        numbered = new Numbered(topics, queues, number("body"));
    }

    public static void main(String[] words) {
        Program.run(() -> {
            run(words);
            return true;
        });
    }

    private static void run(String[] words) throws Exception {
        Map<String, String> given = options(words);
        Path dir = Path.of(words[0]);
        if (Files.exists(dir)) {
            try (Stream<Path> entries = Files.list(dir)) {
                if (entries.findAny().isPresent()) {
                    throw new Args.UsageException(dir + " is not empty");
                }
            }
        }
        MessageStoreConfig config = OpenStore.quietConfig(words[0]);
        config.setFlushDiskType(given.get("flush").equals("sync") ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        OpenStore.setMode(config, given.get("mode"), given.get("prefer"), given.get("assign"));
        try (OpenStore store = new OpenStore(config, given.get("mode").equals("rocks"))) {
            StoreCheck.requireNoListeningSocket();
            new StorePut(store, given).measure();
        }
    }

    private static Map<String, String> options(String[] words) {
        Map<String, String> given = new TreeMap<>(Map.of("flush", "async", "threads", "1", "body", "1024", "topics", "1",
            "queues", "4", "warmup", "0", "messages", "0", "seconds", "0"));
        given.putAll(Map.of("mode", "file", "prefer", "file", "assign", "file"));
        if (words.length % 2 != 1) {
            throw new Args.UsageException("want: DIR [--option value]...");
        }
        for (int i = 1; i < words.length; i += 2) {
            if (!words[i].startsWith("--") || given.replace(words[i].substring(2), words[i + 1]) == null) {
                throw new Args.UsageException("unknown option " + words[i]);
            }
        }
        if (!List.of("async", "sync").contains(given.get("flush"))) {
            throw new Args.UsageException("--flush " + given.get("flush") + ": want async or sync");
        }
        return given;
    }

    private int number(String name) {
        try {
            return Integer.parseInt(given.get(name));
        } catch (NumberFormatException e) {
            throw new Args.UsageException("--" + name + " " + given.get(name) + ": not a number");
        }
    }

    private void measure() throws Exception {
        int threads = number("threads");
        int messages = number("messages");
        long limit = TimeUnit.SECONDS.toNanos(number("seconds"));
        if (threads < 1 || topics < 1 || queues < 1 || messages == 0 == (limit == 0)) {
            throw new Args.UsageException("want threads, topics and queues, and either --messages or --seconds");
        }
        Seen warm = new Seen();
        put(warm, 0, 1, number("warmup"), Long.MAX_VALUE);
        awaitDispatched();
        long first = warm.puts;
        long logBefore = store.messages.getMaxPhyOffset();

        ExecutorService pool = Executors.newFixedThreadPool(threads);
        CyclicBarrier begin = new CyclicBarrier(threads + 1);
        List<Future<Seen>> all = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int own = t;
            long count = messages == 0 ? Long.MAX_VALUE : messages / threads + (own < messages % threads ? 1 : 0);
            all.add(pool.submit((Callable<Seen>) () -> {
                Seen seen = new Seen();
                begin.await();
                put(seen, first + own, threads, count, limit == 0 ? Long.MAX_VALUE : System.nanoTime() + limit);
                return seen;
            }));
        }
        begin.await();
        long start = System.nanoTime();
        Seen sum = new Seen();
        List<Samples> samples = new ArrayList<>();
        for (Future<Seen> f : all) {
            Seen s = f.get();
            sum.puts += s.puts;
            sum.ended = Math.max(sum.ended, s.ended - start);
            s.statuses.forEach((status, n) -> sum.statuses.merge(status, n, Long::sum));
            samples.add(s.nanos);
        }
        pool.shutdown();
        awaitDispatched();
        double dispatched = (store.awaitIdle() - start) / 1e9; // groups of RocksDB are written then, too
        requireStored(sum.statuses.getOrDefault("PUT_OK", 0L) + warm.statuses.getOrDefault("PUT_OK", 0L));
        print(threads, sum, samples, dispatched, store.messages.getMaxPhyOffset() - logBefore);
    }

    private void print(int threads, Seen sum, List<Samples> samples, double dispatched, long logBytes) {
        long[] nanos = Samples.sorted(samples);
        double seconds = sum.ended / 1e9;
        System.out.println(Report.line("t", "put", "java", System.getProperty("java.version"), "flush", given.get("flush"), "mode", given.get("mode"),
            "threads", threads, "messages", sum.puts, "seconds", seconds, "messagesPerSecond", sum.puts / seconds,
            "dispatchedPerSecond", sum.puts / dispatched, "logBytes", logBytes,
            "p50Nanos", Samples.at(nanos, 0.5), "p99Nanos", Samples.at(nanos, 0.99), "p999Nanos", Samples.at(nanos, 0.999),
            "maxNanos", Samples.at(nanos, 1), "statuses", sum.statuses));
    }

    /** Puts messages number first, first + step, ... until there are count of them or the time is over. */
    private void put(Seen seen, long first, int step, long count, long deadline) {
        long last = System.nanoTime();
        for (long i = 0, n = first; i < count && last < deadline; i++, n += step) {
            PutMessageResult result = store.messages.putMessage(numbered.message(n));
            long now = System.nanoTime();
            seen.add(now - last, result.getPutMessageStatus().name());
            last = now;
        }
        seen.ended = last;
    }

    private void awaitDispatched() throws InterruptedException {
        for (long start = System.nanoTime(); store.messages.dispatchBehindBytes() > 0;) {
            if (System.nanoTime() - start > DISPATCH_LIMIT_NS) {
                throw new IllegalStateException("dispatch is still " + store.messages.dispatchBehindBytes() + " bytes behind");
            }
            Thread.sleep(1);
        }
    }

    private void requireStored(long acknowledged) throws Exception {
        store.awaitIdle();
        long stored = 0;
        for (int t = 0; t < topics; t++) {
            for (int q = 0; q < queues; q++) {
                ConsumeQueueInterface queue = store.messages.getConsumeQueue("bench_" + t, q);
                stored += queue == null ? 0 : queue.getMaxOffsetInQueue();
            }
        }
        if (stored != acknowledged) {
            throw new IllegalStateException("the queues hold " + stored + " messages, acknowledged were " + acknowledged);
        }
        for (String key : List.of(Numbered.key(0), Numbered.uniqueKey(0))) {
            if (acknowledged > 0 && store.messages.queryMessage(numbered.topic(0), key, 1, 0, Long.MAX_VALUE).getMessageMapedList().isEmpty()) {
                throw new IllegalStateException("the index does not know " + key);
            }
        }
    }
}
