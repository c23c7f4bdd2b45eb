package tandemmq;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Scenarios of ClientCheck in which something is refused, or the connection is another. */
@SuppressWarnings("deprecation") // what clients of today call
final class ClientEdges {
    private ClientEdges() {
    }

    /** Pulls from where a queue has nothing are told where it has. */
    static Object pull() throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer("pull-group");
        ClientCheck.prepare(c);
        c.setInstanceName("pull");
        c.start();
        try {
            MessageQueue q = ClientCheck.producer.send(ClientCheck.message("Pull", "A", "p")).getMessageQueue();
            MessageQueue empty = new MessageQueue(q.getTopic(), q.getBrokerName(), (q.getQueueId() + 1) % 4);
            Map<String, Object> out = new LinkedHashMap<>();
            ClientCheck.await("the message", () -> {
                try {
                    return c.maxOffset(q) == 1;
                } catch (MQClientException e) {
                    return false; // not yet
                }
            });
            out.put("there", text(c.pull(q, "*", 0, 32)));
            out.put("beyond", text(c.pull(q, "*", 100, 32)));
            out.put("empty", text(c.pull(empty, "*", 5, 32)));
            return out;
        } finally {
            ClientCheck.close(c::shutdown);
        }
    }

    private static String text(PullResult r) {
        int found = r.getMsgFoundList() == null ? 0 : r.getMsgFoundList().size();
        return r.getPullStatus() + " " + found + " next " + r.getNextBeginOffset();
    }

    /** What comes back from sends of names and sizes at the limits. */
    static Object limits() throws Exception {
        DefaultMQProducer large = new DefaultMQProducer("limits-pg");
        ClientCheck.prepare(large);
        large.setInstanceName("limits");
        large.setMaxMessageSize(16 << 20);
        large.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        large.setSendMsgTimeout(30_000);
        large.start();
        try {
            Map<String, Object> out = new LinkedHashMap<>();
            out.put("name of 127", code(() -> large.send(new Message("n".repeat(127), new byte[1]))));
            out.put("name of 128", code(() -> large.send(new Message("n".repeat(128), new byte[1]))));
            out.put("system topic", code(() -> large.send(new Message("SCHEDULE_TOPIC_XXXX", new byte[1]))));
            out.put("body of 4 MiB", code(() -> large.send(new Message("Limits", new byte[4 << 20]))));
            out.put("body of 4 MiB + 1", code(() -> large.send(new Message("Limits", new byte[(4 << 20) + 1]))));
            return out;
        } finally {
            ClientCheck.close(large::shutdown);
        }
    }

    /** What a call comes to: OK, the code of the broker's answer, or "client" where the client itself refuses. */
    private static String code(Callable<?> call) throws Exception {
        try {
            call.call();
            return "OK";
        } catch (MQBrokerException e) {
            return String.valueOf(e.getResponseCode());
        } catch (MQClientException e) {
            if (e.getCause() instanceof MQBrokerException) {
                return String.valueOf(((MQBrokerException) e.getCause()).getResponseCode());
            }
            return e.getResponseCode() > 0 ? String.valueOf(e.getResponseCode()) : "client";
        }
    }

    /** A new group that begins with the last message: on a young topic that is the first. */
    static Object young() throws Exception {
        ClientCheck.producer.send(ClientCheck.message("Young", "A", "first"));
        try (ClientCheck.Push push = new ClientCheck.Push("young-group", "young")) {
            push.consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            push.consumer.subscribe("Young", "*");
            push.consumer.start();
            return push.waitFor(1);
        }
    }

    /** One client with TLS and one without, and one that uses the second port. */
    static Object tls() throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        try (ClientCheck.Push push = new ClientCheck.Push("tls-group", "tls-consumer")) {
            push.consumer.setUseTLS(true);
            for (String name : List.of("plain", "tls", "vip")) {
                DefaultMQProducer p = new DefaultMQProducer("tls-pg");
                ClientCheck.prepare(p);
                p.setInstanceName("tls-" + name);
                p.setUseTLS(name.equals("tls"));
                p.setVipChannelEnabled(name.equals("vip"));
                p.setSendMsgTimeout(30_000);
                p.start();
                out.put(name, p.send(ClientCheck.message("Tls", "A", name)).getSendStatus().toString());
                ClientCheck.close(p::shutdown);
            }
            push.consumer.subscribe("Tls", "*");
            push.consumer.start();
            out.put("got", push.waitFor(3));
        }
        return out;
    }

    private static RPCHook key(String access, String secret) {
        return new AclClientRPCHook(new SessionCredentials(access, secret));
    }

    private static String sendAs(String name, RPCHook hook, String topic) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("acl-pg", hook);
        ClientCheck.prepare(p);
        p.setInstanceName("acl-" + name);
        p.setSendMsgTimeout(30_000);
        p.start();
        try {
            return code(() -> p.send(new Message(topic, "A", name.getBytes(StandardCharsets.UTF_8))));
        } finally {
            ClientCheck.close(p::shutdown);
        }
    }

    private static String createTopicAs(String name, RPCHook hook) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook);
        ClientCheck.prepare(admin);
        admin.setInstanceName("acl-" + name);
        admin.start();
        try {
            String addr = admin.examineBrokerClusterInfo().getBrokerAddrTable().values().iterator().next().selectBrokerAddr();
            return code(() -> {
                admin.createAndUpdateTopicConfig(addr, new TopicConfig("AclMade", 1, 1));
                return null;
            });
        } finally {
            ClientCheck.close(admin::shutdown);
        }
    }

    /** Clients with access keys, right and wrong ones, against a broker with rules. */
    static Object acl() throws Exception {
        RPCHook admin = key("adminKey", "admin-secret");
        RPCHook producer = key("producerKey", "producer-secret");
        RPCHook consumer = key("consumerKey", "consumer-secret");
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("allowed", sendAs("allowed", producer, "AclOpen"));
        out.put("wrong secret", sendAs("wrong-secret", key("producerKey", "another-secret"), "AclOpen"));
        out.put("unknown key", sendAs("unknown-key", key("nobody", "producer-secret"), "AclOpen"));
        out.put("no key", sendAs("no-key", null, "AclOpen"));
        out.put("forbidden topic", sendAs("forbidden", producer, "AclClosed"));
        out.put("consumer sends", sendAs("consumer-sends", consumer, "AclOpen"));
        out.put("admin refused", createTopicAs("admin-refused", producer));
        out.put("admin", createTopicAs("admin", admin));
        try (ClientCheck.Push push = new ClientCheck.Push("acl-group", "acl-consumer", consumer);
             ClientCheck.Push other = new ClientCheck.Push("acl-group-of-nobody", "acl-other", consumer)) {
            other.consumer.subscribe("AclOpen", "*");
            other.consumer.start();
            push.consumer.subscribe("AclOpen", "*");
            push.consumer.start();
            out.put("consumed", push.waitFor(1));
            out.put("by a group without rights", other.bodies.size());
        }
        return out;
    }
}
