package tandemmq;

import java.lang.reflect.Field;
import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.CombineConsumeQueueStore;
import org.apache.rocketmq.store.queue.ConsumeQueueStore;
import org.apache.rocketmq.store.queue.ConsumeQueueStoreInterface;
import org.apache.rocketmq.store.queue.RocksDBConsumeQueueOffsetTable;
import org.apache.rocketmq.store.queue.RocksDBConsumeQueueStore;
import org.apache.rocketmq.store.queue.offset.OffsetEntryType;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** A store directory opened with the released store, as a broker of that configuration would. */
final class OpenStore implements AutoCloseable {
    private static final long IDLE_LIMIT_MS = 60_000;
    private static final long CALM_NS = TimeUnit.MILLISECONDS.toNanos(50);

    final DefaultMessageStore messages;
    /** The two kinds of consume queue store; null where the mode has none. */
    final ConsumeQueueStore fileQueues;
    final RocksDBConsumeQueueStore rocksQueues;
    /** What opening took: load(), start(), and both with what was left to dispatch. */
    final long loadNanos;
    final long startNanos;
    final long readyNanos;

    OpenStore(Args args) throws Exception {
        this(config(args), args.text("mode", "file").equals("rocks"), null, topics(args));
    }

    OpenStore(MessageStoreConfig config, boolean rocks) throws Exception {
        this(config, rocks, null);
    }

    /** The listener is told of each message that a queue has got; null: nobody is. */
    OpenStore(MessageStoreConfig config, boolean rocks, MessageArrivingListener listener) throws Exception {
        this(config, rocks, listener, new ConcurrentHashMap<>());
    }

    private OpenStore(MessageStoreConfig config, boolean rocks, MessageArrivingListener listener, ConcurrentMap<String, TopicConfig> topics) throws Exception {
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerIP1("127.0.0.1");
        BrokerStatsManager stats = new BrokerStatsManager("storecheck", false);
        // The constructor fills a static TreeMap of the store's statistics without a lock: two at once can tie its nodes into a
        // ring, and then every later one runs for ever.
        synchronized (OpenStore.class) {
            messages = rocks
                ? new RocksDBMessageStore(config, stats, listener, broker, topics)
                : new DefaultMessageStore(config, stats, listener, broker, topics);
        }
        ConsumeQueueStoreInterface queues = messages.getQueueStore();
        if (queues instanceof CombineConsumeQueueStore both) {
            fileQueues = both.getConsumeQueueStore();
            rocksQueues = both.getRocksDBConsumeQueueStore();
        } else {
            fileQueues = rocks ? null : (ConsumeQueueStore) queues;
            rocksQueues = rocks ? (RocksDBConsumeQueueStore) queues : null;
        }
        try {
            long begin = System.nanoTime();
            if (!messages.load()) {
                throw new IllegalStateException("the store refuses to load " + config.getStorePathRootDir());
            }
            loadNanos = System.nanoTime() - begin;
            messages.start();
            startNanos = System.nanoTime() - begin - loadNanos;
            readyNanos = awaitIdle() - begin;
        } catch (Throwable e) {
            messages.shutdown();
            throw e;
        }
    }

    /** What a broker knows of its topics: nothing here, but that one of them has batch queues. */
    private static ConcurrentMap<String, TopicConfig> topics(Args args) {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        String name = args.text("batch-topic", "");
        if (!name.isEmpty()) {
            TopicConfig batch = new TopicConfig(name);
            batch.setAttributes(Map.of("queue.type", "BatchCQ"));
            topics.put(name, batch);
        }
        return topics;
    }

    /** Small files as the directory has them. */
    private static MessageStoreConfig config(Args args) {
        MessageStoreConfig c = quietConfig(args.dir);
        c.setMappedFileSizeCommitLog(args.number("commitlog-size", c.getMappedFileSizeCommitLog()));
        c.setMappedFileSizeConsumeQueue(args.number("cq-size", c.getMappedFileSizeConsumeQueue()));
        c.setMaxHashSlotNum(args.number("index-slots", c.getMaxHashSlotNum()));
        c.setMaxIndexNum(args.number("index-num", c.getMaxIndexNum()));
        if (args.on("lmq")) {
            c.setEnableLmq(true);
            c.setEnableMultiDispatch(true);
        }
        if (args.on("recover-all")) {
            c.setCommitLogRecoverMaxNum(Integer.MAX_VALUE);
        }
        if (args.on("prop-crc")) {
            c.setEnabledAppendPropCRC(true);
            c.setForceVerifyPropCRC(true);
        }
        setMode(c, args.text("mode", "file"), args.text("prefer", "file"), args.text("assign", "file"));
        c.setCombineCQUseRocksdbForLmq(args.on("lmq-rocks"));
        c.setUseSeparateStorePathForRocksdbCQ(args.on("separate"));
        Properties more = new Properties();
        for (String property : args.text("config", "").split(",")) {
            int at = property.indexOf('=');
            if (at > 0) {
                more.setProperty(property.substring(0, at), property.substring(at + 1));
            }
        }
        MixAll.properties2Object(more, c);
        return c;
    }

    /**
     * The released store's defaults, but for what would delete, compact or move messages by the clock or open a port: the
     * records carry real store times, so retention has to be out of reach.
     */
    static MessageStoreConfig quietConfig(String dir) {
        MessageStoreConfig c = new MessageStoreConfig();
        c.setStorePathRootDir(dir);
        c.setFileReservedTime((int) TimeUnit.DAYS.toHours(50 * 365));
        c.setDiskMaxUsedSpaceRatio(99);
        c.setCleanFileForciblyEnable(false);
        c.setEnableCompaction(false);
        c.setTimerWheelEnable(false);
        c.setHaListenPort(0);
        return c;
    }

    /** Says where consume queues are kept: file, rocks, or combine with the side that is read and the side that assigns offsets. */
    static void setMode(MessageStoreConfig c, String mode, String prefer, String assign) {
        switch (mode) {
            case "file" -> { }
            case "rocks" -> c.setStoreType("defaultRocksDB");
            case "combine" -> {
                c.setRocksdbCQDoubleWriteEnable(true);
                c.setCombineCQPreferCQType(storeType(prefer));
                c.setCombineAssignOffsetCQType(storeType(assign));
            }
            default -> throw new Args.UsageException("mode " + mode + ": want file, rocks or combine");
        }
    }

    private static String storeType(String kind) {
        return kind.equals("rocks") ? "defaultRocksDB" : "default";
    }

    /** Returns when the log is dispatched to its end and every RocksDB group is committed: since when that is so, by System.nanoTime(). */
    long awaitIdle() throws InterruptedException {
        return awaitIdle(IDLE_LIMIT_MS);
    }

    long awaitIdle(long limitMillis) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMillis);
        // A request is in neither collection for an instant while the committer takes it over: ask for a while.
        for (long since = System.nanoTime();; Thread.sleep(1)) {
            long now = System.nanoTime();
            if (!idle()) {
                since = now;
            } else if (now - since >= CALM_NS) {
                return since;
            }
            if (now > deadline) {
                throw new IllegalStateException("dispatch is still " + messages.dispatchBehindBytes() + " bytes behind after " + limitMillis + " ms");
            }
        }
    }

    private boolean idle() {
        if (messages.dispatchBehindBytes() > 0) {
            return false;
        }
        if (rocksQueues == null) {
            return true;
        }
        Object committer = internal(rocksQueues, "groupCommitService", Object.class);
        return internal(committer, "buffer", Collection.class).isEmpty() && internal(committer, "requests", Collection.class).isEmpty();
    }

    /** Every queue that either kind knows: topic to queue ids, in the order of the report. */
    SortedMap<String, SortedSet<Integer>> queues() throws Exception {
        SortedMap<String, SortedSet<Integer>> all = new TreeMap<>();
        if (fileQueues != null) {
            fileQueues.getConsumeQueueTable().forEach((topic, byId) ->
                all.computeIfAbsent(topic, t -> new TreeSet<>()).addAll(byId.keySet()));
        }
        if (rocksQueues != null) {
            internal(rocksQueues, "rocksDBConsumeQueueOffsetTable", RocksDBConsumeQueueOffsetTable.class).forEach(
                row -> row.type == OffsetEntryType.MAXIMUM,
                row -> all.computeIfAbsent(row.topic, t -> new TreeSet<>()).add(row.queueId));
        }
        return all;
    }

    /** How many messages the queues have got. */
    long stored() throws Exception {
        long n = 0;
        for (Map.Entry<String, SortedSet<Integer>> topic : queues().entrySet()) {
            for (int id : topic.getValue()) {
                n += messages.getMaxOffsetInQueue(topic.getKey(), id);
            }
        }
        return n;
    }

    /** Reads a private field where the store shows no other way to the value. */
    private static <T> T internal(Object owner, String name, Class<T> type) {
        try {
            Field f = owner.getClass().getDeclaredField(name);
            f.setAccessible(true);
            return type.cast(f.get(owner));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this is not the store version the program was written for", e);
        }
    }

    @Override
    public void close() {
        messages.shutdown();
    }

    /** Closes the store, of which all is dispatched, without the 3 s that it sleeps so that it may be. */
    void closeIdle() throws InterruptedException {
        awaitIdle();
        Thread sleeper = Thread.currentThread();
        AtomicBoolean closed = new AtomicBoolean();
        Thread waker = new Thread(() -> {
            while (!closed.get() && !sleepsIn(sleeper, DefaultMessageStore.class)) {
                LockSupport.parkNanos(CALM_NS / 10);
            }
            if (!closed.get()) {
                sleeper.interrupt();
            }
        }, "waker");
        waker.start();
        messages.shutdown();
        closed.set(true);
        waker.join();
    }

    private static boolean sleepsIn(Thread thread, Class<?> caller) {
        boolean sleeps = false;
        for (StackTraceElement at : thread.getStackTrace()) {
            if (!at.getClassName().equals(Thread.class.getName())) {
                return sleeps && at.getClassName().equals(caller.getName());
            }
            sleeps |= at.getMethodName().startsWith("sleep");
        }
        return false;
    }
}
