package tandemmq;

import com.google.gson.Gson;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Works with a broker as an unmodified client of RocketMQ does.
 *
 * <pre>
 * ClientCheck NAMESERVER SCENARIO...
 * </pre>
 *
 * Several scenarios run at a time. Each prints one line: {"scenario": ..., and what came out of it}. One that fails prints {"scenario": ..., "error": ...}; the others go on. The exit
 * code is 0 if all could be run.
 */
@SuppressWarnings("deprecation") // what clients of today call
public final class ClientCheck {
    private static final long LIMIT_MS = 60_000;
    private static final int AT_A_TIME = 8; // they mostly wait
    private static final Gson GSON = new Gson();
    private static String nameServer;
    static DefaultMQProducer producer;
    private static final ExecutorService CLOSING = Executors.newCachedThreadPool();

    private ClientCheck() {
    }

    private interface Scenario {
        Object run() throws Exception;
    }

    public static void main(String[] words) throws Exception {
        nameServer = words[0];
        producer = new DefaultMQProducer("pg");
        prepare(producer);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        AtomicBoolean good = new AtomicBoolean(true);
        ExecutorService running = Executors.newFixedThreadPool(AT_A_TIME);
        for (String name : Arrays.asList(words).subList(1, words.length)) {
            running.execute(() -> good.compareAndSet(true, run(name)));
        }
        end(running);
        close(producer::shutdown);
        end(CLOSING);
        System.exit(good.get() ? 0 : 1);
    }

    private static boolean run(String name) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long begin = System.nanoTime();
        try {
            line.put("result", scenario(name).run());
        } catch (Exception e) {
            line.put("error", e.toString());
        }
        line.put("ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
        print(line);
        return !line.containsKey("error");
    }

    static synchronized void print(Map<String, Object> line) {
        System.out.println(GSON.toJson(line));
        System.out.flush();
    }

    /** Shuts a client down, which takes up to 3 s, in which other scenarios run. */
    static void close(Runnable shutdown) {
        CLOSING.execute(shutdown);
    }

    private static void end(ExecutorService pool) throws InterruptedException {
        pool.shutdown();
        if (!pool.awaitTermination(5, TimeUnit.MINUTES)) {
            throw new IllegalStateException("scenarios do not end");
        }
    }

    private static Scenario scenario(String name) {
        switch (name) {
            case "send":
                return ClientCheck::send;
            case "batch":
                return ClientCheck::batch;
            case "tags":
                return ClientCheck::tags;
            case "sql":
                return ClientCheck::sql;
            case "lite-assign":
                return ClientCheck::liteAssign;
            case "lite-subscribe":
                return ClientCheck::liteSubscribe;
            case "held":
                return ClientCheck::held;
            case "orderly":
                return ClientCheck::orderly;
            case "broadcast":
                return ClientCheck::broadcast;
            case "trace":
                return ClientCheck::trace;
            case "rebalance":
                return ClientCheck::rebalance;
            case "query":
                return ClientCheck::query;
            case "delay":
                return ClientCheck::delay;
            case "transaction":
                return ClientCheck::transaction;
            case "retry":
                return ClientCheck::retry;
            case "dead-letter":
                return ClientCheck::deadLetter;
            case "request":
                return ClientCheck::request;
            case "pull":
                return ClientEdges::pull;
            case "limits":
                return ClientEdges::limits;
            case "young":
                return ClientEdges::young;
            case "tls":
                return ClientEdges::tls;
            case "acl":
                return ClientEdges::acl;
            case "spread":
                return ClientSpread::run;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    /** Routes and heartbeats every second instead of every 30: what a client learns by them it learns soon. It has patience with a machine that has much to do. */
    static void prepare(ClientConfig client) {
        client.setNamesrvAddr(nameServer);
        client.setMqClientApiTimeout((int) LIMIT_MS);
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
    }

    static Message message(String topic, String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MessageExt m) {
        return new String(m.getBody(), StandardCharsets.UTF_8);
    }

    static void await(String what, BooleanSupplier done) throws InterruptedException {
        await(what, LIMIT_MS, done);
    }

    static void await(String what, long limitMs, BooleanSupplier done) throws InterruptedException {
        long until = System.currentTimeMillis() + limitMs;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > until) {
                throw new IllegalStateException("waited too long for " + what);
            }
            Thread.sleep(2);
        }
    }

    /** Bodies that a push consumer got, sorted. */
    static final class Push implements AutoCloseable {
        final DefaultMQPushConsumer consumer;
        final List<String> bodies = Collections.synchronizedList(new ArrayList<>());

        Push(String group, String instance) {
            this(group, instance, null);
        }

        Push(String group, String instance, RPCHook hook) {
            consumer = new DefaultMQPushConsumer(group, hook);
            prepare(consumer);
            consumer.setInstanceName(instance);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt m : messages) {
                    bodies.add(text(m));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }

        int distinct() {
            synchronized (bodies) {
                return Set.copyOf(bodies).size();
            }
        }

        List<String> waitFor(int n) throws InterruptedException {
            await(n + " messages", () -> bodies.size() >= n);
            List<String> got = new ArrayList<>(bodies);
            Collections.sort(got);
            return got;
        }

        @Override
        public void close() {
            ClientCheck.close(consumer::shutdown);
        }
    }

    private static Object send() throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        SendResult sync = producer.send(message("Send", "A", "sync"));
        out.put("sync", sync.getSendStatus().toString());
        CountDownLatch answered = new CountDownLatch(20);
        List<String> async = Collections.synchronizedList(new ArrayList<>());
        for (int i = 0; i < 20; i++) {
            producer.send(message("Send", "A", "async" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult r) {
                    async.add(r.getSendStatus().toString());
                    answered.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    async.add(e.toString());
                    answered.countDown();
                }
            });
        }
        if (!answered.await(LIMIT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("an asynchronous send was not answered");
        }
        out.put("async", new ArrayList<>(new java.util.TreeSet<>(async)));
        producer.sendOneway(message("Send", "A", "oneway"));
        String large = "x".repeat(5000);
        out.put("large", producer.send(message("Send", "A", large)).getSendStatus().toString()); // the client compresses it
        try (Push push = new Push("send-group", "send")) {
            push.consumer.subscribe("Send", "*");
            push.consumer.start();
            List<String> got = push.waitFor(23);
            out.put("consumed", got.size());
            out.put("largeIsWhole", got.contains(large));
            out.put("oneway", got.contains("oneway"));
        }
        return out;
    }

    private static Object batch() throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            messages.add(message("Batch", i % 2 == 0 ? "even" : "odd", "b" + i));
        }
        SendResult r = producer.send(messages);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("status", r.getSendStatus().toString());
        out.put("ids", r.getMsgId().split(",").length);
        out.put("offsetIds", r.getOffsetMsgId().split(",").length);
        try (Push push = new Push("batch-group", "batch")) { // each message's own tag counts
            push.consumer.subscribe("Batch", "odd");
            push.consumer.start();
            out.put("odd", push.waitFor(5));
        }
        return out;
    }

    private static Object tags() throws Exception {
        for (String tag : new String[] {"A", "B", "C", "A"}) {
            producer.send(message("Tags", tag, tag));
        }
        producer.send(message("Tags", "A", "last"));
        try (Push push = new Push("tags-group", "tags")) {
            push.consumer.subscribe("Tags", "A || B");
            push.consumer.start();
            return push.waitFor(4);
        }
    }

    private static Object sql() throws Exception {
        for (int i = 0; i < 10; i++) {
            Message m = message("Sql", "T", "s" + i);
            m.putUserProperty("a", String.valueOf(i));
            m.putUserProperty("b", i % 2 == 0 ? "x" : "y");
            producer.send(m);
        }
        try (Push push = new Push("sql-group", "sql")) {
            push.consumer.subscribe("Sql", MessageSelector.bySql("a > 5 AND b = 'x'"));
            push.consumer.start();
            return push.waitFor(2);
        }
    }

    private static DefaultLitePullConsumer lite(String group) {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(group);
        prepare(c);
        c.setInstanceName(group);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setAutoCommit(false);
        return c;
    }

    private static List<String> poll(DefaultLitePullConsumer c, int n) throws InterruptedException {
        List<String> got = new ArrayList<>();
        await(n + " messages", () -> {
            for (MessageExt m : c.poll(100)) {
                got.add(text(m));
            }
            return got.size() >= n;
        });
        Collections.sort(got);
        return got;
    }

    private static Object liteAssign() throws Exception {
        for (int i = 0; i < 8; i++) {
            producer.send(message("Lite", "A", "l" + i));
        }
        Map<String, Object> out = new LinkedHashMap<>();
        DefaultLitePullConsumer c = lite("lite-assign-group");
        c.start();
        try {
            List<MessageQueue> queues = new ArrayList<>(c.fetchMessageQueues("Lite"));
            out.put("queues", queues.size());
            c.assign(queues);
            out.put("got", poll(c, 8));
            c.commitSync();
            for (MessageQueue q : queues) {
                c.seek(q, 0);
            }
            out.put("again", poll(c, 8).size());
        } finally {
            close(c::shutdown);
        }
        return out;
    }

    private static Object liteSubscribe() throws Exception {
        for (int i = 0; i < 8; i++) {
            producer.send(message("LiteSubscribe", "A", "m" + i));
        }
        DefaultLitePullConsumer c = lite("lite-subscribe-group");
        c.subscribe("LiteSubscribe", "*");
        c.start();
        try {
            return poll(c, 8);
        } finally {
            close(c::shutdown);
        }
    }

    /** A message is sent while the consumer's pulls wait; it comes at once, in a fraction of the time that they wait. */
    private static Object held() throws Exception {
        producer.send(message("Held", "A", "first"));
        Map<String, Object> out = new LinkedHashMap<>();
        try (Push push = new Push("held-group", "held")) {
            push.consumer.subscribe("Held", "A");
            push.consumer.start();
            push.waitFor(1);
            Thread.sleep(1000); // all queues have been pulled to their end by now
            producer.send(message("Held", "B", "not wanted"));
            long sent = System.nanoTime();
            producer.send(message("Held", "A", "second"));
            push.waitFor(2);
            out.put("beforeTheEndOfTheWait", System.nanoTime() - sent < TimeUnit.SECONDS.toNanos(10));
            out.put("got", push.waitFor(2));
        }
        return out;
    }

    private static Object orderly() throws Exception {
        for (int i = 0; i < 40; i++) {
            int queue = i % 4;
            producer.send(message("Orderly", "A", String.format("%d-%02d", queue, i)), (queues, m, arg) -> queues.get((Integer) arg), queue);
        }
        Map<Integer, List<String>> byQueue = new ConcurrentHashMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer c = new DefaultMQPushConsumer("orderly-group");
            prepare(c);
            c.setInstanceName("orderly" + i);
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            c.subscribe("Orderly", "*");
            c.setMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt m : messages) {
                    byQueue.computeIfAbsent(m.getQueueId(), q -> Collections.synchronizedList(new ArrayList<>())).add(text(m));
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
            c.start();
            consumers.add(c);
        }
        try {
            await("40 messages in order", () -> byQueue.values().stream().mapToInt(List::size).sum() >= 40);
        } finally {
            for (DefaultMQPushConsumer c : consumers) {
                close(c::shutdown);
            }
        }
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("queues", byQueue.size());
        out.put("messages", byQueue.values().stream().mapToInt(List::size).sum());
        out.put("inOrder", byQueue.values().stream().allMatch(l -> {
            List<String> sorted = new ArrayList<>(l);
            Collections.sort(sorted);
            return sorted.equals(l);
        }));
        return out;
    }

    private static Object broadcast() throws Exception {
        try (Push one = new Push("broadcast-group", "broadcast1"); Push two = new Push("broadcast-group", "broadcast2")) {
            producer.send(message("Broadcast", "A", "0"));
            for (Push p : List.of(one, two)) {
                p.consumer.setMessageModel(MessageModel.BROADCASTING);
                p.consumer.subscribe("Broadcast", "*");
                p.consumer.start();
            }
            return List.of(one.waitFor(1), two.waitFor(1));
        }
    }

    /** What the client notes of its own sends, in a topic of its own. */
    private static Object trace() throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("trace-pg", null, true, "Traces");
        prepare(p);
        p.setInstanceName("trace");
        p.start();
        try (Push push = new Push("trace-group", "trace-consumer")) {
            String id = p.send(message("Traced", "A", "t")).getMsgId();
            push.consumer.subscribe("Traces", "*");
            push.consumer.start();
            String noted = push.waitFor(1).get(0);
            return List.of(noted.contains("Pub"), noted.contains("Traced"), noted.contains(id));
        } finally {
            close(p::shutdown);
        }
    }

    /** Two members share the queues; when one goes, the other has them all. */
    private static Object rebalance() throws Exception {
        producer.send(message("Rebalance", "A", "0"));
        try (Push one = new Push("rebalance-group", "rebalance1")) {
            one.consumer.subscribe("Rebalance", "*");
            one.consumer.start();
            one.waitFor(1);
            Push two = new Push("rebalance-group", "rebalance2");
            two.consumer.subscribe("Rebalance", "*");
            two.consumer.start();
            await("both to have queues", () -> queues(one) == 2 && queues(two) == 2);
            two.close();
            await("one to have all queues", () -> queues(one) == 4);
            for (int i = 1; i < 9; i++) {
                producer.send(message("Rebalance", "A", String.valueOf(i)));
            }
            return one.waitFor(9);
        }
    }

    private static long queues(Push p) {
        return p.consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(q -> q.getTopic().equals("Rebalance")).count();
    }

    private static Object query() throws Exception {
        Message m = message("Query", "A", "q");
        m.setKeys("key1 key2");
        long before = System.currentTimeMillis();
        SendResult r = producer.send(m);
        Map<String, Object> out = new LinkedHashMap<>();
        List<MessageExt> found = new ArrayList<>();
        await("the index", () -> {
            try {
                found.addAll(producer.queryMessage("Query", "key2", 32, 0, Long.MAX_VALUE).getMessageList());
            } catch (Exception e) {
                return false; // none yet
            }
            return true;
        });
        out.put("byKey", text(found.get(0)));
        out.put("byUniqueKey", text(producer.viewMessage("Query", r.getMsgId())));
        out.put("byOffsetId", text(producer.viewMessage("Query", r.getOffsetMsgId())));
        MessageQueue q = r.getMessageQueue();
        out.put("max", producer.maxOffset(q) - r.getQueueOffset());
        out.put("min", producer.minOffset(q));
        out.put("byTime", producer.searchOffset(q, before) - r.getQueueOffset());
        out.put("earliestIsNotBefore", producer.earliestMsgStoreTime(q) >= before - 60_000);
        return out;
    }

    private static Object delay() throws Exception {
        Message m = message("Delay", "A", "later");
        m.setDelayTimeLevel(2);
        long sent = System.currentTimeMillis();
        producer.send(m);
        producer.send(message("Delay", "A", "now"));
        Map<String, Object> out = new LinkedHashMap<>();
        try (Push push = new Push("delay-group", "delay")) {
            push.consumer.subscribe("Delay", "*");
            push.consumer.start();
            out.put("got", push.waitFor(2));
            out.put("notBeforeItsTime", System.currentTimeMillis() - sent >= 1000);
        }
        return out;
    }

    /** Three transactions: one commits, one rolls back, and one says nothing until it is asked. */
    private static Object transaction() throws Exception {
        List<String> asked = Collections.synchronizedList(new ArrayList<>());
        TransactionMQProducer p = new TransactionMQProducer("transaction-producers");
        prepare(p);
        p.setInstanceName("transaction");
        p.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return (LocalTransactionState) arg;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                asked.add(text(m));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        p.start();
        Map<String, Object> out = new LinkedHashMap<>();
        try (Push push = new Push("transaction-group", "transaction-consumer")) {
            p.sendMessageInTransaction(message("Transaction", "A", "committed"), LocalTransactionState.COMMIT_MESSAGE);
            p.sendMessageInTransaction(message("Transaction", "A", "rolled back"), LocalTransactionState.ROLLBACK_MESSAGE);
            p.sendMessageInTransaction(message("Transaction", "A", "unknown"), LocalTransactionState.UNKNOW);
            push.consumer.subscribe("Transaction", "*");
            push.consumer.start();
            out.put("got", push.waitFor(2));
            out.put("asked", new java.util.TreeSet<>(asked));
        } finally {
            close(p::shutdown);
        }
        return out;
    }

    /** A message that its consumer wants later comes again, each time with a higher count. */
    private static Object retry() throws Exception {
        List<Integer> times = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer c = new DefaultMQPushConsumer("retry-group");
        prepare(c);
        c.setInstanceName("retry");
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe("Retry", "*");
        c.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                times.add(m.getReconsumeTimes());
            }
            return times.size() < 4 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        producer.send(message("Retry", "A", "r"));
        c.start();
        try {
            await("the fourth time", () -> times.size() >= 4);
        } finally {
            close(c::shutdown);
        }
        return times;
    }

    private static Object deadLetter() throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer("dead-group");
        prepare(c);
        c.setInstanceName("dead");
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setMaxReconsumeTimes(0);
        c.subscribe("Dead", "*");
        c.setMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.RECONSUME_LATER);
        producer.send(message("Dead", "A", "d"));
        c.start();
        List<MessageExt> got = new ArrayList<>();
        DefaultLitePullConsumer dead = lite("dead-reader");
        try {
            await("the dead letter's topic", () -> {
                try {
                    return !producer.fetchPublishMessageQueues("%DLQ%dead-group").isEmpty();
                } catch (Exception e) {
                    return false; // not yet
                }
            });
            dead.start();
            dead.assign(new ArrayList<>(dead.fetchMessageQueues("%DLQ%dead-group")));
            await("the dead letter", () -> got.addAll(dead.poll(100)) || !got.isEmpty());
        } finally {
            close(dead::shutdown);
            close(c::shutdown);
        }
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("body", text(got.get(0)));
        out.put("topic", got.get(0).getProperty("RETRY_TOPIC"));
        return out;
    }

    private static Object request() throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer("replier");
        prepare(replier);
        replier.setInstanceName("replier");
        replier.start();
        DefaultMQPushConsumer c = new DefaultMQPushConsumer("request-group");
        prepare(c);
        c.setInstanceName("request");
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe("Request", "*");
        c.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                try {
                    replier.send(MessageUtil.createReplyMessage(m, ("re: " + text(m)).getBytes(StandardCharsets.UTF_8)));
                } catch (Exception e) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        try {
            Message answer = producer.request(message("Request", "A", "question"), LIMIT_MS);
            return new String(answer.getBody(), StandardCharsets.UTF_8);
        } finally {
            close(c::shutdown);
            close(replier::shutdown);
        }
    }
}
