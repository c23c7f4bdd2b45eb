package tandemmq;

import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeMap;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** Sends messages to the queues a store already has, and demands that their numbers go on where the queues ended. */
final class Append {
    private static final String LMQ_PREFIX = "%LMQ%";

    private record Queue(String topic, int id) { }

    private final OpenStore store;
    private final List<Queue> targets = new ArrayList<>();
    private final List<String> lightQueues = new ArrayList<>();
    /** Next offset of each queue as it has to be, and as it was before the first message. */
    private final Map<String, Long> expected = new TreeMap<>();
    private final Map<String, Long> before = new TreeMap<>();

    Append(OpenStore store, boolean lmq) throws Exception {
        this.store = store;
        for (Map.Entry<String, SortedSet<Integer>> t : store.queues().entrySet()) {
            String topic = t.getKey();
            boolean light = topic.startsWith(LMQ_PREFIX);
            if (topic.equals("SCHEDULE_TOPIC_XXXX") || topic.startsWith("RMQ_SYS_") || topic.startsWith("rmq_sys_") || light && !lmq) {
                continue;
            }
            for (int id : t.getValue()) {
                before.put(name(topic, id), max(topic, id));
                if (light) {
                    lightQueues.add(topic);
                } else {
                    targets.add(new Queue(topic, id));
                }
            }
        }
        if (targets.isEmpty()) {
            throw new IllegalStateException("the store has no queue to append to");
        }
        expected.putAll(before);
    }

    private static String name(String topic, int id) {
        return topic + "/" + id;
    }

    private long max(String topic, int id) {
        ConsumeQueueInterface q = store.messages.getConsumeQueue(topic, id);
        return q == null ? 0 : q.getMaxOffsetInQueue();
    }

    /** Whether messages of a queue reach light queues: those of batch queues get numbers in them and no units. */
    private boolean dispatches(Queue from) {
        return !from.topic.startsWith("%RETRY%") && !from.topic.startsWith("%DLQ%")
            && store.messages.getConsumeQueue(from.topic, from.id).getCQType() != CQType.BatchCQ;
    }

    /** Puts count messages, waits until they are dispatched, and fails if any queue's numbers do not continue. */
    void run(int count, PrintStream out) throws Exception {
        for (int i = 0; i < count; i++) {
            Queue to = targets.get(i % targets.size());
            List<String> also = new ArrayList<>();
            for (int k = 0; dispatches(to) && k < i % 3 && k < lightQueues.size(); k++) {
                also.add(lightQueues.get((i + k) % lightQueues.size()));
            }
            PutMessageResult put = store.messages.putMessage(message(i, to, also));
            if (!put.isOk()) {
                throw new IllegalStateException("message " + i + " to " + name(to.topic, to.id) + ": " + put.getPutMessageStatus());
            }
            long want = expected.merge(name(to.topic, to.id), 1L, Long::sum) - 1;
            long got = put.getAppendMessageResult().getLogicsOffset();
            if (got != want) {
                throw new IllegalStateException("message " + i + " got offset " + got + " in " + name(to.topic, to.id) + ", want " + want);
            }
            also.forEach(q -> expected.merge(name(q, 0), 1L, Long::sum));
        }
        store.awaitIdle();
        for (Map.Entry<String, Long> e : expected.entrySet()) {
            int slash = e.getKey().lastIndexOf('/');
            String topic = e.getKey().substring(0, slash);
            int id = Integer.parseInt(e.getKey().substring(slash + 1));
            long after = max(topic, id);
            out.println(Report.line("t", "append", "topic", topic, "queueId", id, "before", before.get(e.getKey()), "after", after));
            if (after != e.getValue()) {
                throw new IllegalStateException("queue " + e.getKey() + " ends at " + after + ", want " + e.getValue());
            }
        }
    }

    private static MessageExtBrokerInner message(int i, Queue to, List<String> lightQueues) throws Exception {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        m.setTopic(to.topic);
        m.setQueueId(to.id);
        m.setBody(("appended message " + i).getBytes(StandardCharsets.UTF_8));
        m.setTags("Appended" + i % 3);
        m.setKeys("appended-" + i);
        if (!lightQueues.isEmpty()) {
            MessageAccessor.putProperty(m, "INNER_MULTI_DISPATCH", String.join(",", lightQueues));
        }
        m.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(m.getTags()));
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        m.setBornTimestamp(1_700_000_000_000L + i);
        InetSocketAddress self = new InetSocketAddress(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), 10911);
        m.setBornHost(self);
        m.setStoreHost(self);
        return m;
    }
}
