package tandemmq;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.zip.CRC32;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.ConsumeQueueStoreInterface;
import org.apache.rocketmq.store.queue.CqUnit;

/** Prints what a store serves: for each queue a line, then a line for each message of it, as in the golden manifests. */
final class Report {
    private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private static final int PULL = 32;
    private static final int UNIT_BYTES = 20;
    private static final int MAGIC_AT = 4;
    private static final int PHY_OFFSET_AT = 28;
    private static final int MAGIC_V2 = -626843477;

    private final OpenStore store;
    private final DefaultMessageStore messages;
    private final PrintStream out;
    private final boolean log;

    Report(OpenStore store, PrintStream out, boolean log) {
        this.store = store;
        this.messages = store.messages;
        this.out = out;
        this.log = log;
    }

    static String line(Object... namesAndValues) {
        return JSON.toJson(object(namesAndValues));
    }

    private static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> o = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            o.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return o;
    }

    /** Reads everything. A message that cannot be served, or is not the one its unit names, becomes a line of its own kind. */
    void all() throws Exception {
        long served = 0;
        long queueCount = 0;
        for (Map.Entry<String, SortedSet<Integer>> topic : store.queues().entrySet()) {
            for (int queueId : topic.getValue()) {
                served += queue(topic.getKey(), queueId);
                queueCount++;
            }
        }
        if (log) {
            records();
        }
        out.println(line("t", "commitlog", "min", messages.getMinPhyOffset(), "max", messages.getMaxPhyOffset()));
        out.println(line("t", "end", "queues", queueCount, "messages", served));
    }

    private int queue(String topic, int queueId) throws Exception {
        ConsumeQueueInterface queue = messages.getConsumeQueue(topic, queueId);
        long min = messages.getMinOffsetInQueue(topic, queueId);
        long max = queue.getMaxOffsetInQueue();
        List<String> lines = new ArrayList<>();
        TreeSet<Long> times = new TreeSet<>();
        Object stuck = null;
        int served = 0;
        for (long at = min; at < max;) {
            GetMessageResult pulled = messages.getMessage("storecheck", topic, queueId, at, PULL, null);
            try {
                if (pulled.getStatus() != GetMessageStatus.FOUND && stuck == null) {
                    stuck = object("at", at, "status", pulled.getStatus().name(), "next", pulled.getNextBeginOffset());
                }
                List<SelectMappedBufferResult> found = pulled.getMessageMapedList();
                for (int i = 0; i < found.size(); i++) {
                    long queueOffset = pulled.getMessageQueueOffset().get(i);
                    lines.add(message(topic, queueId, queueOffset, queue.get(queueOffset), found.get(i), times));
                    served++;
                }
                if (pulled.getNextBeginOffset() <= at) {
                    break;
                }
                at = pulled.getNextBeginOffset();
            } finally {
                pulled.release();
            }
        }
        Map<String, Object> head = object("t", "queue", "topic", topic, "queueId", queueId, "min", min, "max", max, "readable", served);
        if (stuck != null) {
            head.put("stuck", stuck);
        }
        head.put("file", side(store.fileQueues, topic, queueId));
        head.put("rocks", side(store.rocksQueues, topic, queueId));
        head.put("byTime", byTime(topic, queueId, times));
        out.println(JSON.toJson(head));
        lines.forEach(out::println);
        return served;
    }

    private static String message(String topic, int queueId, long queueOffset, CqUnit unit, SelectMappedBufferResult found,
        SortedSet<Long> times) throws Exception {
        byte[] record = new byte[found.getSize()];
        found.getByteBuffer().duplicate().get(record);
        ByteBuffer head = ByteBuffer.wrap(record);
        MessageExt m = MessageDecoder.decode(ByteBuffer.wrap(record), true, false, false);
        if (m == null || unit == null || head.getInt(0) != record.length || head.getLong(PHY_OFFSET_AT) != unit.getPos()) {
            return line("t", "bad", "topic", topic, "queueId", queueId, "queueOffset", queueOffset,
                "commitLogOffset", unit == null ? null : unit.getPos(), "size", record.length);
        }
        times.add(m.getStoreTimestamp());
        Map<String, Object> o = object("t", "msg", "topic", topic, "queueId", queueId, "queueOffset", queueOffset);
        o.putAll(content(m, record, unit.getPos(), unit.getTagsCode()));
        if (!m.getTopic().equals(topic) || m.getQueueId() != queueId || m.getQueueOffset() != queueOffset) {
            o.put("msgTopic", m.getTopic());
            o.put("msgQueueId", m.getQueueId());
            o.put("msgQueueOffset", m.getQueueOffset());
        }
        return JSON.toJson(o);
    }

    private static Map<String, Object> content(MessageExt m, byte[] record, long phyOffset, long tagsCode) {
        ByteBuffer head = ByteBuffer.wrap(record);
        byte[] body = body(m);
        return object("commitLogOffset", phyOffset, "size", record.length, "storeTimestamp", m.getStoreTimestamp(),
            "tagsCode", tagsCode, "msgId", m.getMsgId(), "crc32", crc(body), "keys", m.getKeys(), "tags", m.getTags(),
            "uniqKey", m.getProperty("UNIQ_KEY"), "bodyLen", body.length, "sysFlag", m.getSysFlag(), "flag", m.getFlag(),
            "bornTimestamp", m.getBornTimestamp(), "bornHost", m.getBornHostString(), "storeHost", m.getStoreHost().toString(),
            "reconsumeTimes", m.getReconsumeTimes(), "preparedTransactionOffset", m.getPreparedTransactionOffset(),
            "magicV2", head.getInt(MAGIC_AT) == MAGIC_V2, "rawCrc32", crc(record));
    }

    /**
     * Prints every record of the log, those too that are in no queue, with its properties and the messages within it. Each has
     * to pass the check that recovery and dispatch put it through; one that does not is a line of its own kind, and the last.
     */
    private void records() throws Exception {
        int fileSize = messages.getMessageStoreConfig().getMappedFileSizeCommitLog();
        for (long at = messages.getMinPhyOffset(); at < messages.getMaxPhyOffset();) {
            SelectMappedBufferResult rest = messages.getCommitLogData(at);
            try {
                ByteBuffer bytes = rest.getByteBuffer();
                DispatchRequest checked = messages.getCommitLog().checkMessageAndReturnSize(bytes.duplicate(), true, false, true);
                int size = checked.getMsgSize();
                if (!checked.isSuccess()) {
                    out.println(line("t", "bad", "commitLogOffset", at, "size", size));
                    return;
                }
                if (size > 0) {
                    byte[] record = new byte[size];
                    bytes.get(record);
                    out.println(JSON.toJson(record(at, record, checked.getTagsCode())));
                }
                at = size > 0 ? at + size : at - at % fileSize + fileSize;
            } finally {
                rest.release();
            }
        }
    }

    private static Map<String, Object> record(long at, byte[] record, long tagsCode) throws Exception {
        MessageExt m = MessageDecoder.decode(ByteBuffer.wrap(record), true, false, false);
        Map<String, Object> o = object("t", "rec", "topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset());
        o.putAll(content(m, record, at, tagsCode));
        o.put("properties", m.getProperties());
        if ((m.getSysFlag() & MessageSysFlag.INNER_BATCH_FLAG) != 0) {
            List<MessageExt> within = new ArrayList<>();
            MessageDecoder.decodeMessage(m, within);
            o.put("within", within.stream().map(i -> object("queueOffset", i.getQueueOffset(), "flag", i.getFlag(),
                "bodyLen", body(i).length, "crc32", crc(body(i)), "properties", i.getProperties())).toList());
        }
        return o;
    }

    /** The decoder has no body for a message with an empty one. */
    private static byte[] body(MessageExt m) {
        return m.getBody() == null ? new byte[0] : m.getBody();
    }

    private static long crc(byte[] b) {
        CRC32 crc = new CRC32();
        crc.update(b);
        return crc.getValue();
    }

    /** What one kind of queue holds between its own bounds, whichever kind the messages were read through. */
    private static Map<String, Object> side(ConsumeQueueStoreInterface kind, String topic, int queueId) {
        if (kind == null) {
            return null;
        }
        ConsumeQueueInterface queue = kind.findOrCreateConsumeQueue(topic, queueId);
        long min = queue.getMinOffsetInQueue();
        long max = queue.getMaxOffsetInQueue();
        CRC32 crc = new CRC32();
        long unreadable = 0;
        for (long n = min; n < max; n++) {
            CqUnit unit = queue.get(n);
            if (unit == null) {
                unreadable++;
                continue;
            }
            crc.update(ByteBuffer.allocate(UNIT_BYTES).putLong(unit.getPos()).putInt(unit.getSize()).putLong(unit.getTagsCode()).flip());
        }
        return object("min", min, "max", max, "cqCrc32", crc.getValue(), "unreadable", unreadable);
    }

    /**
     * Answers of the search by time around the first and the last store time and at two points between. For RocksDB
     * queues this is the one read that depends on the store time in the unit.
     */
    private List<Object> byTime(String topic, int queueId, TreeSet<Long> times) throws Exception {
        List<Object> answers = new ArrayList<>();
        if (times.isEmpty()) {
            return answers;
        }
        List<Long> distinct = new ArrayList<>(times);
        int count = distinct.size();
        TreeSet<Long> samples = new TreeSet<>(List.of(distinct.get(count / 3) + 1, distinct.get(2 * count / 3)));
        samples.add(times.first() - 1);
        samples.add(times.first());
        samples.add(times.last());
        samples.add(times.last() + 1);
        for (long ts : samples) {
            answers.add(object("ts", ts,
                "lower", messages.getOffsetInQueueByTime(topic, queueId, ts, BoundaryType.LOWER),
                "upper", messages.getOffsetInQueueByTime(topic, queueId, ts, BoundaryType.UPPER)));
        }
        return answers;
    }
}
