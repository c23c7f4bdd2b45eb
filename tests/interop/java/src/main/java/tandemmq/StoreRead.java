package tandemmq;

import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Measures how the released store, with its defaults, opens a directory of Numbered messages that was left in order and reads from it.
 *
 * <pre>
 * StoreRead DIR MODE PREFER ASSIGN SAMPLES
 * </pre>
 *
 * MODE is file, rocks or combine, PREFER and ASSIGN are file or rocks (of combine). The clock of opening starts at load(), when the classes of the constructor are
 * there. Then all queues are read by 32 messages a call, twice, of which the second pass is measured, each record copied out; SAMPLES single messages at random places of
 * random queues, as many at random places among the last 100 of each queue, SAMPLES queries of random messages by their keys, and SAMPLES searches of random store times; as
 * many before each that are not measured. Prints one JSON line. Exit status: 0 measured, 1 failed, 2 wrong words.
 */
public final class StoreRead {
    private static final long NEWEST = 100;
    private static final long SEED = 7;

    private StoreRead() { }

    /** What is measured again and again. */
    private interface Call {
        void run() throws Exception;
    }

    public static void main(String[] words) {
        Program.run(() -> {
            if (words.length != 5) {
                throw new Args.UsageException("want: DIR MODE PREFER ASSIGN SAMPLES");
            }
            MessageStoreConfig config = OpenStore.quietConfig(words[0]);
            OpenStore.setMode(config, words[1], words[2], words[3]);
            try (OpenStore store = new OpenStore(config, words[1].equals("rocks"))) {
                StoreCheck.requireNoListeningSocket();
                measure(store, Integer.parseInt(words[4]));
            }
            return true;
        });
    }

    private static void measure(OpenStore store, int samples) throws Exception {
        int topics = 0;
        int queues = 0;
        long messages = 0;
        for (Map.Entry<String, SortedSet<Integer>> topic : store.queues().entrySet()) {
            topics++;
            queues += topic.getValue().size();
            for (int id : topic.getValue()) {
                messages += store.messages.getMaxOffsetInQueue(topic.getKey(), id);
            }
        }
        Reading reading = new Reading(store, new Numbered(topics, queues / topics, 0), messages, SEED);
        reading.pull();
        long begin = System.nanoTime();
        messages = reading.pull();
        double pullSeconds = (System.nanoTime() - begin) / 1e9;
        long[][] sorted = new long[4][];
        for (int pass = 0; pass < 2; pass++) {
            sorted[0] = sample(samples, () -> reading.get(Long.MAX_VALUE));
            sorted[1] = sample(samples, reading::time);
            sorted[2] = sample(samples, () -> reading.get(NEWEST));
            sorted[3] = sample(samples, reading::query);
        }
        System.out.println(Report.line("t", "read", "java", System.getProperty("java.version"), "loadMillis", store.loadNanos / 1e6,
            "startMillis", store.startNanos / 1e6, "readyMillis", store.readyNanos / 1e6, "queues", queues, "messages", messages,
            "pullPerSecond", messages / pullSeconds, "getP50Nanos", Samples.at(sorted[0], 0.5), "getP99Nanos", Samples.at(sorted[0], 0.99),
            "timeP50Nanos", Samples.at(sorted[1], 0.5), "timeP99Nanos", Samples.at(sorted[1], 0.99),
            "newestP50Nanos", Samples.at(sorted[2], 0.5), "newestP99Nanos", Samples.at(sorted[2], 0.99),
            "queryP50Nanos", Samples.at(sorted[3], 0.5), "queryP99Nanos", Samples.at(sorted[3], 0.99)));
    }

    private static long[] sample(int samples, Call call) throws Exception {
        Samples nanos = new Samples();
        for (int k = 0; k < samples; k++) {
            long begin = System.nanoTime();
            call.run();
            nanos.add(System.nanoTime() - begin);
        }
        return Samples.sorted(List.of(nanos));
    }
}
