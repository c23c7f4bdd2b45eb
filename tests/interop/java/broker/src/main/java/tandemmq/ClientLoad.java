package tandemmq;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages to a topic, or consumes those that are there, as fast as RocketMQ's client does.
 *
 * <pre>
 * ClientLoad NAMESERVER send TOPIC MESSAGES THREADS      each thread one message after the other, 1 KiB with tag and key
 * ClientLoad NAMESERVER consume TOPIC MESSAGES           each message once, or it fails
 *
 * begin                when all is ready; it goes on when a line has come in
 * end NANOSECONDS      when the last message was acknowledged, or consumed
 * </pre>
 */
public final class ClientLoad {
    private static final int BODY_BYTES = 1024;
    private static final int WARM_UP = 2000;
    private static final int ROUTE_TRIES = 120;
    private static final int ROUTE_PAUSE_MILLIS = 250;

    private ClientLoad() {
    }

    public static void main(String[] words) {
        int status = 1; // the client's threads would keep a process that has failed
        try {
            int messages = Integer.parseInt(words[3]);
            if (words[1].equals("send")) {
                send(words[0], words[2], messages, Integer.parseInt(words[4]));
            } else {
                consume(words[0], words[2], messages);
            }
            status = 0;
        } catch (Throwable e) {
            e.printStackTrace();
        }
        System.exit(status);
    }

    /** Sends the first message once the broker's routes are known: it registers a little after it serves. */
    private static void first(DefaultMQProducer producer, String topic) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                producer.fetchPublishMessageQueues(topic);
                producer.send(message(topic + "_warm", 0));
                return;
            } catch (MQClientException e) {
                if (tries == ROUTE_TRIES) {
                    throw e;
                }
                Thread.sleep(ROUTE_PAUSE_MILLIS);
            }
        }
    }

    private static long begin() throws Exception {
        System.out.println("begin");
        System.out.flush();
        while (System.in.read() != '\n') { // a line
            continue;
        }
        return System.nanoTime();
    }

    private static void end(long begun) {
        System.out.println("end " + (System.nanoTime() - begun));
        System.out.flush();
    }

    private static Message message(String topic, int n) {
        byte[] body = new byte[BODY_BYTES];
        Arrays.fill(body, (byte) 'b');
        byte[] number = String.valueOf(n).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(number, 0, body, 0, number.length);
        return new Message(topic, "TagA", "key-" + n, body);
    }

    private static void send(String nameServer, String topic, int messages, int threads) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("load_producer");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        first(producer, topic);
        for (int i = 1; i < WARM_UP; i++) {
            producer.send(message(topic + "_warm", i));
        }
        producer.fetchPublishMessageQueues(topic); // the route is known when the clock starts
        AtomicInteger next = new AtomicInteger();
        AtomicReference<String> fault = new AtomicReference<>();
        CountDownLatch done = new CountDownLatch(threads);
        CountDownLatch go = new CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            new Thread(() -> {
                try {
                    go.await();
                    for (int n = next.getAndIncrement(); n < messages; n = next.getAndIncrement()) {
                        SendResult r = producer.send(message(topic, n));
                        if (r.getSendStatus() != SendStatus.SEND_OK) {
                            throw new IllegalStateException("message " + n + ": " + r.getSendStatus());
                        }
                    }
                } catch (Exception e) {
                    fault.set(e.toString());
                } finally {
                    done.countDown();
                }
            }).start();
        }
        long begun = begin();
        go.countDown();
        done.await();
        if (fault.get() != null) {
            throw new IllegalStateException(fault.get());
        }
        end(begun);
        producer.shutdown();
    }

    private static void consume(String nameServer, String topic, int messages) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("load_consumer");
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(topic, "*");
        ConcurrentHashMap<String, Boolean> seen = new ConcurrentHashMap<>();
        AtomicReference<String> fault = new AtomicReference<>();
        CountDownLatch left = new CountDownLatch(messages);
        consumer.setMessageListener((MessageListenerConcurrently) (list, context) -> {
            for (MessageExt m : list) {
                if (seen.put(m.getQueueId() + "/" + m.getQueueOffset(), true) != null) {
                    fault.set("queue " + m.getQueueId() + " at " + m.getQueueOffset() + ": consumed twice");
                }
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        long begun = begin();
        consumer.start();
        left.await();
        if (fault.get() != null) {
            throw new IllegalStateException(fault.get());
        }
        end(begun);
        consumer.shutdown();
    }
}
