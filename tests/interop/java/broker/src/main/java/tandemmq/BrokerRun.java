package tandemmq;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Runs a broker of RocketMQ until its standard input ends.
 *
 * <pre>
 * BrokerRun CONF        broker.conf, as RocketMQ's own start-up takes it; listenPort=0: any free one
 *
 * ready HOST:PORT       when it serves
 * </pre>
 *
 * With the class path of the store programs in front it opens no port for replicas.
 */
public final class BrokerRun {
    private BrokerRun() {
    }

    public static void main(String[] words) throws Exception {
        BrokerController controller = start(words[0]);
        System.out.println("ready " + controller.getBrokerAddr());
        System.out.flush();
        while (System.in.read() >= 0) { // nothing is asked
            continue;
        }
        controller.shutdown();
        System.exit(0);
    }

    static BrokerController start(String file) throws Exception {
        Properties conf = new Properties();
        try (var in = Files.newBufferedReader(Path.of(file))) {
            conf.load(in);
        }
        // Without its version in the requests NameServers take it for one of before 3.0.11, and pass its topics over.
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        BrokerConfig broker = new BrokerConfig();
        NettyServerConfig server = new NettyServerConfig();
        NettyClientConfig client = new NettyClientConfig();
        MessageStoreConfig store = new MessageStoreConfig();
        for (Object config : new Object[] {broker, server, client, store}) {
            MixAll.properties2Object(conf, config);
        }
        BrokerController controller = new BrokerController(broker, server, client, store);
        if (!controller.initialize()) {
            throw new IllegalStateException("the broker could not be initialized, see its log");
        }
        controller.start();
        return controller;
    }
}
