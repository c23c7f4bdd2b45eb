package tandemmq;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.SortedSet;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Measures how long the released store takes to open a directory, with its defaults, until its queues and its index are at the end of the log.
 *
 * <pre>
 * StoreOpen DIR file|rocks
 * </pre>
 *
 * The clock starts at load(): the classes of the constructor are loaded by then. Prints one JSON line with the number of queues and of their messages. The process is
 * ended without a shutdown in order, unless DIR was left in order before, so that the directory has the abort mark if it had it. Exit status: 0 measured, 1 failed, 2
 * wrong words.
 */
public final class StoreOpen {
    private StoreOpen() {
    }

    public static void main(String[] words) {
        Program.run(() -> {
            if (words.length != 2 || !words[1].equals("file") && !words[1].equals("rocks")) {
                throw new Args.UsageException("want: DIR file|rocks");
            }
            measure(words[0], words[1].equals("rocks"));
            return true;
        });
    }

    private static void measure(String dir, boolean rocks) throws Exception {
        boolean unclean = Files.exists(Path.of(dir, "abort"));
        MessageStoreConfig config = OpenStore.quietConfig(dir);
        if (rocks) {
            config.setStoreType("defaultRocksDB");
        }
        OpenStore store = new OpenStore(config, rocks);
        long queues = 0;
        long messages = 0;
        for (Map.Entry<String, SortedSet<Integer>> topic : store.queues().entrySet()) {
            for (int id : topic.getValue()) {
                queues++;
                messages += store.messages.getMaxOffsetInQueue(topic.getKey(), id);
            }
        }
        System.out.println(Report.line("t", "open", "java", System.getProperty("java.version"), "loadMillis", store.loadNanos / 1e6,
            "startMillis", store.startNanos / 1e6, "readyMillis", store.readyNanos / 1e6, "queues", queues, "messages", messages));
        if (!unclean) {
            store.close();
        }
    }
}
