package tandemmq;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Opens a store with the released store's index in RocksDB, puts messages with keys, and asks for messages by key.
 *
 * <pre>
 * IndexCheck DIR FROM TO LOGSIZE
 * </pre>
 *
 * Puts messages FROM to TO of topic T: message i has the words "k-i", "all" and "all" again, the unique key "u-i" and the tag "t"; those before are taken to be there. Reads questions from standard input, one JSON
 * object a line: {"topic":..,"key":..,"type":"K"|"U"|"T","max":..}. Waits until the index has message TO - 1, then answers each with {"phys":[..],"lastPhy":..}, physical offsets in
 * the order of the log. Opening changes a directory. Exit status: 0 answered, 1 failed, 2 wrong words.
 */
public final class IndexCheck {
    private static final long INDEX_LIMIT_NS = TimeUnit.SECONDS.toNanos(60);
    /** Where a record has its physical offset. */
    private static final int PHY_AT = 28;

    /** Not a record: this Gson cannot make one. */
    private static final class Question {
        String topic;
        String key;
        String type;
        int max;
    }

    private IndexCheck() { }

    public static void main(String[] words) {
        Program.run(() -> {
            if (words.length != 4) {
                throw new Args.UsageException("want: DIR FROM TO LOGSIZE");
            }
            run(words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            return true;
        });
    }

    private static void run(String dir, int from, int to, int logSize) throws Exception {
        MessageStoreConfig config = OpenStore.quietConfig(dir);
        config.setMappedFileSizeCommitLog(logSize);
        config.setIndexRocksDBEnable(true);
        config.setIndexFileWriteEnable(false);
        config.setIndexFileReadEnable(false);
        try (OpenStore store = new OpenStore(config, false)) {
            StoreCheck.requireNoListeningSocket();
            for (int i = from; i < to; i++) {
                PutMessageResult put = store.messages.putMessage(message(i));
                if (!put.isOk()) {
                    throw new IllegalStateException("message " + i + ": " + put.getPutMessageStatus());
                }
            }
            store.awaitIdle();
            Question last = new Question();
            last.topic = "T";
            last.key = "u-" + (to - 1);
            last.type = "U";
            last.max = 1;
            long deadline = System.nanoTime() + INDEX_LIMIT_NS;
            while (ask(store, last, null).isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the index does not have message " + (to - 1));
                }
                Thread.sleep(20);
            }
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                long[] indexed = new long[1];
                List<Long> phys = ask(store, new Gson().fromJson(line, Question.class), indexed);
                System.out.println(Report.line("t", "answer", "phys", new Gson().toJson(phys), "lastPhy", indexed[0]));
            }
        }
    }

    private static List<Long> ask(OpenStore store, Question q, long[] last) {
        List<Long> phys = new ArrayList<>();
        QueryMessageResult r = store.messages.queryMessage(q.topic, q.key, q.max, 0, Long.MAX_VALUE, q.type, null);
        if (r == null) {
            throw new IllegalStateException("no answer to a question of type " + q.type + ", key " + q.key);
        }
        for (ByteBuffer b : r.getMessageBufferList()) {
            phys.add(b.getLong(b.position() + PHY_AT));
        }
        if (last != null) {
            last[0] = r.getIndexLastUpdatePhyoffset();
        }
        r.release();
        return phys;
    }

    private static MessageExtBrokerInner message(int i) throws Exception {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        m.setTopic("T");
        m.setQueueId(0);
        m.setBody(("message " + i).getBytes(StandardCharsets.UTF_8));
        MessageAccessor.putProperty(m, "KEYS", "k-" + i + " all all");
        MessageAccessor.putProperty(m, "UNIQ_KEY", "u-" + i);
        MessageAccessor.putProperty(m, "TAGS", "t");
        m.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode("t"));
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        m.setBornTimestamp(System.currentTimeMillis());
        InetSocketAddress self = new InetSocketAddress(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), 10911);
        m.setBornHost(self);
        m.setStoreHost(self);
        return m;
    }
}
