package tandemmq;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.zip.CRC32;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * Answers calls of the store's reads, each a JSON object on a line of its own, with one line each.
 *
 * <pre>
 * op          takes                                             answers
 * get         topic queueId offset count [bytes]                status next min max total slave messages
 *             [filterType expression]
 * time        topic queueId time upper                          value
 * storeTime   topic queueId offset                              value
 * earliest    topic queueId                                     value; of the whole store without a topic
 * min, max    topic queueId                                     value
 * look        offset                                            messages, the checksum of the body
 * select      offset                                            messages
 * query       topic key [indexType] count begin end             messages, value: the physical offset that the index has come to
 * </pre>
 *
 * A message is [queue offset, physical offset, size, CRC-32 of the record]; a number that the call does not tell is -1. A call that throws
 * answers {"failure":"..."}, one that answers null {"none":true}. Filters need the class BrokerFilters on the class path.
 */
final class Ask {
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();
    private static final String GROUP = "ask";

    private final DefaultMessageStore messages;
    private final PrintStream out;
    private BiFunction<String, String, MessageFilter> filters;

    private static final class Call {
        String op;
        String topic;
        int queueId;
        long offset;
        int count;
        Integer bytes;
        String filterType;
        String expression;
        boolean upper;
        long time;
        String key;
        String indexType;
        long begin;
        long end;
    }

    private static final class Answer {
        String status;
        Long next;
        Long min;
        Long max;
        Integer total;
        Boolean slave;
        List<long[]> messages;
        Long value;
        Boolean none;
        String failure;
    }

    Ask(OpenStore store, PrintStream out) {
        this.messages = store.messages;
        this.out = out;
    }

    void all(Path calls) throws IOException {
        try (BufferedReader in = Files.newBufferedReader(calls)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Answer answer = new Answer();
                try {
                    answer(JSON.fromJson(line, Call.class), answer);
                } catch (Exception | Error e) {
                    answer = new Answer();
                    answer.failure = e.toString();
                }
                out.println(JSON.toJson(answer));
            }
        }
    }

    private void answer(Call c, Answer a) throws Exception {
        switch (c.op) {
            case "get" -> get(c, a);
            case "time" -> a.value = messages.getOffsetInQueueByTime(c.topic, c.queueId, c.time, c.upper ? BoundaryType.UPPER : BoundaryType.LOWER);
            case "storeTime" -> a.value = messages.getMessageStoreTimeStamp(c.topic, c.queueId, c.offset);
            case "earliest" -> a.value = c.topic == null ? messages.getEarliestMessageTime() : messages.getEarliestMessageTime(c.topic, c.queueId);
            case "min" -> a.value = messages.getMinOffsetInQueue(c.topic, c.queueId);
            case "max" -> a.value = messages.getMaxOffsetInQueue(c.topic, c.queueId);
            case "look" -> look(c, a);
            case "select" -> {
                SelectMappedBufferResult one = messages.selectOneMessageByOffset(c.offset);
                if (one == null) {
                    a.none = true;
                } else {
                    a.messages = List.of(message(-1, one));
                    one.release();
                }
            }
            case "query" -> query(c, a);
            default -> throw new IllegalArgumentException("no such call: " + c.op);
        }
    }

    private void get(Call c, Answer a) throws Exception {
        MessageFilter filter = c.filterType == null ? null : filter(c.filterType, c.expression);
        GetMessageResult r = c.bytes == null
            ? messages.getMessage(GROUP, c.topic, c.queueId, c.offset, c.count, filter)
            : messages.getMessage(GROUP, c.topic, c.queueId, c.offset, c.count, c.bytes, filter);
        if (r == null) {
            a.none = true;
            return;
        }
        a.status = r.getStatus().name();
        a.next = r.getNextBeginOffset();
        a.min = r.getMinOffset();
        a.max = r.getMaxOffset();
        a.total = r.getBufferTotalSize();
        a.slave = r.isSuggestPullingFromSlave();
        a.messages = new ArrayList<>();
        for (int i = 0; i < r.getMessageMapedList().size(); i++) {
            a.messages.add(message(r.getMessageQueueOffset().get(i), r.getMessageMapedList().get(i)));
        }
        r.release();
    }

    private void look(Call c, Answer a) {
        MessageExt m = messages.lookMessageByOffset(c.offset);
        if (m == null) {
            a.none = true;
            return;
        }
        byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
        a.messages = List.of(new long[] {m.getQueueOffset(), m.getCommitLogOffset(), m.getStoreSize(), crc(ByteBuffer.wrap(body))});
    }

    private void query(Call c, Answer a) {
        QueryMessageResult r = c.indexType == null
            ? messages.queryMessage(c.topic, c.key, c.count, c.begin, c.end)
            : messages.queryMessage(c.topic, c.key, c.count, c.begin, c.end, c.indexType, null);
        a.value = r.getIndexLastUpdatePhyoffset();
        a.messages = new ArrayList<>();
        for (SelectMappedBufferResult one : r.getMessageMapedList()) {
            a.messages.add(message(-1, one));
        }
        r.release();
    }

    private static long[] message(long queueOffset, SelectMappedBufferResult m) {
        return new long[] {queueOffset, m.getStartOffset(), m.getSize(), crc(m.getByteBuffer().duplicate())};
    }

    private static long crc(ByteBuffer bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return crc.getValue();
    }

    @SuppressWarnings("unchecked")
    private MessageFilter filter(String type, String expression) throws Exception {
        if (filters == null) {
            filters = (BiFunction<String, String, MessageFilter>) Class.forName("tandemmq.BrokerFilters").getDeclaredConstructor().newInstance();
        }
        return filters.apply(type, expression);
    }
}
