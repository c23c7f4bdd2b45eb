package tandemmq;

import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Loads topics, consumer groups and consumer offsets of a store directory as a broker does at its start, and prints what it then has. With "make" it then makes some first.
 *
 * <pre>
 * ConfigCheck DIR default|defaultRocksDB [single] [lmq] [make SUFFIX] [delete TOPIC]
 *
 * loaded true|false                   of the offsets
 * counter N                           of the offsets' version
 * version topics|groups|offsets N STATE TIME
 * topic JSON                          one line for each
 * group JSON
 * forbidden GROUP TOPIC BITS
 * offset TOPIC@GROUP QUEUE OFFSET
 * </pre>
 *
 * The broker is made and never started: it listens on no port.
 */
public final class ConfigCheck {
    private ConfigCheck() {
    }

    public static void main(String[] words) throws Exception {
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(words[0]);
        store.setStoreType(words[1]);
        BrokerConfig config = new BrokerConfig();
        config.setBrokerClusterName("c");
        config.setBrokerName("b");
        String make = null;
        String delete = null;
        for (int i = 2; i < words.length; i++) {
            switch (words[i]) {
                case "single" -> config.setUseSingleRocksDBForAllConfigs(true);
                case "lmq" -> store.setEnableLmq(true);
                case "make" -> make = words[++i];
                case "delete" -> delete = words[++i];
                default -> throw new IllegalArgumentException(words[i]);
            }
        }
        BrokerController broker = new BrokerController(config, new NettyServerConfig(), new NettyClientConfig(), store);
        TopicConfigManager topics = broker.getTopicConfigManager();
        SubscriptionGroupManager groups = broker.getSubscriptionGroupManager();
        ConsumerOffsetManager offsets = broker.getConsumerOffsetManager();
        topics.load();
        groups.load();
        System.out.println("loaded " + offsets.load());
        if (make != null) {
            make(topics, groups, offsets, make);
        }
        if (delete != null) {
            topics.deleteTopicConfig(delete);
        }
        System.out.println("counter " + offsets.getDataVersion().getCounter().get());
        version("topics", topics.getDataVersion());
        version("groups", groups.getDataVersion());
        version("offsets", offsets.getDataVersion());
        for (TopicConfig topic : topics.getTopicConfigTable().values()) {
            System.out.println("topic " + RemotingSerializable.toJson(topic, false));
        }
        for (SubscriptionGroupConfig group : groups.getSubscriptionGroupTable().values()) {
            System.out.println("group " + RemotingSerializable.toJson(group, false));
        }
        for (Map.Entry<String, ConcurrentMap<String, Integer>> row : groups.getForbiddenTable().entrySet()) {
            for (Map.Entry<String, Integer> topic : row.getValue().entrySet()) {
                System.out.println("forbidden " + row.getKey() + " " + topic.getKey() + " " + topic.getValue());
            }
        }
        for (Map.Entry<String, ConcurrentMap<Integer, Long>> row : offsets.getOffsetTable().entrySet()) {
            for (Map.Entry<Integer, Long> queue : row.getValue().entrySet()) {
                System.out.println("offset " + row.getKey() + " " + queue.getKey() + " " + queue.getValue());
            }
        }
        if (store.isEnableLmq()) { // light queues are in a table of their own
            System.out.println("offset %LMQ%l@%LMQ%l 0 " + offsets.queryOffset("%LMQ%l", "%LMQ%l", 0));
        }
        System.out.flush();
        topics.stop();
        groups.stop();
        offsets.stop();
        System.exit(0); // threads of a broker that was never started
    }

    private static void version(String of, DataVersion v) {
        System.out.println("version " + of + " " + v.getCounter().get() + " " + v.getStateVersion() + " " + v.getTimestamp());
    }

    /** Two topics, one of them with settings that are no defaults, two groups, what one is forbidden, and offsets. */
    private static void make(TopicConfigManager topics, SubscriptionGroupManager groups, ConsumerOffsetManager offsets, String suffix) {
        TopicConfig plain = new TopicConfig("T" + suffix, 4, 4);
        topics.updateTopicConfig(plain);
        TopicConfig odd = new TopicConfig("Odd" + suffix, 3, 5);
        odd.setPerm(4);
        odd.setOrder(true);
        odd.getAttributes().put("+message.type", "FIFO");
        topics.updateTopicConfig(odd);
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("g" + suffix);
        group.setRetryMaxTimes(3);
        group.setConsumeMessageOrderly(true);
        groups.updateSubscriptionGroupConfig(group);
        groups.findSubscriptionGroupConfig("auto" + suffix);
        groups.updateForbidden("g" + suffix, "T" + suffix, 0, true);
        offsets.commitOffset("127.0.0.1", "g" + suffix, "T" + suffix, 0, 12);
        offsets.commitOffset("127.0.0.1", "g" + suffix, "T" + suffix, 11, 7);
        offsets.commitOffset("127.0.0.1", "g" + suffix, "T" + suffix, 2, -1);
        offsets.commitOffset("127.0.0.1", "auto" + suffix, "%RETRY%auto" + suffix, 0, 3);
        topics.persist();
        groups.persist();
        offsets.persist();
    }
}
