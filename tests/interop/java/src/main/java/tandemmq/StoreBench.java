package tandemmq;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Does one piece of work of bench/compare with the released store at its defaults, and measures it.
 *
 * <pre>
 * StoreBench WORK
 * </pre>
 *
 * WORK is a JSON object with the fields of Work, each of its tasks is said there. Code is compiled before the clock starts: by messages that are put before (without waiting for the disk, where the
 * store flushes synchronously), by a first pass over what is read; an open is measured as it comes, as that of a broker is. Prints one JSON line {"t":"bench"} with figures whose units are the ends
 * of their names, and latencies. Exit status: 0 measured, 1 failed, 2 wrong words.
 */
public final class StoreBench {
    private static final long LIMIT_MS = TimeUnit.MINUTES.toMillis(10);
    private static final long SEED = 7;
    private static final long TICK_NS = TimeUnit.MILLISECONDS.toNanos(1);

    /** Fields that are left out are 0. */
    private static final class Work {
        /**
         * put: Messages, or for millis, by that many producers.
         * readable: perSecond messages a second by one producer, until each is in its queue; tail: until a reader has each.
         * mixed: put beside so many readers who follow it, each of them all queues.
         * read: all of the messages that are there, by 32; then samples of single ones, of searches by time, of searches by key; all of it twice, and the second time counts.
         * open: until queues and index are at the end of the log.
         */
        String task;
        /** Where consume queues are kept; of combine the side that is read and the side that assigns offsets. */
        String mode;
        String prefer;
        String assign;
        /** Of the store: an empty place for what puts, a store of Numbered messages for read. */
        String root;
        boolean sync;
        int producers;
        int readers;
        int topics;
        /** Of each topic. */
        int queues;
        int body;
        int warmup;
        int messages;
        int perSecond;
        int samples;
        long millis;
    }

    private interface Call {
        void run() throws Exception;
    }

    private final Work work;
    private final Numbered numbered;
    private final Map<String, Object> figures = new LinkedHashMap<>();
    private final Map<String, Object> latencies = new LinkedHashMap<>();
    private long messages;

    private StoreBench(Work work) throws Exception {
        this.work = work;
        numbered = new Numbered(work.topics, work.queues, work.body);
    }

    public static void main(String[] words) {
        Program.run(() -> {
            new StoreBench(parse(words)).run();
            return true;
        });
    }

    private static Work parse(String[] words) {
        if (words.length != 1) {
            throw new Args.UsageException("want: WORK");
        }
        JsonObject given = JsonParser.parseString(words[0]).getAsJsonObject();
        for (String name : given.keySet()) {
            try {
                Work.class.getDeclaredField(name);
            } catch (NoSuchFieldException e) {
                throw new Args.UsageException("no such field: " + name);
            }
        }
        return new Gson().fromJson(given, Work.class);
    }

    private void run() throws Exception {
        switch (work.task) {
            case "put", "readable", "tail", "mixed" -> put();
            case "read" -> read();
            case "open" -> open();
            default -> throw new Args.UsageException("no such task: " + work.task);
        }
        System.out.println(Report.line("t", "bench", "task", work.task, "java", System.getProperty("java.version"), "messages", messages, "figures", figures,
            "latencies", latencies));
    }

    private OpenStore openStore(Followers followers) throws Exception {
        MessageStoreConfig config = OpenStore.quietConfig(work.root);
        config.setFlushDiskType(work.sync ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        OpenStore.setMode(config, work.mode, work.prefer, work.assign);
        OpenStore store = new OpenStore(config, work.mode.equals("rocks"), followers);
        StoreCheck.requireNoListeningSocket();
        return store;
    }

    private void open() throws Exception {
        OpenStore store = openStore(null);
        figures.put("openMillis", (store.loadNanos + store.startNanos) / 1e6);
        figures.put("readyMillis", store.readyNanos / 1e6);
        messages = store.stored();
        store.closeIdle();
    }

    private void read() throws Exception {
        OpenStore store = openStore(null);
        messages = store.stored();
        Reading reading = new Reading(store, numbered, messages, SEED);
        for (int pass = 0; pass < 2; pass++) {
            long begin = System.nanoTime();
            long cpu = cpuNanos();
            if (reading.pull() != messages) {
                throw new IllegalStateException("the messages are not those of one who numbers them");
            }
            double seconds = (System.nanoTime() - begin) / 1e9;
            figures.put("pullPerSecond", messages / seconds);
            figures.put("pullBytesPerSecond", (store.messages.getMaxPhyOffset() - store.messages.getMinPhyOffset()) / seconds);
            figures.put("pullCPUMicros", (cpuNanos() - cpu) / 1e3 / messages);
            sample("get", () -> reading.get(Long.MAX_VALUE));
            sample("time", reading::time);
            sample("query", reading::query);
        }
        store.closeIdle();
    }

    private void sample(String name, Call call) throws Exception {
        Samples nanos = new Samples();
        for (int k = 0; k < work.samples; k++) {
            long begin = System.nanoTime();
            call.run();
            nanos.add(System.nanoTime() - begin);
        }
        latencies.put(name, Samples.summary(List.of(nanos)));
    }

    private void put() throws Exception {
        boolean paced = work.task.equals("readable") || work.task.equals("tail");
        boolean followed = work.task.equals("tail") || work.task.equals("mixed");
        if (work.producers < 1 || work.messages == 0 == (work.millis == 0) || paced && (work.producers > 1 || work.messages == 0 || work.perSecond < 1)) {
            throw new Args.UsageException("want producers and either messages or millis; of what is paced, one producer, messages and a rate");
        }
        Followers followers = followed ? new Followers(numbered, work.topics) : null;
        OpenStore store = openStore(followers);
        List<Followers.Follower> readers = new ArrayList<>();
        for (int r = 0; followed && r < Math.max(1, work.readers); r++) {
            readers.add(followers.follow(new Reading(store, numbered, Long.MAX_VALUE, SEED)));
        }
        put(store, null, new Done(), new Numbers(0, 1), work.warmup, Long.MAX_VALUE, false);
        store.awaitIdle(LIMIT_MS);
        await(readers, work.warmup);
        Begun begun = paced ? new Begun(work.warmup, work.messages) : null;
        if (followed) {
            followers.measure(begun);
        }
        Watcher watcher = work.task.equals("readable") ? new Watcher(store, numbered, begun, work.warmup + work.messages) : null;
        long cpu = cpuNanos();
        if (paced) {
            pace(store, begun);
        } else {
            putAll(store, readers);
        }
        figures.put("cpuMicros", (cpuNanos() - cpu) / 1e3 / (messages - work.warmup));
        await(readers, messages);
        List<Samples> tail = new ArrayList<>();
        for (Followers.Follower r : readers) {
            tail.add(r.stop());
        }
        if (paced) {
            latencies.put(work.task, Samples.summary(watcher != null ? List.of(watcher.await(LIMIT_MS)) : tail));
        }
        long stored = store.stored();
        if (stored != messages) {
            throw new IllegalStateException("the queues hold " + stored + " messages, acknowledged were " + messages);
        }
        store.closeIdle();
    }

    /** Returns when each reader has read so many. */
    private static void await(List<Followers.Follower> readers, long count) throws InterruptedException {
        long start = System.nanoTime();
        for (Followers.Follower r : readers) {
            while (r.read() < count) {
                if (System.nanoTime() - start > TimeUnit.MILLISECONDS.toNanos(LIMIT_MS)) {
                    throw new IllegalStateException("a reader has " + r.read() + " of " + count + " messages");
                }
                Thread.sleep(1);
            }
        }
    }

    /** first, first + step and so on; where the time ends it, all producers take theirs from one, so that there is no gap. */
    private static final class Numbers {
        private final AtomicLong next;
        private final int step;

        Numbers(long first, int step) {
            next = new AtomicLong(first);
            this.step = step;
        }

        long next() {
            return next.getAndAdd(step);
        }
    }

    /** What one producer has done. */
    private static final class Done {
        final Samples nanos = new Samples();
        long count;
        long ended;
    }

    private void putAll(OpenStore store, List<Followers.Follower> readers) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(work.producers);
        CyclicBarrier begin = new CyclicBarrier(work.producers + 1);
        Numbers asTheyCome = new Numbers(work.warmup, 1);
        List<Future<Done>> all = new ArrayList<>();
        for (int p = 0; p < work.producers; p++) {
            boolean timed = work.messages == 0;
            long count = timed ? Long.MAX_VALUE : work.messages / work.producers + (p < work.messages % work.producers ? 1 : 0);
            Numbers numbers = timed ? asTheyCome : new Numbers(work.warmup + p, work.producers);
            all.add(pool.submit((Callable<Done>) () -> {
                Done d = new Done();
                begin.await();
                put(store, null, d, numbers, count, timed ? System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(work.millis) : Long.MAX_VALUE, true);
                return d;
            }));
        }
        long logBefore = store.messages.getMaxPhyOffset();
        begin.await();
        long start = System.nanoTime();
        long count = 0;
        long ended = 0;
        List<Samples> nanos = new ArrayList<>();
        for (Future<Done> f : all) {
            Done d = f.get();
            count += d.count;
            ended = Math.max(ended, d.ended - start);
            nanos.add(d.nanos);
        }
        long read = 0;
        for (Followers.Follower r : readers) {
            read += r.read() - work.warmup;
        }
        pool.shutdown();
        long built = store.awaitIdle(LIMIT_MS) - start;
        messages = work.warmup + count;
        figures.put("putPerSecond", count * 1e9 / ended);
        figures.put("builtPerSecond", count * 1e9 / built);
        figures.put("logBytesPerSecond", (store.messages.getMaxPhyOffset() - logBefore) * 1e9 / ended);
        if (!readers.isEmpty()) {
            figures.put("pullPerSecond", read * 1e9 / ended);
        }
        latencies.put("put", Samples.summary(nanos));
    }

    private void pace(OpenStore store, Begun begun) throws Exception {
        Done d = new Done();
        Numbers numbers = new Numbers(work.warmup, 1);
        long start = System.nanoTime();
        for (; d.count < work.messages; LockSupport.parkNanos(TICK_NS)) {
            long due = (long) ((System.nanoTime() - start) / 1e9 * work.perSecond);
            put(store, begun, d, numbers, Math.min(work.messages, due), Long.MAX_VALUE, true);
        }
        figures.put("putPerSecond", d.count * 1e9 / (d.ended - start));
        store.awaitIdle(LIMIT_MS);
        messages = work.warmup + d.count;
    }

    /** Puts messages until there are so many, or the deadline has come. begun: null where nobody asks. wait: for the disk, where the store flushes synchronously. */
    private void put(OpenStore store, Begun begun, Done d, Numbers numbers, long count, long deadline, boolean wait) {
        long last = System.nanoTime();
        while (d.count < count && last < deadline) {
            long n = numbers.next();
            if (begun != null) {
                begun.begin(n);
            }
            MessageExtBrokerInner m = numbered.message(n);
            if (!wait) {
                m.setWaitStoreMsgOK(false);
            }
            PutMessageResult result = store.messages.putMessage(m);
            if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("message " + n + ": " + result.getPutMessageStatus());
            }
            long now = System.nanoTime();
            d.nanos.add(now - last);
            d.count++;
            last = now;
        }
        d.ended = last;
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
