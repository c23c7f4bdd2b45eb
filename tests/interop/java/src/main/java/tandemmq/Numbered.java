package tandemmq;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;

/**
 * Messages that follow from their numbers, as bench/load has them: number n goes to queue n of all in turn, queues of one topic side by side. Each carries a tag, a key and
 * a unique key, which the index gets. It is made as a broker makes it from a request, with its properties as a map and already as one string.
 */
final class Numbered {
    private static final long FIRST_KEY = 1_000_000_000_000L;
    private static final long FIRST_UNIQUE_KEY = 100_000_000_000L;

    /** Of each topic. */
    final int queues;
    private final String[] topics;
    private final byte[] body;
    private final InetSocketAddress self;

    Numbered(int topics, int queues, int body) throws UnknownHostException {
        this.queues = queues;
        this.topics = new String[topics];
        for (int t = 0; t < topics; t++) {
            this.topics[t] = "bench_" + t;
        }
        this.body = new byte[body];
        Arrays.fill(this.body, (byte) 'b');
        self = new InetSocketAddress(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), 10911);
    }

    /** How many queues there are; message n is at offset n / all() of its queue, where one producer puts them. */
    int all() {
        return topics.length * queues;
    }

    String topic(long n) {
        return topics[(int) (n / queues % topics.length)];
    }

    int queueId(long n) {
        return (int) (n % queues);
    }

    static String key(long n) {
        return "key-" + (FIRST_KEY + n);
    }

    static String uniqueKey(long n) {
        return "7F000001000018B4AAC2" + (FIRST_UNIQUE_KEY + n);
    }

    MessageExtBrokerInner message(long n) {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        m.setTopic(topic(n));
        m.setQueueId(queueId(n));
        m.setBody(body);
        m.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode("TagA"));
        String key = key(n);
        String uniqueKey = uniqueKey(n);
        MessageAccessor.putProperty(m, "KEYS", key);
        MessageAccessor.putProperty(m, "UNIQ_KEY", uniqueKey);
        MessageAccessor.putProperty(m, "TAGS", "TagA");
        m.setPropertiesString("KEYS\u0001" + key + "\u0002UNIQ_KEY\u0001" + uniqueKey + "\u0002TAGS\u0001TagA\u0002");
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(self);
        m.setStoreHost(self);
        return m;
    }
}
