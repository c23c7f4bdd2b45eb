package tandemmq;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * A producer and a consumer of a topic that two brokers have, of which one goes and comes back. Each state is told by a line {"event": ..., "brokers": ...} once the last sends show
 * it; the process that runs this stops and starts the broker.
 */
final class ClientSpread {
    /** The last so many sends are looked at: each broker has 2 queues, and the producer takes all in turn. */
    private static final int LAST = 8;
    /** For the other process to do what it does, and for the consumer to take its queues again, which it looks at every 20 s. */
    private static final long LIMIT_MS = 180_000;

    private final DefaultMQProducer producer = new DefaultMQProducer("spread-pg");
    private final Deque<String> last = new ArrayDeque<>();
    private int sent;
    private final List<String> failed = new ArrayList<>();

    private ClientSpread() {
    }

    static Object run() throws Exception {
        return new ClientSpread().spread();
    }

    private Object spread() throws Exception {
        ClientCheck.prepare(producer);
        producer.setInstanceName("spread-producer");
        producer.setSendMsgTimeout(30_000);
        producer.start();
        try (ClientCheck.Push push = new ClientCheck.Push("spread-group", "spread-consumer")) {
            push.consumer.subscribe("Spread", "*");
            push.consumer.start();
            sendUntil("both", brokers -> brokers.size() == 2);
            sendUntil("one", brokers -> brokers.size() == 1);
            sendUntil("both again", brokers -> brokers.size() == 2);
            ClientCheck.await(sent + " messages", LIMIT_MS, () -> push.distinct() >= sent);
            Map<String, Object> out = new LinkedHashMap<>();
            out.put("allConsumed", push.distinct() == sent);
            out.put("failedSends", failed);
            return out;
        } finally {
            ClientCheck.close(producer::shutdown);
        }
    }

    private void sendUntil(String event, Predicate<Set<String>> reached) throws Exception {
        last.clear();
        ClientCheck.await(event, LIMIT_MS, () -> {
            try {
                last.add(producer.send(ClientCheck.message("Spread", "A", "s" + sent)).getMessageQueue().getBrokerName());
                sent++;
            } catch (Exception e) {
                failed.add(e.toString());
            }
            if (last.size() > LAST) {
                last.remove();
            }
            return last.size() == LAST && reached.test(new TreeSet<>(last));
        });
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("brokers", new TreeSet<>(last));
        ClientCheck.print(line);
    }
}
