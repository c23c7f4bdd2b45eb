package tandemmq;

import java.util.concurrent.ConcurrentMap;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Loads the consumer offsets of a store directory as a broker does at its start, and prints what it then has.
 *
 * <pre>
 * OffsetCheck DIR default|defaultRocksDB [single] [lmq]
 *
 * loaded true|false
 * counter N
 * offset TOPIC@GROUP QUEUE OFFSET     one line for each
 * </pre>
 *
 * The broker is made and never started: it listens on no port.
 */
public final class OffsetCheck {
    private OffsetCheck() {
    }

    public static void main(String[] words) throws Exception {
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(words[0]);
        store.setStoreType(words[1]);
        BrokerConfig config = new BrokerConfig();
        for (int i = 2; i < words.length; i++) {
            switch (words[i]) {
                case "single" -> config.setUseSingleRocksDBForAllConfigs(true);
                case "lmq" -> store.setEnableLmq(true);
                default -> throw new IllegalArgumentException(words[i]);
            }
        }
        BrokerController broker = new BrokerController(config, new NettyServerConfig(), new NettyClientConfig(), store);
        broker.getTopicConfigManager().load();
        broker.getSubscriptionGroupManager().load();
        ConsumerOffsetManager offsets = broker.getConsumerOffsetManager();
        System.out.println("loaded " + offsets.load());
        System.out.println("counter " + offsets.getDataVersion().getCounter().get());
        for (Map.Entry<String, ConcurrentMap<Integer, Long>> row : offsets.getOffsetTable().entrySet()) {
            for (Map.Entry<Integer, Long> queue : row.getValue().entrySet()) {
                System.out.println("offset " + row.getKey() + " " + queue.getKey() + " " + queue.getValue());
            }
        }
        if (store.isEnableLmq()) { // light queues are in a table of their own
            System.out.println("offset %LMQ%l@%LMQ%l 0 " + offsets.queryOffset("%LMQ%l", "%LMQ%l", 0));
        }
        System.out.flush();
        offsets.stop();
        System.exit(0); // threads of a broker that was never started
    }
}
